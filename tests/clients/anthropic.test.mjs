// SPDX-License-Identifier: MIT
// The messages API through Anthropic's package.
import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { eventually, serverForSuite, stats } from "./server.mjs";

const server = serverForSuite();
const client = () => new Anthropic({ baseURL: server.url, apiKey: "any", maxRetries: 0, timeout: 120_000 });
const messages = [{ role: "user", content: "Tell me a story about a fox." }];
const story = { model: "cub", messages, max_tokens: 40, temperature: 0 };
const tools = [{
  name: "pick", description: "Pick a number",
  input_schema: { type: "object", properties: { n: { enum: [1, 2] } }, required: ["n"], additionalProperties: false },
}];
const forced = { ...story, max_tokens: 200, tools, tool_choice: { type: "tool", name: "pick" } };

test("a message is answered", async () => {
  const message = await client().messages.create({ ...story, system: "Be brief." });
  assert.match(message.id, /^msg_/);
  assert.equal(message.type, "message");
  assert.equal(message.role, "assistant");
  assert.equal(message.content[0].type, "text");
  assert.ok(message.content[0].text.length > 20);
  assert.ok(["end_turn", "max_tokens"].includes(message.stop_reason));
  assert.ok(message.usage.input_tokens + message.usage.cache_read_input_tokens > 0);
});

test("a stream says what a whole message does", async () => {
  const whole = await client().messages.create(story);
  const types = [];
  let text = "";
  for await (const event of await client().messages.create({ ...story, stream: true })) {
    types.push(event.type);
    if (event.type === "content_block_delta") text += event.delta.text;
  }
  assert.equal(text, whole.content[0].text);
  assert.equal(types[0], "message_start");
  assert.equal(types[1], "content_block_start");
  assert.deepEqual(types.slice(-3), ["content_block_stop", "message_delta", "message_stop"]);
  const final = await client().messages.stream(story).finalMessage();
  assert.equal(final.content[0].text, whole.content[0].text);
  assert.equal(final.stop_reason, whole.stop_reason);
  assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
});

test("a streamed tool call equals a whole one", async () => {
  const whole = await client().messages.create(forced);
  assert.equal(whole.stop_reason, "tool_use");
  assert.equal(whole.content[0].name, "pick");
  assert.ok([1, 2].includes(whole.content[0].input.n));
  const final = await client().messages.stream(forced).finalMessage();
  assert.deepEqual(final.content[0].input, whole.content[0].input);
  assert.match(final.content[0].id, /^toolu_/);
});

test("a tool's result is taken up", async () => {
  const message = await client().messages.create({
    ...story, tools,
    messages: [...messages,
      { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "pick", input: { n: 1 } }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "done" }] }],
  });
  assert.equal(message.type, "message");
});

test("stop sequences end the message and are named", async () => {
  const whole = (await client().messages.create(story)).content[0].text;
  const stop = whole.slice(10, 14);
  const cut = await client().messages.create({ ...story, stop_sequences: [stop] });
  assert.equal(cut.stop_reason, "stop_sequence");
  assert.equal(cut.stop_sequence, stop);
});

test("tokens are counted", async () => {
  const { input_tokens } = await client().messages.countTokens({ model: "cub", messages });
  const message = await client().messages.create({ ...story, max_tokens: 1 });
  assert.equal(input_tokens, message.usage.input_tokens + message.usage.cache_read_input_tokens);
});

test("errors have Anthropic's shape", async () => {
  await assert.rejects(client().messages.create({ ...story, model: "claude" }), (error) => {
    assert.ok(error instanceof Anthropic.NotFoundError);
    assert.equal(error.error.type, "error");
    assert.equal(error.error.error.type, "not_found_error");
    return true;
  });
  await assert.rejects(client().messages.create({ ...story, temperature: 7 }), Anthropic.BadRequestError);
});

test("an aborted stream frees its place", async () => {
  const stream = client().messages.stream({ ...story, max_tokens: 900, ignore_eos: true });
  await new Promise((resolve) => stream.once("text", resolve));
  stream.abort();
  await assert.rejects(stream.done(), Anthropic.APIUserAbortError);
  await eventually("nothing runs any more", async () => (await stats(server)).running === 0);
});
