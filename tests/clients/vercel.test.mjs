// SPDX-License-Identifier: MIT
// The Vercel AI SDK against the server: text, streams, objects, tools, embeddings.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embedMany, generateObject, generateText, streamText, tool } from "ai";
import { z } from "zod";
import { serverForSuite } from "./server.mjs";

const server = serverForSuite();
const provider = () => createOpenAICompatible({
  name: "cheetah", baseURL: `${server.url}/v1`, includeUsage: true, supportsStructuredOutputs: true,
});
const prompt = "Tell me a story about a fox.";
const story = { prompt, maxOutputTokens: 20, temperature: 0, maxRetries: 0 };

test("a stream says what the whole answer says", async () => {
  const model = provider()("cub");
  const whole = await generateText({ model, ...story });
  assert.equal(whole.finishReason, "length");
  assert.equal(whole.usage.outputTokens, 20);
  const stream = streamText({ model, ...story });
  let text = "";
  for await (const part of stream.textStream) text += part;
  assert.equal(text, whole.text);
  assert.equal((await stream.usage).outputTokens, 20);
});

test("an object follows its schema", async () => {
  const { object } = await generateObject({
    model: provider()("cub"), ...story, maxOutputTokens: 60,
    schema: z.object({ fox: z.enum(["red", "grey"]), age: z.union([z.literal(1), z.literal(2)]) }),
  });
  assert.ok(["red", "grey"].includes(object.fox));
  assert.ok([1, 2].includes(object.age));
});

test("a tool is called with valid arguments", async () => {
  const weather = tool({
    description: "The weather of a city", inputSchema: z.object({ city: z.enum(["Paris", "Rome"]) }),
  });
  const { toolCalls } = await generateText({
    model: provider()("cub"), ...story, maxOutputTokens: 120, tools: { weather },
    toolChoice: { type: "tool", toolName: "weather" },
  });
  assert.equal(toolCalls[0].toolName, "weather");
  assert.ok(["Paris", "Rome"].includes(toolCalls[0].input.city));
});

test("embeddings come in the order of their texts", async () => {
  const model = provider().textEmbeddingModel("cub");
  const { embeddings } = await embedMany({ model, values: ["a fox", "a dog", "a fox"], maxRetries: 0 });
  assert.deepEqual(embeddings[0], embeddings[2]);
  assert.notDeepEqual(embeddings[0], embeddings[1]);
});

test("an unknown model is the SDK's own error", async () => {
  await assert.rejects(generateText({ model: provider()("none"), ...story }),
    (error) => error.statusCode === 404 && /does not exist here/.test(error.message));
});
