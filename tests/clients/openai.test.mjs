// SPDX-License-Identifier: MIT
// The openai package against the server: chat, streams, tools, structured output, logprobs, embeddings.
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { serverForSuite } from "./server.mjs";

const server = serverForSuite();
const client = () => new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "any", maxRetries: 0, timeout: 120_000 });
const messages = [{ role: "user", content: "Tell me a story about a fox." }];
const story = { model: "cub", messages, max_tokens: 40, temperature: 0 };

const weather = {
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather of a city",
    parameters: {
      type: "object",
      properties: { city: { type: "string", enum: ["Paris", "Rome"] }, days: { type: "integer", enum: [1, 2, 3] } },
      required: ["city", "days"],
      additionalProperties: false,
    },
  },
};

test("the model is listed and described", async () => {
  const ids = [];
  for await (const model of client().models.list()) ids.push(model.id);
  assert.deepEqual(ids, ["cub"]);
  assert.equal((await client().models.retrieve("cub")).object, "model");
});

test("a chat is answered", async () => {
  const answer = await client().chat.completions.create(story);
  assert.match(answer.id, /^chatcmpl-/);
  assert.equal(answer.object, "chat.completion");
  assert.equal(answer.model, "cub");
  assert.equal(answer.choices[0].message.role, "assistant");
  assert.ok(answer.choices[0].message.content.length > 20);
  assert.ok(["stop", "length"].includes(answer.choices[0].finish_reason));
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
  assert.ok(answer.system_fingerprint);
});

test("a stream says what a whole answer does", async () => {
  const whole = await client().chat.completions.create({ ...story, n: 2 });
  const stream = await client().chat.completions.create(
    { ...story, n: 2, stream: true, stream_options: { include_usage: true } });
  const texts = ["", ""], roles = [0, 0], ids = new Set();
  let usage = null, reasons = [];
  for await (const chunk of stream) {
    ids.add(chunk.id);
    if (chunk.usage) usage = chunk.usage;
    for (const choice of chunk.choices) {
      texts[choice.index] += choice.delta.content ?? "";
      if (choice.delta.role) ++roles[choice.index];
      if (choice.finish_reason) reasons[choice.index] = choice.finish_reason;
    }
  }
  assert.deepEqual(texts, whole.choices.map((choice) => choice.message.content));
  assert.deepEqual(reasons, whole.choices.map((choice) => choice.finish_reason));
  assert.deepEqual(roles, [1, 1]);
  assert.equal(ids.size, 1);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
});

test("the streaming helper builds the same message", async () => {
  const whole = await client().chat.completions.create(story);
  const runner = client().chat.completions.stream(story);
  const pieces = [];
  runner.on("content", (piece) => pieces.push(piece));
  const final = await runner.finalChatCompletion();
  assert.equal(final.choices[0].message.content, whole.choices[0].message.content);
  assert.equal(pieces.join(""), whole.choices[0].message.content);
});

test("a repeated prompt is found in the cache", async () => {
  const long = [{ role: "user", content: "The fox ran over the hill and saw a bird. ".repeat(12) }];
  await client().chat.completions.create({ ...story, messages: long, max_tokens: 2 });
  const again = await client().chat.completions.create({ ...story, messages: long, max_tokens: 2 });
  assert.ok(again.usage.prompt_tokens_details.cached_tokens > 50);
});

test("the same seed gives the same answer, another one another", async () => {
  const ask = async (seed) => (await client().chat.completions.create({ ...story, temperature: 1, seed }))
    .choices[0].message.content;
  assert.equal(await ask(5), await ask(5));
  assert.notEqual(await ask(5), await ask(6));
});

test("stop strings end the answer and stay out of it", async () => {
  const whole = (await client().chat.completions.create(story)).choices[0].message.content;
  const stop = whole.slice(10, 14);
  const cut = await client().chat.completions.create({ ...story, stop: [stop] });
  assert.equal(cut.choices[0].message.content, whole.slice(0, whole.indexOf(stop)));
  assert.equal(cut.choices[0].finish_reason, "stop");
});

test("logprobs carry tokens, bytes and alternatives", async () => {
  const answer = await client().chat.completions.create({ ...story, logprobs: true, top_logprobs: 3 });
  const { content } = answer.choices[0].logprobs;
  assert.equal(content.length, answer.usage.completion_tokens);
  const bytes = content.flatMap((token) => token.bytes ?? []);
  assert.equal(Buffer.from(bytes).toString(), answer.choices[0].message.content);
  for (const token of content) {
    assert.equal(token.top_logprobs.length, 3);
    assert.equal(token.top_logprobs[0].token, token.token, "greedy takes the likeliest");
    assert.ok(token.logprob <= 0);
  }
});

test("structured output follows the schema", async () => {
  const schema = {
    type: "object",
    properties: { animal: { enum: ["fox", "owl"] }, legs: { type: "integer", minimum: 0, maximum: 9 } },
    required: ["animal", "legs"],
    additionalProperties: false,
  };
  const answer = await client().chat.completions.parse({
    ...story, max_tokens: 200,
    response_format: { type: "json_schema", json_schema: { name: "animal", schema, strict: true } },
  });
  const value = JSON.parse(answer.choices[0].message.content);
  assert.ok(["fox", "owl"].includes(value.animal));
  assert.ok(Number.isInteger(value.legs));
  assert.deepEqual(Object.keys(value), ["animal", "legs"]);
});

const forced = {
  ...story, max_tokens: 300, tools: [weather],
  tool_choice: { type: "function", function: { name: "get_weather" } },
};

function checkCall(call) {
  assert.equal(call.function.name, "get_weather");
  const input = JSON.parse(call.function.arguments);
  assert.ok(["Paris", "Rome"].includes(input.city));
  assert.ok([1, 2, 3].includes(input.days));
}

test("a named tool is called with valid arguments", async () => {
  const { choices } = await client().chat.completions.create(forced);
  assert.equal(choices[0].finish_reason, "tool_calls");
  assert.equal(choices[0].message.content, null);
  assert.equal(choices[0].message.tool_calls.length, 1);
  checkCall(choices[0].message.tool_calls[0]);
});

test("a streamed tool call equals a whole one", async () => {
  const whole = (await client().chat.completions.create(forced)).choices[0].message.tool_calls[0];
  const stream = await client().chat.completions.create({ ...forced, stream: true });
  let name = "", text = "", id = "", deltas = 0;
  for await (const chunk of stream)
    for (const call of chunk.choices[0]?.delta.tool_calls ?? []) {
      assert.equal(call.index, 0);
      id += call.id ?? "";
      name += call.function.name ?? "";
      text += call.function.arguments ?? "";
      ++deltas;
    }
  assert.ok(deltas > 2, "arguments come in pieces");
  assert.match(id, /^call_/);
  assert.equal(name, whole.function.name);
  assert.equal(text, whole.function.arguments);
  const final = await client().chat.completions.stream(forced).finalChatCompletion();
  checkCall(final.choices[0].message.tool_calls[0]);
});

test("a conversation goes on after a tool's result", async () => {
  const call = { id: "call_1", type: "function", function: { name: "get_weather", arguments: '{"city":"Rome","days":1}' } };
  const answer = await client().chat.completions.create({
    ...story, tools: [weather], tool_choice: "none",
    messages: [...messages, { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "call_1", content: "Sunny" }],
  });
  assert.ok(answer.choices[0].message.content.length > 0);
});

test("old completions work, with many prompts, echo and logprobs", async () => {
  const answer = await client().completions.create({ model: "cub", prompt: ["Once upon", "The fox"], max_tokens: 5, temperature: 0 });
  assert.deepEqual(answer.choices.map((choice) => choice.index), [0, 1]);
  const echoed = await client().completions.create(
    { model: "cub", prompt: "Once upon", max_tokens: 3, temperature: 0, echo: true, logprobs: 2 });
  assert.ok(echoed.choices[0].text.startsWith("Once upon"));
  const { tokens, token_logprobs, text_offset } = echoed.choices[0].logprobs;
  assert.equal(tokens.join(""), echoed.choices[0].text);
  assert.equal(token_logprobs.length, text_offset.length);
  let text = "";
  for await (const chunk of await client().completions.create(
    { model: "cub", prompt: "Once upon", max_tokens: 5, temperature: 0, stream: true })) text += chunk.choices[0]?.text ?? "";
  assert.equal(text, answer.choices[0].text);
});

test("embeddings are the same as floats and as base64", async () => {
  const input = ["a fox", "the moon"];
  const packed = await client().embeddings.create({ model: "cub", input });
  const floats = await client().embeddings.create({ model: "cub", input, encoding_format: "float" });
  assert.deepEqual(packed.data.map((item) => item.index), [0, 1]);
  for (const [i, item] of packed.data.entries()) {
    assert.equal(item.embedding.length, floats.data[i].embedding.length);
    item.embedding.forEach((value, j) => assert.ok(Math.abs(value - floats.data[i].embedding[j]) < 1e-6));
    assert.ok(Math.abs(Math.hypot(...item.embedding) - 1) < 1e-3);
  }
  const short = await client().embeddings.create({ model: "cub", input, dimensions: 8 });
  assert.equal(short.data[0].embedding.length, 8);
});
