// SPDX-License-Identifier: MIT
// LangChain.js against the server, through its OpenAI and its Ollama classes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOllama, OllamaEmbeddings } from "@langchain/ollama";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { z } from "zod";
import { serverForSuite } from "./server.mjs";

const server = serverForSuite();
const openai = (more) => new ChatOpenAI({
  model: "cub", apiKey: "any", temperature: 0, maxTokens: 20, maxRetries: 0,
  configuration: { baseURL: `${server.url}/v1` }, ...more,
});
const ollama = (more) => new ChatOllama({ model: "cub", baseUrl: server.url, temperature: 0, numPredict: 20, ...more });
const messages = [new SystemMessage("Be brief."), new HumanMessage("Tell me a story about a fox.")];
const weather = tool(({ city }) => `Sunny in ${city}.`, {
  name: "weather", description: "The weather of a city", schema: z.object({ city: z.enum(["Paris", "Rome"]) }),
});

for (const [name, make] of [["OpenAI", openai], ["Ollama", ollama]])
  test(`${name}: a stream says what the whole answer says`, async () => {
    const whole = await make().invoke(messages);
    assert.ok(whole.content.length > 0);
    assert.equal(whole.usage_metadata.output_tokens, 20);
    let text = "";
    for await (const part of await make().stream(messages)) text += part.content;
    assert.equal(text, whole.content);
  });

test("both classes get the same answer", async () => {
  assert.equal((await openai().invoke(messages)).content, (await ollama().invoke(messages)).content);
});

test("a tool's result goes back into the conversation", async () => {
  const model = openai({ maxTokens: 120 });
  const asked = await model.bindTools([weather], { tool_choice: "weather" }).invoke(messages);
  const [call] = asked.tool_calls;
  assert.ok(["Paris", "Rome"].includes(call.args.city));
  const result = new ToolMessage({ content: await weather.invoke(call.args), tool_call_id: call.id });
  const answer = await model.invoke([...messages, asked, result]);
  assert.ok(answer.content.length > 0);
});

test("an answer follows a schema", async () => {
  const schema = z.object({ fox: z.enum(["red", "grey"]) });
  const answer = await openai({ maxTokens: 60 }).withStructuredOutput(schema, { method: "jsonSchema" }).invoke(messages);
  assert.ok(["red", "grey"].includes(answer.fox));
});

test("embeddings are alike through both", async () => {
  const one = new OpenAIEmbeddings({ model: "cub", apiKey: "any", configuration: { baseURL: `${server.url}/v1` } });
  const other = new OllamaEmbeddings({ model: "cub", baseUrl: server.url });
  const [first] = await one.embedDocuments(["a fox"]);
  const second = await other.embedQuery("a fox");
  assert.equal(first.length, second.length);
  for (let i = 0; i < first.length; ++i) assert.ok(Math.abs(first[i] - second[i]) < 1e-4);
});
