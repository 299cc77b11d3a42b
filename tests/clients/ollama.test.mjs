// SPDX-License-Identifier: MIT
// The ollama package against the server: chat, generate, streams, tools, forms, embeddings, the list of models.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Ollama } from "ollama";
import { serverForSuite } from "./server.mjs";

const server = serverForSuite();
const client = () => new Ollama({ host: server.url });
const messages = [{ role: "user", content: "Tell me a story about a fox." }];
const options = { temperature: 0, num_predict: 20 };

test("models are listed, described and loaded", async () => {
  const { models } = await client().list();
  assert.deepEqual(models.map((model) => model.name), ["cub"]);
  assert.ok(models[0].size > 1000);
  const shown = await client().show({ model: "cub" });
  assert.ok(shown.capabilities.includes("completion"));
  assert.match(shown.template, /user/);
  assert.equal((await client().ps()).models[0].model, "cub");
  assert.match((await client().version()).version, /^\d+\.\d+/);
});

test("a stream says what the whole answer says", async () => {
  const whole = await client().chat({ model: "cub", messages, options });
  assert.equal(whole.done, true);
  assert.equal(whole.done_reason, "length");
  assert.equal(whole.eval_count, 20);
  assert.ok(whole.total_duration > 0);
  let text = "";
  let last;
  for await (const part of await client().chat({ model: "cub", messages, options, stream: true })) {
    text += part.message.content;
    last = part;
  }
  assert.equal(text, whole.message.content);
  assert.equal(last.done, true);
  assert.equal(last.eval_count, 20);
});

test("generate completes a prompt and gives its context", async () => {
  const answer = await client().generate({ model: "cub", prompt: "Once upon a time", raw: true, options });
  assert.ok(answer.response.length > 0);
  assert.ok(answer.context.length > 20);
  const more = await client().generate({ model: "cub", prompt: " And", raw: true, context: answer.context, options });
  assert.ok(more.prompt_eval_count > answer.prompt_eval_count);
});

test("an answer follows a schema", async () => {
  const format = { type: "object", properties: { fox: { enum: ["red", "grey"] } }, required: ["fox"], additionalProperties: false };
  const answer = await client().chat({ model: "cub", messages, format, options: { ...options, num_predict: 60 } });
  assert.ok(["red", "grey"].includes(JSON.parse(answer.message.content).fox));
});

test("tools and their results are understood", async () => {
  const tools = [{ type: "function", function: { name: "now", description: "The time", parameters: { type: "object", properties: {} } } }];
  const conversation = [...messages,
    { role: "assistant", content: "", tool_calls: [{ function: { name: "now", arguments: {} } }] },
    { role: "tool", content: "noon", tool_name: "now" }];
  const answer = await client().chat({ model: "cub", messages: conversation, tools, options });
  assert.equal(answer.done, true);
});

test("embeddings come for one text and for several", async () => {
  const { embeddings } = await client().embed({ model: "cub", input: ["a fox", "a dog"] });
  assert.equal(embeddings.length, 2);
  const { embedding } = await client().embeddings({ model: "cub", prompt: "a fox" });
  assert.deepEqual(embedding, embeddings[0]);
});

test("errors are the client's own", async () => {
  await assert.rejects(client().chat({ model: "none", messages }), (error) => error.status_code === 404);
  await assert.rejects(client().pull({ model: "llama3.2" }), /cheetah serve llama3.2/);
  assert.equal((await client().pull({ model: "cub" })).status, "success");
  await assert.rejects(client().chat({ model: "cub", messages: [{ role: "user", content: "?", images: ["aGk="] }] }),
    /images cannot be read/);
});

test("a stream can be stopped", async () => {
  const ollama = client();
  const stream = await ollama.generate({ model: "cub", prompt: "Once", raw: true, stream: true, options: { num_predict: 400 } });
  await assert.rejects(async () => {
    for await (const part of stream) if (part.response) ollama.abort();
  }, /abort/i);
});
