// SPDX-License-Identifier: MIT
// Files and batches through the openai package.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { test } from "node:test";
import OpenAI, { toFile } from "openai";
import { serverForSuite } from "./server.mjs";

const server = serverForSuite();
const client = () => new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "any", maxRetries: 0, timeout: 120_000 });
const line = (id, body) => JSON.stringify({ custom_id: id, method: "POST", url: "/v1/chat/completions", body });

test("a batch answers the lines of its file", async () => {
  const body = { model: "cub", messages: [{ role: "user", content: "Hi" }], max_tokens: 4, temperature: 0 };
  const lines = [line("a", body), line("b", { ...body, model: "none" }), line("c", body)].join("\n");
  const file = await client().files.create({ file: await toFile(Buffer.from(lines), "in.jsonl"), purpose: "batch" });
  assert.equal(file.bytes, lines.length);
  let batch = await client().batches.create({ input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" });
  for (let i = 0; i < 600 && batch.status !== "completed"; ++i) {
    await sleep(100);
    batch = await client().batches.retrieve(batch.id);
  }
  assert.deepEqual(batch.request_counts, { total: 3, completed: 2, failed: 1 });
  const answers = (await (await client().files.content(batch.output_file_id)).text()).trim().split("\n").map(JSON.parse);
  assert.deepEqual(answers.map((one) => one.custom_id).sort(), ["a", "c"]);
  assert.equal(answers[0].response.body.object, "chat.completion");
  const errors = JSON.parse(await (await client().files.content(batch.error_file_id)).text());
  assert.equal(errors.response.status_code, 404);
  const ids = [];
  for await (const one of client().files.list()) ids.push(one.id);
  assert.ok(ids.includes(file.id));
  assert.equal((await client().files.delete(file.id)).deleted, true);
  await assert.rejects(client().files.retrieve(file.id), { status: 404 });
});
