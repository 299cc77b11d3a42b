// SPDX-License-Identifier: MIT
// Ties the controls of the page to the chat, the dashboard and the inspector.
import { Chat } from "./chat.js";
import { Conversations } from "./conversations.js";
import { Dashboard } from "./dashboard.js";
import { Inspector } from "./inspector.js";

const by_id = (id) => document.getElementById(id);
const kNumbers = ["temperature", "top-p", "top-k", "min-p", "repetition-penalty", "max-tokens", "seed"];
const kKept = ["mode", "system", "stop-text", "schema", "tools", "tool-choice", "span", "slo-ttft", "slo-tpot", ...kNumbers];  // the key is never stored
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

// The JSON in a field; undefined: it is empty. Says below the field what is wrong with it, and then throws.
function read_json(id, expected, fits) {
  const text = by_id(id).value.trim(), problem = by_id(`${id}-problem`);
  problem.hidden = true;
  if (!text) return undefined;
  try {
    const value = JSON.parse(text);
    if (!fits(value)) throw new Error(`expected ${expected}`);
    return value;
  } catch (error) {
    problem.textContent = error instanceof SyntaxError ? `This is not JSON: ${error.message}` : `This is not usable: ${error.message}.`;
    problem.hidden = false;
    throw error;
  }
}

function structure() {
  const schema = read_json("schema", "a JSON schema: an object", (value) => value !== null && typeof value === "object" && !Array.isArray(value));
  const tools = read_json("tools", "an array of tools", Array.isArray);
  const fields = {};
  if (schema) fields.response_format = { type: "json_schema", json_schema: { name: "answer", schema, strict: true } };
  if (tools?.length > 0) Object.assign(fields, { tools, tool_choice: by_id("tool-choice").value });
  return fields;
}

function settings() {
  const mode = by_id("mode").value, chat = mode === "chat", model = by_id("model").value;
  const fields = model ? { model } : {};
  for (const id of kNumbers) {
    const value = by_id(id).valueAsNumber;
    if (Number.isFinite(value)) fields[id.replaceAll("-", "_")] = value;
  }
  const stop = by_id("stop-text").value;
  if (stop) fields.stop = [stop];
  if (by_id("logprobs").checked) Object.assign(fields, chat ? { logprobs: true, top_logprobs: 5 } : { logprobs: 5 });
  if (chat) Object.assign(fields, structure());
  return { mode, system: by_id("system").value.trim(), headers: headers(), fields };
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

function show_state(state, text, share) {
  const status = by_id("status");
  if (status.dataset.state !== state || status.textContent !== text) {
    status.dataset.state = state;
    status.textContent = text;
    if (text === "API key needed") by_id("settings").open = true;
  }
  const loading = by_id("loading");
  loading.hidden = share === undefined;
  loading.setAttribute("aria-valuenow", String(Math.round(100 * (share ?? 0))));
  loading.firstElementChild.style.width = `${100 * (share ?? 0)}%`;
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

// A dot at the button of a sheet in which something is set.
function show_what_is_set() {
  const is_set = (id) => by_id(id).value !== by_id(id).defaultValue && by_id(id).value !== "";
  by_id("settings").classList.toggle("set", [...kNumbers, "system", "stop-text", "api-key"].some(is_set) || by_id("mode").value !== "chat");
  by_id("structure").classList.toggle("set", ["schema", "tools"].some(is_set));
}

function set_up_settings() {
  for (const id of kKept) {
    const field = by_id(id);
    const kept = store.get(id);
    if (kept !== null) field.value = kept;
    field.addEventListener("change", () => {
      store.set(id, field.value);
      show_what_is_set();
    });
  }
  for (const id of ["schema", "tools"])
    by_id(id).addEventListener("change", () => { try { structure(); } catch { /* said below the field */ } });
  document.addEventListener("pointerdown", (event) => {
    for (const sheet of document.querySelectorAll("details.settings[open]"))
      if (!sheet.contains(event.target)) sheet.open = false;
  });
  show_what_is_set();
}

function set_up_toggle(button, part, css_class, narrow, on_show = () => {}) {
  const show = (visible) => {
    document.querySelector(".columns").classList.toggle(css_class, !visible);
    by_id(button).setAttribute("aria-expanded", String(visible));
    if (visible) on_show();
  };
  show(!matchMedia(narrow).matches);
  by_id(button).addEventListener("click", () => show(by_id(button).getAttribute("aria-expanded") === "false"));
  return { show, get visible() { return by_id(button).getAttribute("aria-expanded") === "true"; }, part: by_id(part) };
}

// One of the panel's tabs is shown; arrow keys move between them.
function set_up_tabs(shown) {
  const tabs = [...document.querySelectorAll('[role="tab"]')];
  const choose = (chosen, moves) => {
    for (const tab of tabs) {
      const here = tab === chosen;
      tab.setAttribute("aria-selected", String(here));
      tab.tabIndex = here ? 0 : -1;
      by_id(tab.getAttribute("aria-controls")).hidden = !here;
    }
    if (moves) chosen.focus();
    shown();
  };
  for (const tab of tabs) {
    tab.addEventListener("click", () => choose(tab, false));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const seen = tabs.filter((one) => !one.hidden);
      if (step) choose(seen[(seen.indexOf(tab) + step + seen.length) % seen.length], true);
    });
  }
  return (name) => choose(by_id(`tab-${name}`), false);
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

// The model waits for what a call gave.
function show_open_call(call) {
  const hint = by_id("tool-hint");
  hint.hidden = call === null;
  hint.textContent = call ? `The model called ${call.function.name}. Send what it gave.` : "";
  by_id("prompt").placeholder = call ? `Result of ${call.function.name}` : "Message";
}

function may_send() {
  try {
    settings();
    return true;
  } catch {
    by_id("structure").open = true;
    return false;
  }
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
    if (!text || chat.busy || by_id("send").disabled || !may_send()) return;
    prompt.value = "";
    fit_prompt();
    for (const sheet of document.querySelectorAll("details.settings")) sheet.open = false;
    by_id("empty").hidden = true;
    chat.send(text);
  });
  by_id("stop").addEventListener("click", () => chat.stop());
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const open = document.querySelector("details.settings[open]");
    if (chat.busy) chat.stop();
    else if (open) {
      open.open = false;
      open.querySelector("summary").focus();
    }
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
    by_id("new").addEventListener("click", () => this.open(""));
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

  #forget(id, title) {
    if (!confirm(`Delete the conversation “${title}”?`)) return;
    this.#kept.forget(id);
    if (id === this.#id) this.open("");
    else this.#draw();
  }

  #draw() {
    const list = this.#kept.list();
    const all = list.some(({ id }) => id === this.#id) ? list : [{ id: this.#id, title: "New conversation", fresh: true }, ...list];
    by_id("conversations").replaceChildren(...all.map((one) => this.#row(one)));
  }

  #row({ id, title, fresh }) {
    const row = document.createElement("li");
    const make = (name, text, label, act) => {
      const made = document.createElement("button");
      Object.assign(made, { type: "button", className: name, textContent: text, title: label });
      made.addEventListener("click", act);
      return made;
    };
    row.append(make("open", title, title, () => this.open(id)));
    if (id === this.#id) {
      row.dataset.open = "";
      row.firstChild.setAttribute("aria-current", "true");
    }
    if (fresh) return row;
    const forget = make("forget", "×", `Delete “${title}”`, () => this.#forget(id, title));
    forget.setAttribute("aria-label", `Delete “${title}”`);
    row.append(forget);
    return row;
  }
}

function show_busy(busy) {
  const held_focus = document.activeElement === by_id("send") || document.activeElement === by_id("stop");
  by_id("send").hidden = busy;
  by_id("stop").hidden = !busy;
  if (held_focus) by_id(busy ? "stop" : "prompt").focus();
  if (!busy) by_id("says").textContent = "The answer is complete.";
}

const objective_of = (id) => (by_id(id).valueAsNumber > 0 ? by_id(id).valueAsNumber : null);
const options = () => ({
  span_s: Number(by_id("span").value),
  slo_ttft_s: objective_of("slo-ttft") && objective_of("slo-ttft") / 1e3,
  slo_tpot_s: objective_of("slo-tpot") && objective_of("slo-tpot") / 1e3,
});

by_id("base-url").textContent = new URL("v1", location.href).href;
set_up_theme();
set_up_settings();
const nowhere = { getItem: () => null, setItem: () => {} };
const storage = (() => { try { return localStorage; } catch { return nowhere; } })();
set_up_toggle("toggle-side", "side", "no-side", "(max-width: 75rem)");
const panel = set_up_toggle("toggle-metrics", "metrics", "no-metrics", "(max-width: 60rem)");
const inspector = new Inspector(by_id("request-view"), by_id("request-empty"), headers, () => objective_of("slo-tpot"));
const shelf = new Shelf(storage);
let newest = null;  // the last answer: shown when the request tab is opened first
const inspect = (about) => {
  panel.show(true);
  choose_tab("request");
  inspector.show(about);
  newest = null;
};
const chat = new Chat(by_id("log"), settings, {
  busy: show_busy, changed: (messages) => shelf.keep(messages), edit, inspect, waits: show_open_call,
  answered: (about) => {
    newest = about;
    show_newest();
  },
});
const dashboard = new Dashboard(headers, options, {
  state: show_state,
  cluster: (there) => { by_id("tab-cluster").hidden = !there; },
});
const choose_tab = set_up_tabs(() => {
  dashboard.redraw();
  show_newest();
});
function show_newest() {
  if (newest === null || by_id("panel-request").hidden) return;
  inspector.show(newest);
  newest = null;
}
set_up_composer(chat);
shelf.set_up(chat);
by_id("model").addEventListener("change", () => {
  store.set("model", by_id("model").value);
  show_title();
});
by_id("api-key").addEventListener("change", () => dashboard.poll_soon());
for (const id of ["span", "slo-ttft", "slo-tpot"]) by_id(id).addEventListener("change", () => dashboard.redraw());
by_id("prompt").focus();
