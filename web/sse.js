// SPDX-License-Identifier: MIT
// Server-sent events from the bytes of a fetch: frames may be cut anywhere, in the middle of a character too.

// Collects text and yields the data of each whole event.
export class EventParser {
  #rest = "";
  #data = [];

  // The events completed by `text`, which may be any piece of the stream.
  push(text) {
    this.#rest += text;
    const events = [];
    // A carriage return at the very end may be half of a line end: it waits for the next piece.
    const pattern = /\r\n|\n|\r(?!$)/g;
    let begin = 0;
    for (let end; (end = pattern.exec(this.#rest)) !== null; begin = pattern.lastIndex)
      this.#line(this.#rest.slice(begin, end.index), events);
    this.#rest = this.#rest.slice(begin);
    return events;
  }

  #line(line, events) {
    if (line === "") {
      if (this.#data.length > 0) events.push(this.#data.join("\n"));
      this.#data = [];
    } else if (line.startsWith("data:")) {
      this.#data.push(line.slice(line[5] === " " ? 6 : 5));
    }
  }
}

// The data of every event of a response body until it ends or says [DONE].
export async function* events_of(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const parser = new EventParser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      for (const event of parser.push(done ? decoder.decode() : decoder.decode(value, { stream: true }))) {
        if (event === "[DONE]") return;
        yield event;
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
