// SPDX-License-Identifier: MIT
// Responses that the server keeps, through the openai package.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import OpenAI from "openai";
import { serverForSuite } from "./server.mjs";

const folder = mkdtempSync(join(tmpdir(), "cheetah-responses-"));
after(() => rmSync(folder, { recursive: true }));
const server = serverForSuite({ args: ["--response-store", join(folder, "responses.db")] });
const client = () => new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "any", maxRetries: 0, timeout: 120_000 });
const story = { model: "cub", input: "Tell me a story about a fox.", max_output_tokens: 20, temperature: 0 };

test("a response is read again, with what it answered", async () => {
  const made = await client().responses.create(story);
  const read = await client().responses.retrieve(made.id);
  assert.equal(read.output_text, made.output_text);
  assert.equal(read.store, true);
  const items = [];
  for await (const item of client().responses.inputItems.list(made.id)) items.push(item);
  assert.deepEqual(items.map((item) => item.content[0].text), [story.input]);
});

test("a conversation goes on from a response", async () => {
  const first = await client().responses.create(story);
  const second = await client().responses.create({ ...story, input: "And then?", previous_response_id: first.id });
  const whole = await client().responses.create({ ...story, store: false, input: [
    { role: "user", content: story.input }, { role: "assistant", content: first.output_text },
    { role: "user", content: "And then?" }] });
  assert.equal(second.previous_response_id, first.id);
  assert.equal(second.output_text, whole.output_text);
  await assert.rejects(client().responses.retrieve(whole.id), (error) => error instanceof OpenAI.NotFoundError);
});

test("a streamed response is kept too", async () => {
  let last;
  for await (const event of await client().responses.create({ ...story, stream: true })) last = event;
  const read = await client().responses.retrieve(last.response.id);
  assert.deepEqual(read.output, last.response.output);
});

test("a deleted response is gone", async () => {
  const made = await client().responses.create(story);
  await client().responses.delete(made.id);
  await assert.rejects(client().responses.retrieve(made.id), (error) => error instanceof OpenAI.NotFoundError);
  await assert.rejects(client().responses.create({ ...story, previous_response_id: made.id }),
    (error) => error instanceof OpenAI.NotFoundError && error.code === "previous_response_not_found");
});
