// One conversation: sends it, streams the answer into the log, measures it. Model text only ever becomes
// text nodes, never markup.
import { events_of } from "./sse.js";
import { format_seconds } from "./stats.js";

const element = (tag, name, text = "") => {
  const made = document.createElement(tag);
  made.className = name;
  made.textContent = text;
  return made;
};

// What one event adds: text, thought, usage, or the error that ended the stream.
export function read_event(data) {
  const event = JSON.parse(data);
  if (event.error) throw new Error(event.error.message ?? "the server reported an error");
  const choice = event.choices?.[0];
  return {
    text: choice?.delta?.content ?? choice?.text ?? "",
    thought: choice?.delta?.reasoning_content ?? choice?.delta?.reasoning ?? "",
    reason: choice?.finish_reason ?? null,
    usage: event.usage ?? null,
  };
}

// Text in plain pieces and fenced code, as { code, text }.
export function split_code(text) {
  return text.split(/^```.*$\n?/m).map((piece, i) => ({ code: i % 2 === 1, text: piece }));
}

// A message of the log. Redrawn at most once a frame, however fast tokens come.
class MessageView {
  #text = "";
  #thought = "";
  #frame = 0;

  constructor(log, role) {
    this.log = log;
    this.root = element("article", `message ${role}`);
    this.root.append(element("p", "who", role === "user" ? "You" : "Model"));
    this.body = element("div", "text");
    this.root.append(this.body);
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
    const at_end = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 60;
    this.body.replaceChildren(...split_code(this.#text).map(({ code, text }) =>
      code ? element("pre", "", text) : document.createTextNode(text)));
    if (this.#thought) this.#draw_thought();
    if (at_end) this.log.scrollTop = this.log.scrollHeight;
  }

  #draw_thought() {
    if (!this.thought) {
      this.thought = element("details", "thought");
      this.thought.append(element("summary", "", "Thoughts"), element("p", ""));
      this.body.before(this.thought);
    }
    this.thought.lastChild.textContent = this.#thought;
  }

  note(name, text) {
    this.root.append(element("p", name, text));
    this.log.scrollTop = this.log.scrollHeight;
  }
}

// Times and counts of one answer, as the person sees them.
class Stopwatch {
  #start = performance.now();
  #first = 0;
  #last = 0;
  #pieces = 0;
  usage = null;

  token() {
    this.#last = performance.now();
    this.#first ||= this.#last;
    ++this.#pieces;
  }

  toString() {
    if (this.#pieces === 0) return "";
    const tokens = this.usage?.completion_tokens ?? this.#pieces;
    const parts = [`${tokens} tokens`, `first after ${format_seconds((this.#first - this.#start) / 1e3)}`];
    if (tokens > 1 && this.#last > this.#first)
      parts.push(`${((tokens - 1) / ((this.#last - this.#first) / 1e3)).toFixed(1)} tokens/s`);
    const cached = this.usage?.prompt_tokens_details?.cached_tokens ?? 0;
    if (this.usage) parts.push(`prompt ${this.usage.prompt_tokens}${cached ? ` (${cached} cached)` : ""}`);
    return parts.join(" · ");
  }
}

async function failure_of(response) {
  const text = await response.text().catch(() => "");
  try {
    return JSON.parse(text).error.message;
  } catch {
    return `the server answered ${response.status} ${response.statusText}`;
  }
}

export class Chat {
  #messages = [];
  #controller = null;

  // `settings()` gives { mode, system, headers, fields }; `on_busy(busy)` hears when an answer begins and ends.
  constructor(log, settings, on_busy) {
    this.log = log;
    this.settings = settings;
    this.on_busy = on_busy;
  }

  get busy() {
    return this.#controller !== null;
  }

  stop() {
    this.#controller?.abort();
  }

  clear() {
    this.stop();
    this.#messages = [];
    this.log.querySelectorAll(".message").forEach((message) => message.remove());
  }

  async send(prompt) {
    const conversation = this.#messages;  // clear() starts another one; this answer stays with its own
    conversation.push({ role: "user", content: prompt });
    const asked = new MessageView(this.log, "user");
    asked.add(prompt);
    asked.draw();
    const view = new MessageView(this.log, "assistant");
    this.#begin(view);
    const watch = new Stopwatch();
    try {
      await this.#stream(conversation, view, watch, this.#controller.signal);
    } catch (error) {
      if (error.name === "AbortError") view.note("facts", "stopped");
      else view.note("problem", error instanceof TypeError ? "The connection to the server was lost." : error.message);
    } finally {
      view.draw();
      if (`${watch}`) view.note("facts", `${watch}`);
      // A failed turn leaves no empty answer behind for the template to stumble over.
      if (view.text) conversation.push({ role: "assistant", content: view.text });
      else conversation.pop();
      this.#end(view);
    }
  }

  #begin(view) {
    this.#controller = new AbortController();
    this.log.setAttribute("aria-busy", "true");  // read aloud once it is whole
    view.root.classList.add("busy");
    this.on_busy(true);
  }

  #end(view) {
    this.#controller = null;
    this.log.removeAttribute("aria-busy");
    view.root.classList.remove("busy");
    this.on_busy(false);
  }

  async #stream(conversation, view, watch, signal) {
    const { mode, system, headers, fields } = this.settings();
    const chat = mode === "chat";
    const messages = system ? [{ role: "system", content: system }, ...conversation] : conversation;
    const body = {
      ...fields, ...(chat ? { messages } : { prompt: conversation.at(-1).content }),
      stream: true, stream_options: { include_usage: true },
    };
    const response = await fetch(chat ? "v1/chat/completions" : "v1/completions", {
      method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body), signal,
    });
    if (!response.ok) throw new Error(await failure_of(response));
    for await (const data of events_of(response.body)) {
      const { text, thought, reason, usage } = read_event(data);
      if (text || thought) {
        watch.token();
        view.add(text, thought);
      }
      if (usage) watch.usage = usage;
      if (reason === "length") view.note("facts", "cut at the most tokens allowed");
    }
  }
}
