// SPDX-License-Identifier: MIT
// The conversations of this browser, newest first, in localStorage. Private windows may refuse storage:
// conversations then last as long as the page.

const kMost = 30;
const kKey = "cheetah.conversations";

export class Conversations {
  #all = [];
  #storage;

  constructor(storage) {
    this.#storage = storage;
    try {
      const kept = JSON.parse(storage.getItem(kKey) ?? "[]");
      this.#all = kept.filter((one) => typeof one.id === "string" && Array.isArray(one.messages) &&
        one.messages.every((message) => typeof message.role === "string" && typeof message.content === "string" &&
          (message.tool_calls === undefined || Array.isArray(message.tool_calls))));
    } catch { /* none kept, or none readable */ }
  }

  list() {
    return this.#all.map(({ id, messages }) => ({ id, title: title_of(messages) }));
  }

  messages(id) {
    return this.#all.find((one) => one.id === id)?.messages ?? [];
  }

  // Keeps a conversation; an empty one is forgotten.
  keep(id, messages) {
    this.#all = this.#all.filter((one) => one.id !== id);
    if (messages.length > 0) this.#all.unshift({ id, messages });
    this.#all.length = Math.min(this.#all.length, kMost);
    this.#save();
  }

  forget(id) {
    this.keep(id, []);
  }

  // When the browser's space is full the oldest go.
  #save() {
    for (let count = this.#all.length; count >= 0; count = count > 0 ? Math.floor(count / 2) : -1) {
      try {
        this.#storage.setItem(kKey, JSON.stringify(this.#all.slice(0, count)));
        return;
      } catch { /* less may fit */ }
    }
  }
}

export function title_of(messages) {
  const first = messages.find((message) => message.role === "user")?.content ?? "";
  const line = first.trim().split("\n")[0];
  return line.length > 48 ? `${line.slice(0, 47)}…` : line || "Conversation";
}
