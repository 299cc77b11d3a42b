// SPDX-License-Identifier: MIT
// What the openai package throws when a request is wrong, and what an abort leaves behind.
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { eventually, serverForSuite, stats } from "./server.mjs";

const server = serverForSuite();
const locked = serverForSuite({ environment: { CHEETAH_API_KEY: "a-long-secret-key" } });
const client = (at = server, apiKey = "any") =>
  new OpenAI({ baseURL: `${at.url}/v1`, apiKey, maxRetries: 0, timeout: 120_000 });
const messages = [{ role: "user", content: "Tell me a story." }];

async function refused(kind, promise, expected) {
  await assert.rejects(promise, (error) => {
    assert.ok(error instanceof kind, `${error}`);
    for (const [name, value] of Object.entries(expected)) assert.equal(error[name], value);
    return true;
  });
}

test("an unknown model is not found", () => refused(OpenAI.NotFoundError,
  client().chat.completions.create({ model: "gpt-99", messages }),
  { status: 404, code: "model_not_found", param: "model", type: "not_found_error" }));

test("a bad value names its field", () => refused(OpenAI.BadRequestError,
  client().chat.completions.create({ model: "cub", messages, temperature: 9 }),
  { status: 400, code: "invalid_value", param: "temperature", type: "invalid_request_error" }));

test("a prompt longer than the context is refused", () => refused(OpenAI.BadRequestError,
  client().chat.completions.create({ model: "cub", messages: [{ role: "user", content: "fox ".repeat(5000) }] }),
  { code: "context_length_exceeded" }));

test("a bad schema is refused before a stream begins", () => refused(OpenAI.BadRequestError,
  client().chat.completions.create({ model: "cub", messages, stream: true,
    response_format: { type: "json_schema", json_schema: { name: "x", schema: { type: "objekt" } } } }),
  { code: "invalid_grammar" }));

test("an image is refused by a model that reads text", () => refused(OpenAI.BadRequestError,
  client().chat.completions.create({ model: "cub", messages: [{ role: "user", content: [
    { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }] }] }),
  { code: "unsupported_content_part", param: "messages[0].content[0]" }));

test("a wrong key is refused, the right one is not", async () => {
  await refused(OpenAI.AuthenticationError, client(locked, "wrong").models.list(),
    { status: 401, code: "invalid_api_key" });
  assert.equal((await client(locked, "a-long-secret-key").models.list()).data.length, 1);
});

test("an aborted stream ends at once and frees its place", async () => {
  const stream = await client().chat.completions.create(
    { model: "cub", messages, stream: true, max_tokens: 900, ignore_eos: true, n: 8 });
  let chunks = 0;
  for await (const chunk of stream) if (++chunks === 3) break;  // leaving the loop aborts
  assert.equal(chunks, 3);
  await eventually("nothing runs any more", async () => (await stats(server)).running === 0);
});

test("an abort before the answer rejects", async () => {
  const controller = new AbortController();
  const promise = client().chat.completions.create(
    { model: "cub", messages, max_tokens: 900, ignore_eos: true, n: 8 }, { signal: controller.signal });
  setTimeout(() => controller.abort(), 20);
  await assert.rejects(promise, OpenAI.APIUserAbortError);
});
