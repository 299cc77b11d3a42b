// Ties the controls of the page to the chat and the dashboard.
import { Chat } from "./chat.js";
import { Dashboard } from "./dashboard.js";

const by_id = (id) => document.getElementById(id);
const kKept = ["mode", "temperature", "top-p", "max-tokens", "seed", "system"];  // the key is never stored
const kThemes = { auto: ["Auto", "Theme: as the system"], light: ["Light", "Theme: light"], dark: ["Dark", "Theme: dark"] };

// Private windows may refuse storage: settings then last as long as the page.
const store = {
  get: (name) => { try { return localStorage.getItem(`cheetah.${name}`); } catch { return null; } },
  set: (name, value) => { try { localStorage.setItem(`cheetah.${name}`, value); } catch { /* not kept */ } },
};

let model_name = null;

function headers() {
  const key = by_id("api-key").value.trim();
  return key ? { authorization: `Bearer ${key}` } : {};
}

function settings() {
  const fields = model_name ? { model: model_name } : {};
  const number = (id, name) => {
    const value = by_id(id).valueAsNumber;
    if (Number.isFinite(value)) fields[name] = value;
  };
  number("temperature", "temperature");
  number("top-p", "top_p");
  number("max-tokens", "max_tokens");
  number("seed", "seed");
  return { mode: by_id("mode").value, system: by_id("system").value.trim(), headers: headers(), fields };
}

async function find_model() {
  try {
    const response = await fetch("v1/models", { headers: headers(), signal: AbortSignal.timeout(5000) });
    if (!response.ok) return;
    model_name = (await response.json()).data[0].id;
    by_id("model").textContent = model_name;
    document.title = `${model_name} · Cheetah`;
  } catch { /* the status line says that the server is away; asked again when it is back */ }
}

function show_state(state, text) {
  const status = by_id("status");
  if (status.dataset.state !== state || status.textContent !== text) {
    status.dataset.state = state;
    status.textContent = text;
    if (text === "API key needed") by_id("settings").open = true;
  }
  if (state === "up" && model_name === null) find_model();
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

function set_up_composer(chat) {
  const prompt = by_id("prompt");
  const fit = () => {
    prompt.style.height = "auto";
    prompt.style.height = `${prompt.scrollHeight + 2}px`;
  };
  prompt.addEventListener("input", fit);
  prompt.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    by_id("composer").requestSubmit();
  });
  by_id("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = prompt.value.trim();
    if (!text || chat.busy) return;
    prompt.value = "";
    fit();
    by_id("empty").hidden = true;
    chat.send(text);
  });
  by_id("stop").addEventListener("click", () => chat.stop());
  by_id("clear").addEventListener("click", () => {
    chat.clear();
    by_id("empty").hidden = false;
    prompt.focus();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && chat.busy) chat.stop();
  });
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
set_up_composer(new Chat(by_id("log"), settings, show_busy));
set_up_metrics(new Dashboard(headers, show_state));
by_id("prompt").focus();
