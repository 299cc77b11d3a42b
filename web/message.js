// SPDX-License-Identifier: MIT
// One message of the log, and the log that follows its end unless the reader has scrolled up.
import { parse, render } from "./markdown.js";
import { token_view } from "./tokens.js";

const kNear = 40;  // pixels from the end that still count as the end

const element = (tag, name, text = "") => {
  const made = document.createElement(tag);
  made.className = name;
  made.textContent = text;
  return made;
};

export function button(text, label, act) {
  const made = element("button", "quiet small", text);
  made.type = "button";
  made.title = label;
  made.addEventListener("click", act);
  return made;
}

export async function copy_text(text, from) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // no permission, or not a secure origin
    const area = element("textarea", "hidden");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const before = from.textContent;
  from.textContent = "Copied";
  setTimeout(() => { from.textContent = before; }, 1200);
}

const indented = (json) => {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {  // cut off, or no JSON
    return json;
  }
};

// Keeps the end in view while it grows. Only the reader's own scrolling lets it go; sending takes it up again.
export class Follower {
  #held = true;
  #top = 0;

  constructor(log) {
    this.log = log;
    log.addEventListener("scroll", () => {
      const is_near = log.scrollHeight - log.scrollTop - log.clientHeight < kNear;
      if (is_near || log.scrollTop < this.#top) this.#held = is_near;  // a log that shrinks does not scroll up
      this.#top = log.scrollTop;
    }, { passive: true });
    new ResizeObserver(() => this.follow()).observe(log);
  }

  hold() {
    this.#held = true;
    this.follow();
  }

  follow() {
    if (this.#held) this.log.scrollTop = this.log.scrollHeight;
  }
}

// Redrawn at most once a frame, however fast tokens come; blocks that did not change stay.
export class MessageView {
  #text = "";
  #thought = "";
  #frame = 0;
  #drawn = [];  // the source of each block that stands in the body

  // `actions(view)` gives the buttons below the message.
  constructor(log, follower, role, actions) {
    this.follower = follower;
    this.role = role;
    this.root = element("article", `message ${role}`);
    this.root.append(element("p", "who", { user: "You", tool: "Result of the call" }[role] ?? "Model"));
    this.body = element("div", "text");
    this.actions = element("div", "actions");
    this.actions.append(...actions(this));
    this.root.append(this.body, this.actions);
    this.root.addEventListener("click", (event) => {
      if (!event.target.classList.contains("copy")) return;
      copy_text(event.target.closest("figure").querySelector("pre").textContent, event.target);
    });
    log.append(this.root);
  }

  get text() {
    return this.#text;
  }

  add(text, thought = "") {
    this.#text += text;
    this.#thought += thought;
    this.#frame ||= requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    if (this.role === "assistant") this.#draw_blocks(parse(this.#text));
    else this.body.textContent = this.#text;
    if (this.#thought) this.#draw_thought();
    this.follower.follow();
  }

  #draw_blocks(blocks) {
    let same = 0;
    while (same < blocks.length && blocks[same].source === this.#drawn[same]) ++same;
    while (this.body.childNodes.length > same) this.body.lastChild.remove();
    this.body.append(...blocks.slice(same).map(render));
    this.#drawn = blocks.map((block) => block.source);
  }

  #draw_thought() {
    if (!this.thought) {
      this.thought = element("details", "thought");
      this.thought.append(element("summary", "", "Thoughts"), element("p", ""));
      this.body.before(this.thought);
    }
    this.thought.lastChild.textContent = this.#thought;
  }

  show_calls(calls) {
    for (const { name, arguments: text } of calls) {
      const box = element("div", "call");
      box.append(element("div", "name", name), element("pre", "", indented(text)));
      this.actions.before(box);
    }
    this.follower.follow();
  }

  show_tokens(tokens, token_ms) {
    const view = token_view(tokens, token_ms);
    view.hidden = true;
    const toggle = button("Tokens", "Each token with its probability and time", () => {
      view.hidden = !view.hidden;
      toggle.setAttribute("aria-expanded", String(!view.hidden));
      this.follower.follow();
    });
    toggle.setAttribute("aria-expanded", "false");
    this.actions.append(toggle);
    this.actions.before(view);
    this.follower.follow();
  }

  note(name, text) {
    this.actions.before(element("p", name, text));
    this.follower.follow();
  }
}
