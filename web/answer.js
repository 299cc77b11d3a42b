// SPDX-License-Identifier: MIT
// What one answer is made of: the events of its stream, gathered. No DOM.
import { format_seconds } from "./chart.js";
import { tokens_of } from "./tokens.js";

// What one event adds: text, thought, pieces of calls, tokens, usage, timings, or the error that ended the stream.
export function read_event(data) {
  const event = JSON.parse(data);
  if (event.error) throw new Error(event.error.message ?? "the server reported an error");
  const choice = event.choices?.[0];
  return {
    text: choice?.delta?.content ?? choice?.text ?? "",
    thought: choice?.delta?.reasoning_content ?? choice?.delta?.reasoning ?? "",
    calls: choice?.delta?.tool_calls ?? [],
    tokens: tokens_of(choice),
    reason: choice?.finish_reason ?? null,
    usage: event.usage ?? null,
    timings: event.timings ?? null,
  };
}

export class Answer {
  text = "";
  thought = "";
  calls = [];  // { id, name, arguments }
  tokens = [];
  pieces = 0;
  reason = null;
  usage = null;
  timings = null;

  add(event) {
    if (event.text || event.thought || event.calls.length > 0) ++this.pieces;
    this.text += event.text;
    this.thought += event.thought;
    for (const { index, id, function: called } of event.calls) {
      const call = this.calls[index] ??= { id: "", name: "", arguments: "" };
      call.id = id ?? call.id;
      call.name += called?.name ?? "";
      call.arguments += called?.arguments ?? "";
    }
    this.tokens.push(...event.tokens);
    this.reason = event.reason ?? this.reason;
    this.usage = event.usage ?? this.usage;
    this.timings = event.timings ?? this.timings;
  }

  get is_empty() {
    return this.text === "" && this.calls.length === 0;
  }

  // As the conversation keeps it; the time of every token is too much to keep.
  message() {
    const { token_ms, ...timings } = this.timings ?? {};
    const made = { role: "assistant", content: this.text };
    if (this.calls.length > 0)
      made.tool_calls = this.calls.map(({ id, name, arguments: text }) => ({ id, type: "function", function: { name, arguments: text } }));
    if (this.timings || this.usage) made.about = { usage: this.usage, timings: this.timings ? timings : null };
    return made;
  }
}

// A message as the API takes it.
export function to_wire({ about, ...message }) {
  return message;
}

// The first call of the last answer that has no result yet.
export function open_call(messages) {
  const last = messages.findLastIndex((message) => message.role === "assistant");
  const answered = new Set(messages.slice(last + 1).map((message) => message.tool_call_id));
  return messages[last]?.tool_calls?.find((call) => !answered.has(call.id)) ?? null;
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
