// SPDX-License-Identifier: MIT
// The parts of the page that need no browser: event parsing, histograms, rates.
// usage: node units.mjs FOLDER, which holds a copy of web/ below a package.json of type module.
import assert from "node:assert/strict";
import { resolve } from "node:path";
import test from "node:test";

const load = (name) => import(resolve(process.argv[2], "web", name));
const { Answer, facts_of, open_call, read_event, to_wire } = await load("answer.js");
const { axis_ticks, format_count, format_seconds, log_ticks, nice_ceiling } = await load("chart.js");
const { by_role, moved } = await load("cluster.js");
const { Conversations, title_of } = await load("conversations.js");
const { loading_text } = await load("dashboard.js");
const { highlight } = await load("highlight.js");
const { phases_of, summary_of } = await load("inspector.js");
const { parse, parse_inline } = await load("markdown.js");
const { EventParser, events_of } = await load("sse.js");
const { History, histogram_between, histogram_quantile, share_within } = await load("stats.js");
const { gaps_of, sureness, tokens_of } = await load("tokens.js");

const kStream = ": hello\r\ndata: one\r\n\r\nevent: x\r\ndata: two\r\ndata:lines\r\n\r\n\r\ndata: [DONE]\r\n\r\n";

test("events are the same however the text is cut and whatever ends its lines", () => {
  for (const end of ["\r\n", "\n", "\r"]) {
    const text = `${kStream.replaceAll("\r\n", end)}:`;  // what follows shows that a last \r was a line end
    for (let size = 1; size <= text.length; ++size) {
      const parser = new EventParser();
      const events = [];
      for (let at = 0; at < text.length; at += size) events.push(...parser.push(text.slice(at, at + size)));
      assert.deepEqual(events, ["one", "two\nlines", "[DONE]"], `${JSON.stringify(end)}, pieces of ${size}`);
    }
  }
});

test("characters cut between two pieces of the body come out whole, and [DONE] ends the stream", async () => {
  const bytes = new TextEncoder().encode("data: größer 🐆\n\ndata: [DONE]\n\ndata: never\n\n");
  for (let size = 1; size < 12; ++size) {
    const body = new ReadableStream({
      start(controller) {
        for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
        controller.close();
      },
    });
    const events = [];
    for await (const event of events_of(body)) events.push(event);
    assert.deepEqual(events, ["größer 🐆"]);
  }
});

test("an event gives its text, thought, reason, usage or error", () => {
  assert.equal(read_event('{"choices":[{"delta":{"content":"a"}}]}').text, "a");
  assert.equal(read_event('{"choices":[{"text":"b"}]}').text, "b");
  assert.equal(read_event('{"choices":[{"delta":{"reasoning_content":"c"}}]}').thought, "c");
  assert.equal(read_event('{"choices":[],"usage":{"completion_tokens":3}}').usage.completion_tokens, 3);
  assert.throws(() => read_event('{"error":{"message":"full"}}'), /full/);
});

const kinds = (text) => parse(text).map((block) => block.type);

test("Markdown is taken apart into blocks, also while it is still being written", () => {
  assert.deepEqual(kinds("# Title\n\ntext\nmore\n\n- a\n- b\n\n1. c\n\n> q\n\n---\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"),
    ["heading", "paragraph", "list", "list", "quote", "rule", "table"]);
  const [code] = parse("```cpp\nint x;\n```\n");
  assert.deepEqual([code.type, code.language, code.text], ["code", "cpp", "int x;"]);
  assert.deepEqual(parse("```\nhalf").map(({ type, text }) => [type, text]), [["code", "half"]]);
  assert.deepEqual(parse("- a\n  - b\n  - c\n- d")[0].items.map((item) => item.map((block) => block.type)),
    [["paragraph", "list"], ["paragraph"]]);
  assert.equal(parse("| a |\n").length, 1);
});

test("blocks carry their source, and the parts of a line what they are", () => {
  const text = "# T\n\na\nb\n\n```\nx\n\ny\n```";
  assert.deepEqual(parse(text).map((block) => block.source), ["# T", "a\nb", "```\nx\n\ny\n```"]);
  assert.deepEqual(parse_inline("a **b** `c*d*` _e_ snake_case_name ~~f~~").map((part) => part.type),
    ["text", "strong", "text", "code", "text", "em", "text", "del"]);
  for (const target of ["javascript:alert(1)", "javascript:x", "data:text/html,x", " https://a.example"])
    assert.ok(parse_inline(`[x](${target})`).every((part) => part.type === "text"), target);
  assert.deepEqual(parse_inline("[x](https://a.example/b)")[0].target, "https://a.example/b");
  assert.deepEqual(parse_inline("<img src=x>"), [{ type: "text", text: "<img src=x>" }]);
});

test("no text takes long or breaks the parser", () => {
  const parts = ["*", "_", "`", "[", "](", "> ", "- ", "#", "|", "\n", "a", " ", "~~", "```", "1. "];
  let seed = 7;
  const start = performance.now();
  for (let run = 0; run < 300; ++run) {
    let text = "";
    for (let i = 0; i < 400; ++i) text += parts[(seed = (seed * 1103515245 + 12345) % 2147483648) % parts.length];
    for (const block of parse(text)) parse_inline(block.text ?? "");
  }
  for (const part of [...parts, '"', "\\", "/*"]) highlight(part.repeat(20000), "cpp");
  for (const part of parts) parse(part.repeat(20000)).forEach((block) => parse_inline((block.text ?? "").slice(0, 20000)));
  assert.ok(performance.now() - start < 20_000);
});

test("calls come in pieces, and wait for their results in order", () => {
  const answer = new Answer();
  const call = (index, rest) => read_event(JSON.stringify({ choices: [{ delta: { tool_calls: [{ index, ...rest }] } }] }));
  answer.add(call(0, { id: "a", function: { name: "weather", arguments: '{"ci' } }));
  answer.add(call(0, { function: { arguments: 'ty":1}' } }));
  answer.add(call(1, { id: "b", function: { name: "time", arguments: "{}" } }));
  const message = answer.message();
  assert.deepEqual(message.tool_calls[0], { id: "a", type: "function", function: { name: "weather", arguments: '{"city":1}' } });
  const messages = [{ role: "user", content: "?" }, message];
  assert.equal(open_call(messages).id, "a");
  messages.push({ role: "tool", tool_call_id: "a", content: "1" });
  assert.equal(open_call(messages).id, "b");
  messages.push({ role: "tool", tool_call_id: "b", content: "2" });
  assert.equal(open_call(messages), null);
  assert.equal(open_call([]), null);
  assert.deepEqual(to_wire({ role: "assistant", content: "x", about: { timings: {} } }), { role: "assistant", content: "x" });
});

test("tokens have one form for chat and completion", () => {
  const chat = tokens_of({ logprobs: { content: [{ token: "a", logprob: -1, top_logprobs: [{ token: "b", logprob: -2 }] }] } });
  assert.deepEqual(chat, [{ text: "a", logprob: -1, top: [{ text: "b", logprob: -2 }] }]);
  const plain = tokens_of({ logprobs: { tokens: ["a"], token_logprobs: [-1], top_logprobs: [{ c: -3, b: -2 }] } });
  assert.deepEqual(plain[0].top.map((one) => one.text), ["b", "c"]);
  assert.deepEqual(tokens_of({ logprobs: null }), []);
  assert.deepEqual(gaps_of([40, 50, 65]), [40, 10, 15]);
  assert.deepEqual([0, -0.5, -1, -2.5, -9, null].map(sureness), [4, 3, 2, 1, 0, 0]);
});

test("a request's time is split by what did it", () => {
  const timings = { queue_ms: 1, prompt_ms: 2, predicted_ms: 3 };
  assert.deepEqual(phases_of(timings).map((phase) => phase.time_ms), [1, 2, 3]);
  const cluster = { queue_ms: 1, prefill_ms: 2, transfer_ms: 3, decode_ms: 4 };
  assert.deepEqual(phases_of({ ...timings, cluster }).map((phase) => phase.name), ["Queue", "Prefill", "Transfer", "Decode"]);
  const kinds = ["arrived", "held_back", "admitted", "prefilled", "prefilled", "finished"];
  const decisions = kinds.map((kind, i) => ({ kind, step: 10 * i, cached_tokens: kind === "admitted" ? 7 : undefined }));
  assert.deepEqual(summary_of(decisions), { chunks: 2, decode_steps: 10, preemptions: 0, holds: 1, cached_tokens: 7 });
  assert.equal(summary_of([]).decode_steps, null);
});

test("workers stand by role, and counters that moved come first", () => {
  const workers = [["r", "router"], ["d2", "decode"], ["p", "prefill"], ["o", "observer"], ["d1", "decode"]].map(([name, role]) => ({ name, role }));
  assert.deepEqual(by_role(workers).map((worker) => worker.name), ["p", "d1", "d2", "r"]);
  assert.deepEqual(moved({ workers_lost: 1, migrations: 3 }, ["workers_lost", "migrations", "fallbacks"]),
    { seen: [{ name: "Migrations", count: 3 }, { name: "Workers lost", count: 1 }], quiet: 1 });
});

test("the status line says how far the model is read", () => {
  assert.equal(loading_text(undefined), "loading the model");
  assert.equal(loading_text({ total_bytes: 0, share: 0 }), "loading the model");
  assert.equal(loading_text({ total_bytes: 100, share: 0.439 }), "loading 43 %");
  assert.equal(loading_text({ total_bytes: 100, share: 1 }), "preparing the model");
});

test("code is coloured by what its parts are, and never changed", () => {
  const kinds = (text, language) => highlight(text, language).filter((part) => part.kind).map(({ kind, text: part }) => [kind, part]);
  assert.deepEqual(kinds('int f(x) { return 2; } // "no"', "cpp"), [["k", "int"], ["f", "f"], ["k", "return"], ["n", "2"], ["c", '// "no"']]);
  assert.deepEqual(kinds("x = 'a # b'  # c", "python"), [["s", "'a # b'"], ["c", "# c"]]);
  assert.deepEqual(kinds("anything 1", "unknown"), []);
  for (const text of ['"open', "/* open", "`a${b}`", "'".repeat(3), "#", "0x1f.5e-3 _a$b", "\\", "a".repeat(70_000)])
    for (const language of ["cpp", "js", "python", "sql", "sh"])
      assert.equal(highlight(text, language).map((part) => part.text).join(""), text);
});

test("an answer's rate is the server's, whatever bursts the browser saw", () => {
  const timings = { ttft_ms: 38, predicted_n: 211, predicted_ms: 2100 };
  assert.equal(facts_of({ completion_tokens: 211, prompt_tokens: 9 }, timings, 3),
    "211 tokens · first token after 38 ms · 100.0 tokens/s · prompt 9");
  assert.equal(facts_of(null, null, 3), "3 tokens");
  assert.equal(facts_of(null, null, 0), "");
});

test("conversations are kept newest first, and fewer where the browser has no space", () => {
  const kept = {};
  const storage = { getItem: (key) => kept[key] ?? null, setItem: (key, text) => {
    if (text.length > 300) throw new Error("full");
    kept[key] = text;
  } };
  const shelf = new Conversations(storage);
  for (let i = 0; i < 5; ++i) shelf.keep(`c${i}`, [{ role: "user", content: `question ${i} ${"x".repeat(60)}` }]);
  assert.equal(shelf.list().length, 5);
  const again = new Conversations(storage);
  assert.ok(again.list().length >= 1 && again.list()[0].id === "c4");
  again.forget("c4");
  assert.deepEqual(again.messages("c4"), []);
  assert.deepEqual(new Conversations({ getItem: () => "{broken", setItem: () => {} }).list(), []);
  assert.equal(title_of([{ role: "user", content: "one\ntwo" }]), "one");
});

test("the top of an axis is a round number not below the values", () => {
  assert.deepEqual([0, 0.9, 1, 1.1, 2.2, 26, 51, 730].map(nice_ceiling), [1, 1, 1, 2, 2.5, 50, 100, 1000]);
});

test("ticks are round numbers inside the range", () => {
  assert.deepEqual(axis_ticks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(axis_ticks(0, 1, 2), [0, 0.5, 1]);
  assert.deepEqual(log_ticks(0.9, 110, 9), [1, 2, 5, 10, 20, 50, 100]);
  assert.deepEqual(log_ticks(1, 1e6, 4), [1, 100, 1e4, 1e6]);
  for (const high of [0.003, 7, 1234.5, 9e9]) assert.ok(axis_ticks(0, high, 6).length <= 8);
});

test("the share within an objective interpolates in the bucket", () => {
  const histogram = { bounds: [1, 2, 4], counts: [5, 10, 4, 1] };
  assert.equal(share_within(histogram, 2), 0.75);
  assert.equal(share_within(histogram, 3), 0.85);
  assert.equal(share_within(histogram, 100), 0.95);
  assert.equal(share_within({ bounds: [1], counts: [0, 0] }, 1), null);
});

test("quantiles of a histogram interpolate in the bucket", () => {
  const histogram = { bounds: [1, 2, 4], counts: [0, 10, 10, 0] };
  assert.equal(histogram_quantile(histogram, 0.5), 2);
  assert.equal(histogram_quantile(histogram, 0.25), 1.5);
  assert.equal(histogram_quantile(histogram, 1), 4);
  assert.equal(histogram_quantile({ bounds: [1], counts: [0, 0] }, 0.5), null);
  assert.equal(histogram_quantile({ bounds: [1], counts: [0, 5] }, 0.5), 1);
});

test("the difference of two readings is what happened between, and a restart starts over", () => {
  const bounds = [1, 2];
  assert.deepEqual(histogram_between({ bounds, counts: [1, 2, 0] }, { bounds, counts: [1, 5, 1] }).counts, [0, 3, 1]);
  assert.deepEqual(histogram_between({ bounds, counts: [9, 9, 9] }, { bounds, counts: [1, 0, 0] }).counts, [1, 0, 0]);
});

const reading = (tokens, counts) => ({ generated_tokens: tokens, histograms: { ttft_s: { bounds: [1, 2], counts } } });

test("rates and recent latencies come from the readings of the window", () => {
  const history = new History(10_000);
  history.add(0, reading(0, [0, 0, 0]));
  history.add(1000, reading(100, [5, 0, 0]));
  history.add(2000, reading(400, [5, 7, 0]));
  assert.deepEqual(history.rates("generated_tokens"), [100, 300]);
  assert.deepEqual(history.recent("ttft_s", 1000).histogram.counts, [0, 7, 0]);
  assert.equal(history.recent("ttft_s", 1000).whole, false);
  assert.deepEqual(history.points(10, (before, now) => now.stats.generated_tokens - before.stats.generated_tokens), [[-1, 100], [0, 300]]);
  assert.deepEqual(history.quantiles("ttft_s", 1, 10, 1), [[-1, 1], [0, 2]]);
  history.add(3000, reading(400, [5, 7, 0]));
  assert.deepEqual(history.recent("ttft_s", 1000), { histogram: { bounds: [1, 2], counts: [5, 7, 0] }, whole: true });
  history.add(4000, reading(10, [1, 0, 0]));  // another server answers now
  assert.deepEqual(history.rates("generated_tokens"), []);
});

test("numbers are short", () => {
  assert.deepEqual([null, 0.0012, 0.0449, 1.234].map(format_seconds), ["–", "1.2 ms", "45 ms", "1.23 s"]);
  assert.deepEqual([0, 7.25, 123.4, 12345, 5e6, 2e9].map(format_count), ["0", "7.3", "123", "12.3 k", "5.00 M", "2.00 G"]);
});
