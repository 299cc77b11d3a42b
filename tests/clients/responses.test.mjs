// SPDX-License-Identifier: MIT
// The responses API through the openai package.
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { serverForSuite } from "./server.mjs";

const server = serverForSuite();
const client = () => new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "any", maxRetries: 0, timeout: 120_000 });
const story = { model: "cub", input: "Tell me a story about a fox.", max_output_tokens: 40, temperature: 0 };
const tools = [{
  type: "function", name: "pick", strict: true,
  parameters: { type: "object", properties: { n: { enum: [1, 2] } }, required: ["n"], additionalProperties: false },
}];
const forced = { ...story, max_output_tokens: 200, tools, tool_choice: { type: "function", name: "pick" } };

test("a response is answered", async () => {
  const response = await client().responses.create({ ...story, instructions: "Be brief." });
  assert.match(response.id, /^resp_/);
  assert.ok(response.output_text.length > 20);
  assert.equal(response.usage.total_tokens, response.usage.input_tokens + response.usage.output_tokens);
  assert.ok(["completed", "incomplete"].includes(response.status));
});

test("a stream says what a whole response does", async () => {
  const whole = await client().responses.create(story);
  let text = "";
  const types = [];
  for await (const event of await client().responses.create({ ...story, stream: true })) {
    if (event.type === "response.output_text.delta") text += event.delta;
    assert.equal(event.sequence_number, types.length);
    types.push(event.type);
  }
  assert.equal(text, whole.output_text);
  assert.equal(types[0], "response.created");
  assert.match(types.at(-1), /^response\.(completed|incomplete)$/);
});

test("the streaming helper builds the same response", async () => {
  const whole = await client().responses.create(forced);
  const final = await client().responses.stream(forced).finalResponse();
  assert.equal(final.output[0].type, "function_call");
  assert.equal(final.output[0].name, "pick");
  assert.equal(final.output[0].arguments, whole.output[0].arguments);
  assert.ok([1, 2].includes(JSON.parse(whole.output[0].arguments).n));
});

test("a tool's result is taken up", async () => {
  const response = await client().responses.create({
    ...story, tools, tool_choice: "none",
    input: [{ role: "user", content: "Pick." },
      { type: "function_call", call_id: "c1", name: "pick", arguments: '{"n":1}' },
      { type: "function_call_output", call_id: "c1", output: "done" }],
  });
  assert.equal(response.object, "response");
});

test("a text format is followed", async () => {
  const response = await client().responses.create({ ...story, max_output_tokens: 200,
    text: { format: { type: "json_schema", name: "x", strict: true,
      schema: { type: "object", properties: { a: { enum: ["b"] } }, required: ["a"], additionalProperties: false } } } });
  assert.deepEqual(JSON.parse(response.output_text), { a: "b" });
});

test("what is not supported is refused by name", async () => {
  await assert.rejects(client().responses.create({ ...story, previous_response_id: "resp_x" }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === "previous_response_id");
});
