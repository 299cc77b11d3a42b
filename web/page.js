// SPDX-License-Identifier: MIT
// Ties the controls of the page to the chat and the dashboard.
import { Chat } from "./chat.js";
import { Conversations } from "./conversations.js";
import { Dashboard } from "./dashboard.js";

const by_id = (id) => document.getElementById(id);
const kNumbers = ["temperature", "top-p", "top-k", "min-p", "repetition-penalty", "max-tokens", "seed"];
const kKept = ["mode", "system", ...kNumbers];  // the key is never stored
const kThemes = { auto: ["Auto", "Theme: as the system"], light: ["Light", "Theme: light"], dark: ["Dark", "Theme: dark"] };

// Private windows may refuse storage: settings then last as long as the page.
const store = {
  get: (name) => { try { return localStorage.getItem(`cheetah.${name}`); } catch { return null; } },
  set: (name, value) => { try { localStorage.setItem(`cheetah.${name}`, value); } catch { /* not kept */ } },
};

let knows_models = false;

function headers() {
  const key = by_id("api-key").value.trim();
  return key ? { authorization: `Bearer ${key}` } : {};
}

function settings() {
  const model = by_id("model").value;
  const fields = model ? { model } : {};
  for (const id of kNumbers) {
    const value = by_id(id).valueAsNumber;
    if (Number.isFinite(value)) fields[id.replaceAll("-", "_")] = value;
  }
  return { mode: by_id("mode").value, system: by_id("system").value.trim(), headers: headers(), fields };
}

async function find_models() {
  try {
    const response = await fetch("v1/models", { headers: headers(), signal: AbortSignal.timeout(5000) });
    if (!response.ok) return;
    const names = (await response.json()).data.map((model) => model.id);
    if (names.length === 0) return;
    const chosen = store.get("model");
    by_id("model").replaceChildren(...names.map((name) => new Option(name, name, false, name === chosen)));
    knows_models = true;
    show_title();
  } catch { /* the status line says that the server is away; asked again when it is back */ }
}

function show_title() {
  document.title = `${by_id("model").value} · Cheetah`;
}

function show_state(state, text) {
  const status = by_id("status");
  if (status.dataset.state !== state || status.textContent !== text) {
    status.dataset.state = state;
    status.textContent = text;
    if (text === "API key needed") by_id("settings").open = true;
  }
  by_id("send").disabled = state === "waiting";
  if (state === "up" && !knows_models) find_models();
}

function set_theme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const [text, label] = kThemes[theme];
  by_id("theme").textContent = text;
  by_id("theme").setAttribute("aria-label", label);
  store.set("theme", theme);
}

function set_up_theme() {
  const names = Object.keys(kThemes);
  let theme = names.includes(store.get("theme")) ? store.get("theme") : "auto";
  set_theme(theme);
  by_id("theme").addEventListener("click", () => {
    theme = names[(names.indexOf(theme) + 1) % names.length];
    set_theme(theme);
  });
}

function set_up_settings() {
  for (const id of kKept) {
    const field = by_id(id);
    const kept = store.get(id);
    if (kept !== null) field.value = kept;
    field.addEventListener("change", () => store.set(id, field.value));
  }
}

function show_metrics(visible) {
  document.querySelector(".columns").classList.toggle("no-metrics", !visible);
  by_id("toggle-metrics").setAttribute("aria-expanded", String(visible));
}

function set_up_metrics(dashboard) {
  const narrow = matchMedia("(max-width: 60rem)").matches;
  show_metrics(!narrow);
  by_id("toggle-metrics").addEventListener("click", () =>
    show_metrics(by_id("toggle-metrics").getAttribute("aria-expanded") === "false"));
  by_id("api-key").addEventListener("change", () => dashboard.poll_soon());
}

function fit_prompt() {
  const prompt = by_id("prompt");
  prompt.style.height = "auto";
  prompt.style.height = `${prompt.scrollHeight + 2}px`;
}

function edit(text) {
  by_id("prompt").value = text;
  fit_prompt();
  by_id("prompt").focus();
}

function set_up_composer(chat) {
  const prompt = by_id("prompt");
  prompt.addEventListener("input", fit_prompt);
  prompt.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    by_id("composer").requestSubmit();
  });
  by_id("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = prompt.value.trim();
    if (!text || chat.busy || by_id("send").disabled) return;
    prompt.value = "";
    fit_prompt();
    by_id("settings").open = false;
    by_id("empty").hidden = true;
    chat.send(text);
  });
  by_id("stop").addEventListener("click", () => chat.stop());
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    if (chat.busy) chat.stop();
    else by_id("settings").open = false;
  });
}

// The list of conversations, and which of them is on the screen.
class Shelf {
  #kept;
  #id = "";

  constructor(storage) {
    this.#kept = new Conversations(storage);
  }

  set_up(chat) {
    this.chat = chat;
    by_id("conversations").addEventListener("change", () => this.open(by_id("conversations").value));
    by_id("new").addEventListener("click", () => this.open(""));
    by_id("clear").addEventListener("click", () => {
      this.#kept.forget(this.#id);
      this.open("");
    });
    this.open(this.#kept.list()[0]?.id ?? "");
  }

  open(id) {
    this.#id = id || `${Date.now()}-${Math.random().toString(36).slice(2, 8)}`;
    const messages = this.#kept.messages(id);
    this.chat.open(messages);
    by_id("empty").hidden = messages.length > 0;
    this.#draw();
    by_id("prompt").focus();
  }

  keep(messages) {
    this.#kept.keep(this.#id, messages);
    by_id("empty").hidden = messages.length > 0 || this.chat.busy;
    this.#draw();
  }

  #draw() {
    const list = this.#kept.list();
    const all = list.some(({ id }) => id === this.#id) ? list : [{ id: this.#id, title: "New conversation" }, ...list];
    by_id("conversations").replaceChildren(...all.map(({ id, title }) => new Option(title, id, false, id === this.#id)));
  }
}

function show_busy(busy) {
  const held_focus = document.activeElement === by_id("send") || document.activeElement === by_id("stop");
  by_id("send").hidden = busy;
  by_id("stop").hidden = !busy;
  if (held_focus) by_id(busy ? "stop" : "prompt").focus();
}

by_id("base-url").textContent = new URL("v1", location.href).href;
set_up_theme();
set_up_settings();
const nowhere = { getItem: () => null, setItem: () => {} };
const storage = (() => { try { return localStorage; } catch { return nowhere; } })();
const shelf = new Shelf(storage);
const chat = new Chat(by_id("log"), settings, { busy: show_busy, changed: (messages) => shelf.keep(messages), edit });
set_up_composer(chat);
shelf.set_up(chat);
by_id("model").addEventListener("change", () => {
  store.set("model", by_id("model").value);
  show_title();
});
set_up_metrics(new Dashboard(headers, show_state));
by_id("prompt").focus();
