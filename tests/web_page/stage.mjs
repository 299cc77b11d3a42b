// SPDX-License-Identifier: MIT
// What the page test stands on: a real cheetah server, and before it a front that plays the part of a server in
// trouble for prompts that ask for it.
import { spawn } from "node:child_process";
import http from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

const kStartMs = 120_000;

// A `cheetah serve` on a free port; ends with stop().
export async function start_cheetah(program, args = [], command = ["serve", "--port", "0"]) {
  const process = spawn(program, [...command, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  const collect = (data) => { output += data; };
  process.stdout.on("data", collect);
  process.stderr.on("data", collect);
  const exited = new Promise((resolve) => { process.once("exit", resolve); });
  const stop = async () => {
    process.kill("SIGTERM");
    await Promise.race([exited, sleep(20_000, null, { ref: false }).then(() => process.kill("SIGKILL"))]);
  };
  for (const end = Date.now() + kStartMs; Date.now() < end; await sleep(50)) {
    const ready = /ready(?: after|:) .* at (http:\/\/[\d.:]+)/.exec(output);
    if (ready) return { url: ready[1], stop };
    if (process.exitCode !== null) break;
  }
  await stop();
  throw new Error(`cheetah did not start: ${output}`);
}

const event = (value) => `data: ${JSON.stringify(value)}\n\n`;
const text_event = (text) => event({ choices: [{ index: 0, delta: { content: text } }] });

export const kHostile = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>&lt;b&gt;';

// Every kind of block, with lines that are too long for a phone.
const kMarkdown = `# A heading

Some **bold** text with \`code\`, a [link](https://example.com/) and a_very_long_identifier_that_has_no_place_to_break_anywhere_in_it.

\`\`\`cpp
// A comment that is longer than a phone is wide, so that the block has to scroll and not the page.
int main() { return "text" != nullptr ? 42 : 0; }
\`\`\`

1. one
2. two
   - nested

| model | tokens per second | time to first token | note |
|---|---|---|---|
| cub-7m | 1,234 | 38 ms | a cell with a longer text |

> A quote.
`;

// What a prompt that begins with the word makes the front answer.
const kParts = {
  HOSTILE(response) {
    response.write(text_event(kHostile));
    response.end(`${text_event("\n```\n<i>code</i>\n```\n")}data: [DONE]\n\n`);
  },
  async SLOW(response, seen) {
    let closed = false;
    response.on("close", () => { closed = true; ++seen.closed; });
    for (let i = 0; i < 2000 && !closed; ++i) {
      response.write(text_event(`word${i} `));
      await sleep(20);
    }
    response.end();
  },
  // More lines than fit the log, in pieces.
  async LINES(response) {
    for (let i = 0; i < 60; ++i) {
      response.write(text_event(`line ${i} of an answer\n\n`));
      await sleep(10);
    }
    const timings = { ttft_ms: 38, predicted_n: 211, predicted_ms: 2100 };
    response.end(`${event({ choices: [], usage: { completion_tokens: 211, prompt_tokens: 9 }, timings })}data: [DONE]\n\n`);
  },
  CALL(response) {
    const call = { index: 0, id: "call_1", type: "function", function: { name: "weather", arguments: '{"city":"Bern"}' } };
    response.end(`${event({ choices: [{ index: 0, delta: { tool_calls: [call] }, finish_reason: "tool_calls" }] })}data: [DONE]\n\n`);
  },
  RESULT(response) {
    response.end(`${text_event("It is sunny.")}data: [DONE]\n\n`);
  },
  MARKDOWN(response) {
    const timings = { queue_ms: 1.2, cache_n: 4, prompt_n: 5, prompt_ms: 30, prompt_per_second: 166, predicted_n: 211, predicted_ms: 2100, ttft_ms: 38, total_ms: 2138 };
    response.end(`${text_event(kMarkdown)}${event({ choices: [], usage: { completion_tokens: 211, prompt_tokens: 9 }, timings })}data: [DONE]\n\n`);
  },
  CUT(response) {
    response.write(text_event("half an"));
    setTimeout(() => response.socket.destroy(), 100);
  },
  FAIL(response) {
    response.end(`${text_event("half an")}${event({ error: { message: "the pages ran out" } })}`);
  },
  // Odd framing: characters and line ends cut in two, several events in one write.
  async PIECES(response) {
    const bytes = Buffer.from(`: comment\r\n${text_event("grö").replaceAll("\n", "\r\n")}${text_event("ßer 🐆")}data: [DONE]\n\n`);
    for (const byte of bytes) {
      response.write(Buffer.from([byte]));
      await sleep(1);
    }
    response.end();
  },
};

// Passes everything on to `target` but the prompts above; `seen` tells what it saw.
export function start_front(target) {
  const seen = { closed: 0, bodies: [], loading: false };  // streams the page left, requests it sent
  const server = http.createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    if (request.method === "POST") seen.bodies.push(JSON.parse(body));
    const prompt = request.method === "POST" ? seen.bodies.at(-1).messages?.at(-1).content ?? "" : "";
    if (seen.loading && request.url === "/v1/stats") {
      const stats = await (await fetch(`${target}/v1/stats`)).json();
      response.end(JSON.stringify({ ...stats, ready: false, loading: { read_bytes: 43, total_bytes: 100, share: 0.43 } }));
      return;
    }
    if (seen.models && request.url === "/v1/models") {
      response.end(JSON.stringify({ data: seen.models.map((id) => ({ id })) }));
      return;
    }
    const part = kParts[prompt.split(" ")[0]];
    if (part) {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.on("error", () => {});
      part(response, seen);
      return;
    }
    const headers = { ...request.headers, host: new URL(target).host };
    const onward = http.request(target + request.url, { method: request.method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    response.on("close", () => onward.destroy());
    onward.on("error", () => response.destroy());
    onward.end(body);
  });
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve({
      url: `http://127.0.0.1:${server.address().port}`, seen,
      stop: () => { server.closeAllConnections(); server.close(); },
    }));
  });
}
