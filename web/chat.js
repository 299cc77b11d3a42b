// SPDX-License-Identifier: MIT
// One conversation: sends it, streams the answer into the log, shows the server's own timings.
import { Answer, facts_of, open_call, read_event, to_wire } from "./answer.js";
import { Follower, MessageView, button, copy_text } from "./message.js";
import { events_of } from "./sse.js";

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

  // `settings()` gives { mode, system, headers, fields }. `hears`: busy(is_busy), changed(messages), edit(text),
  // inspect(about), answered(about), waits(call or null).
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
    this.#messages = [...messages];
    this.#views.forEach((view) => view.root.remove());
    this.#views = [];
    for (const message of this.#messages) this.#show(message);
    this.hears.waits(open_call(this.#messages));
    this.follower.hold();
  }

  // A message of the person or, while the model waits for one, the result of a call.
  async send(text) {
    const call = open_call(this.#messages);
    const message = call ? { role: "tool", tool_call_id: call.id, content: text } : { role: "user", content: text };
    this.#messages.push(message);
    this.#show(message);
    this.hears.changed(this.#messages);
    this.hears.waits(open_call(this.#messages));
    this.follower.hold();
    if (open_call(this.#messages) === null) await this.#ask();
  }

  async #ask() {
    const conversation = this.#messages;  // open() starts another one; this answer stays with its own
    const asked = this.#views.at(-1);
    const view = this.#show({ role: "assistant", content: "" });
    this.follower.hold();
    this.#begin(view);
    const answer = new Answer();
    try {
      await this.#stream(conversation, view, answer, this.#controller.signal);
    } catch (error) {
      if (error.name === "AbortError") view.note("facts", "stopped");
      else view.note("problem", error instanceof TypeError ? "The connection to the server was lost." : error.message);
    } finally {
      this.#keep(conversation, asked, view, answer);
      this.#end(view);
    }
  }

  // A failed turn leaves no question without an answer behind for the template to stumble over.
  #keep(conversation, asked, view, answer) {
    view.draw();
    view.show_calls(answer.calls);
    const facts = facts_of(answer.usage, answer.timings, answer.pieces);
    if (facts) view.note("facts", facts);
    if (answer.tokens.length > 0) view.show_tokens(answer.tokens, answer.timings?.token_ms);
    view.about = { usage: answer.usage, timings: answer.timings };
    if (answer.is_empty) conversation.pop();
    else conversation.push(answer.message());
    asked.counts = view.counts = !answer.is_empty;
    if (answer.timings) this.hears.answered(view.about);
    if (conversation !== this.#messages) return;
    this.hears.changed(conversation);
    this.hears.waits(open_call(conversation));
  }

  #show(message) {
    const view = new MessageView(this.log, this.follower, message.role, (made) => this.#actions(made));
    view.counts = true;
    view.about = message.about ?? null;
    this.#views.push(view);
    view.add(message.content ?? "");
    view.draw();
    view.show_calls((message.tool_calls ?? []).map(({ id, function: called }) => ({ id, ...called })));
    if (message.about) view.note("facts", facts_of(message.about.usage, message.about.timings, 0));
    return view;
  }

  #actions(view) {
    const copy = button("Copy", "Copy this message", () => copy_text(view.text, copy));
    if (view.role === "user") return [copy, button("Edit", "Change this message and ask again", () => this.#edit(view))];
    if (view.role === "tool") return [copy];
    return [copy, button("Retry", "Ask again", () => this.#retry(view)),
      button("Inspect", "What the scheduler did for this answer", () => this.hears.inspect(view.about))];
  }

  // Forgets a message and all that follow it.
  #cut_from(view) {
    this.#views.splice(this.#views.indexOf(view)).forEach((gone) => gone.root.remove());
    this.#messages.length = this.#views.filter((one) => one.counts).length;
    this.hears.changed(this.#messages);
    this.hears.waits(open_call(this.#messages));
  }

  #edit(view) {
    if (this.busy) return;
    this.#cut_from(view);
    this.hears.edit(view.text);
  }

  async #retry(view) {
    const asked = this.#views[this.#views.indexOf(view) - 1];
    if (this.busy || !asked) return;
    if (asked.counts) {
      this.#cut_from(view);
      await this.#ask();
    } else {
      this.#cut_from(asked);
      await this.send(asked.text);
    }
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

  async #stream(conversation, view, answer, signal) {
    const { mode, system, headers, fields } = this.settings();
    const chat = mode === "chat";
    const before = system ? [{ role: "system", content: system }] : [];
    const body = {
      ...fields, ...(chat ? { messages: [...before, ...conversation.map(to_wire)] } : { prompt: conversation.at(-1).content }),
      stream: true, stream_options: { include_usage: true },
    };
    const response = await fetch(chat ? "v1/chat/completions" : "v1/completions", {
      method: "POST", headers: { "content-type": "application/json", "x-cheetah-timings": "1", ...headers },
      body: JSON.stringify(body), signal,
    });
    if (!response.ok) throw new Error(await failure_of(response));
    for await (const data of events_of(response.body)) {
      const event = read_event(data);
      answer.add(event);
      if (event.text || event.thought) view.add(event.text, event.thought);
      if (event.reason === "length") view.note("facts", "stopped at the token limit");
    }
  }
}
