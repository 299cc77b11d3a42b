// SPDX-License-Identifier: MIT
// One conversation: sends it, streams the answer into the log, shows the server's own timings.
import { Follower, MessageView, button, copy_text } from "./message.js";
import { events_of } from "./sse.js";
import { format_seconds } from "./stats.js";

// What one event adds: text, thought, usage, timings, or the error that ended the stream.
export function read_event(data) {
  const event = JSON.parse(data);
  if (event.error) throw new Error(event.error.message ?? "the server reported an error");
  const choice = event.choices?.[0];
  return {
    text: choice?.delta?.content ?? choice?.text ?? "",
    thought: choice?.delta?.reasoning_content ?? choice?.delta?.reasoning ?? "",
    reason: choice?.finish_reason ?? null,
    usage: event.usage ?? null,
    timings: event.timings ?? null,
  };
}

// Times and counts of one answer. The server measures them: a browser sees tokens in bursts.
export function facts_of(usage, timings, pieces) {
  const tokens = usage?.completion_tokens ?? timings?.predicted_n ?? pieces;
  if (!tokens) return "";
  const parts = [`${tokens} ${tokens === 1 ? "token" : "tokens"}`];
  if (timings) parts.push(`first token after ${format_seconds(timings.ttft_ms / 1e3)}`);
  // The first token came out of the prompt's step: the others took the time of decoding.
  if (timings?.predicted_n > 1 && timings.predicted_ms > 0)
    parts.push(`${(1e3 * (timings.predicted_n - 1) / timings.predicted_ms).toFixed(1)} tokens/s`);
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? 0;
  if (usage) parts.push(`prompt ${usage.prompt_tokens}${cached ? ` (${cached} cached)` : ""}`);
  return parts.join(" · ");
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
  #views = [];
  #controller = null;

  // `settings()` gives { mode, system, headers, fields }. `hears`: busy(is_busy), changed(messages), edit(text).
  constructor(log, settings, hears) {
    this.log = log;
    this.settings = settings;
    this.hears = hears;
    this.follower = new Follower(log);
  }

  get busy() {
    return this.#controller !== null;
  }

  stop() {
    this.#controller?.abort();
  }

  // Shows a conversation; [] begins a new one. An answer that is still coming stays with the old one.
  open(messages) {
    this.stop();
    this.#messages = messages.map(({ role, content }) => ({ role, content }));
    this.#views.forEach((view) => view.root.remove());
    this.#views = [];
    for (const { role, content } of this.#messages) this.#show(role, content);
    this.follower.hold();
  }

  async send(prompt) {
    const conversation = this.#messages;  // open() starts another one; this answer stays with its own
    conversation.push({ role: "user", content: prompt });
    const asked = this.#show("user", prompt);
    this.hears.changed(conversation);
    const view = this.#show("assistant", "");
    this.follower.hold();
    this.#begin(view);
    const seen = { pieces: 0, usage: null, timings: null };
    try {
      await this.#stream(conversation, view, seen, this.#controller.signal);
    } catch (error) {
      if (error.name === "AbortError") view.note("facts", "stopped");
      else view.note("problem", error instanceof TypeError ? "The connection to the server was lost." : error.message);
    } finally {
      view.draw();
      const facts = facts_of(seen.usage, seen.timings, seen.pieces);
      if (facts) view.note("facts", facts);
      this.#keep(conversation, asked, view);
      this.#end(view);
    }
  }

  // A failed turn leaves no question without an answer behind for the template to stumble over.
  #keep(conversation, asked, view) {
    if (view.text) conversation.push({ role: "assistant", content: view.text });
    else conversation.pop();
    asked.counts = view.counts = view.text !== "";
    if (conversation === this.#messages) this.hears.changed(conversation);
  }

  #show(role, text) {
    const view = new MessageView(this.log, this.follower, role, (made) => {
      const copy = button("Copy", "Copy this message", () => copy_text(made.text, copy));
      return [copy, role === "user" ? button("Edit", "Change this message and ask again", () => this.#edit(made))
        : button("Retry", "Ask again", () => this.#retry(made))];
    });
    view.counts = true;
    this.#views.push(view);
    view.add(text);
    view.draw();
    return view;
  }

  // Forgets a message and all that follow it.
  #cut_from(view) {
    this.#views.splice(this.#views.indexOf(view)).forEach((gone) => gone.root.remove());
    this.#messages.length = this.#views.filter((one) => one.counts).length;
    this.hears.changed(this.#messages);
  }

  #edit(view) {
    if (this.busy) return;
    this.#cut_from(view);
    this.hears.edit(view.text);
  }

  async #retry(view) {
    const asked = this.#views[this.#views.indexOf(view) - 1];
    if (this.busy || asked?.role !== "user") return;
    this.#cut_from(asked);
    await this.send(asked.text);
  }

  #begin(view) {
    this.#controller = new AbortController();
    this.log.setAttribute("aria-busy", "true");  // read aloud once it is whole
    view.root.classList.add("busy");
    this.hears.busy(true);
  }

  #end(view) {
    this.#controller = null;
    this.log.removeAttribute("aria-busy");
    view.root.classList.remove("busy");
    this.hears.busy(false);
  }

  async #stream(conversation, view, seen, signal) {
    const { mode, system, headers, fields } = this.settings();
    const chat = mode === "chat";
    const messages = system ? [{ role: "system", content: system }, ...conversation] : conversation;
    const body = {
      ...fields, ...(chat ? { messages } : { prompt: conversation.at(-1).content }),
      stream: true, stream_options: { include_usage: true },
    };
    const response = await fetch(chat ? "v1/chat/completions" : "v1/completions", {
      method: "POST", headers: { "content-type": "application/json", "x-cheetah-timings": "1", ...headers },
      body: JSON.stringify(body), signal,
    });
    if (!response.ok) throw new Error(await failure_of(response));
    for await (const data of events_of(response.body)) {
      const { text, thought, reason, usage, timings } = read_event(data);
      if (text || thought) {
        ++seen.pieces;
        view.add(text, thought);
      }
      seen.usage = usage ?? seen.usage;
      seen.timings = timings ?? seen.timings;
      if (reason === "length") view.note("facts", "stopped at the token limit");
    }
  }
}
