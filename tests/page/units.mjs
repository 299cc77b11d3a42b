// The parts of the page that need no browser: event parsing, histograms, rates.
// usage: node units.mjs FOLDER, which holds a copy of web/ below a package.json of type module.
import assert from "node:assert/strict";
import { resolve } from "node:path";
import test from "node:test";

const load = (name) => import(resolve(process.argv[2], "web", name));
const { read_event, split_code } = await load("chat.js");
const { EventParser, events_of } = await load("sse.js");
const { History, format_count, format_seconds, histogram_between, histogram_quantile } = await load("stats.js");

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

test("fenced code is split from the text around it, also while it is still being written", () => {
  assert.deepEqual(split_code("a\n```cpp\nint x;\n```\nb"),
    [{ code: false, text: "a\n" }, { code: true, text: "int x;\n" }, { code: false, text: "b" }]);
  assert.deepEqual(split_code("```\nhalf"), [{ code: false, text: "" }, { code: true, text: "half" }]);
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
  history.add(3000, reading(400, [5, 7, 0]));
  assert.deepEqual(history.recent("ttft_s", 1000), { histogram: { bounds: [1, 2], counts: [5, 7, 0] }, whole: true });
  history.add(4000, reading(10, [1, 0, 0]));  // another server answers now
  assert.deepEqual(history.rates("generated_tokens"), []);
});

test("numbers are short", () => {
  assert.deepEqual([null, 0.0012, 0.0449, 1.234].map(format_seconds), ["–", "1.2 ms", "45 ms", "1.23 s"]);
  assert.deepEqual([0, 7.25, 123.4, 12345, 5e6, 2e9].map(format_count), ["0", "7.3", "123", "12.3 k", "5.00 M", "2.00 G"]);
});
