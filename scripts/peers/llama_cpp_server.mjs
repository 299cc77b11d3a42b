// SPDX-License-Identifier: MIT
// llama.cpp as an OpenAI-compatible server, to be loaded by `cheetah bench serve` beside Cheetah's own. It is the
// prebuilt llama.cpp of npm's node-llama-cpp: one context, its sequences batched continuously, one event a token.
// usage: node llama_cpp_server.mjs MODEL.gguf [threads] [sequences] [context of each]; run where node-llama-cpp is
// installed. Prints "ready at URL" and the versions.
import { readFileSync } from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [model_path, threads = "2", sequences = "16", context_size = "2048"] = process.argv.slice(2);
const require = createRequire(pathToFileURL(join(process.cwd(), "package.json")));
const { getLlama } = await import(pathToFileURL(require.resolve("node-llama-cpp")));

const llama = await getLlama({ gpu: false, build: "never" });
llama.maxThreads = Number(threads);
const model = await llama.loadModel({ modelPath: model_path });
const context = await model.createContext({
  sequences: Number(sequences), contextSize: Number(context_size), batchSize: 2048, flashAttention: true,
  threads: { ideal: Number(threads), min: Number(threads) },
});

// Sequences that nobody uses, and the requests that wait for one.
const free = Array.from({ length: Number(sequences) }, () => context.getSequence());
const waiting = [];
const take = () => free.length > 0 ? free.pop() : new Promise((resolve) => { waiting.push(resolve); });
const give_back = (sequence) => {
  const next = waiting.shift();
  next ? next(sequence) : free.push(sequence);
};

const event = (value) => `data: ${JSON.stringify(value)}\n\n`;

function prompt_of(body) {
  if (Array.isArray(body.prompt)) return body.prompt;  // token ids
  const text = body.prompt ?? body.messages.map((message) => message.content).join("\n");
  return [model.tokens.bos, ...model.tokenize(text)];
}

async function complete(body, chat, response) {
  const tokens = prompt_of(body);
  const sequence = await take();
  let written = 0;
  try {
    if (response.destroyed) return;
    await sequence.clearHistory();
    response.writeHead(200, { "content-type": "text/event-stream" });
    const sampling = { temperature: body.temperature ?? 0, yieldEogToken: true };
    for await (const token of sequence.evaluate(tokens, sampling)) {
      if (!body.ignore_eos && model.isEogToken(token)) break;
      const text = model.detokenize([token]);
      response.write(event({ choices: [{ index: 0, ...(chat ? { delta: { content: text } } : { text }) }] }));
      if (++written === body.max_tokens || response.destroyed) break;
    }
    const finish_reason = written === body.max_tokens ? "length" : "stop";
    response.write(event({ choices: [{ index: 0, finish_reason, ...(chat ? { delta: {} } : { text: "" }) }] }));
    const usage = { prompt_tokens: tokens.length, completion_tokens: written, total_tokens: tokens.length + written };
    response.end(`${event({ choices: [], usage })}data: [DONE]\n\n`);
  } finally {
    give_back(sequence);
  }
}

async function serve(request, response) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  if (request.url === "/v1/models") {
    response.setHeader("content-type", "application/json");
    return response.end(JSON.stringify({ object: "list", data: [{ id: "llama.cpp", object: "model" }] }));
  }
  const chat = request.url === "/v1/chat/completions";
  if (!chat && request.url !== "/v1/completions") return response.writeHead(404).end();
  return complete(JSON.parse(Buffer.concat(chunks)), chat, response);
}

const server = http.createServer((request, response) => {
  serve(request, response).catch((error) => {
    console.error(String(error));
    response.headersSent ? response.destroy() : response.writeHead(500).end(String(error));
  });
});
server.on("connection", (socket) => socket.setNoDelay(true));
server.listen(0, "127.0.0.1", () => {
  const folder = require.resolve("node-llama-cpp").replace(/(node-llama-cpp).*/, "$1");
  const { version } = JSON.parse(readFileSync(join(folder, "package.json")));
  console.log(`node-llama-cpp ${version}, llama.cpp ${llama.llamaCppRelease.release}, ${threads} threads, ${sequences} sequences`);
  console.log(`ready at http://127.0.0.1:${server.address().port}`);
});
process.on("SIGTERM", () => process.exit(0));
