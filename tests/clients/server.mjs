// SPDX-License-Identifier: MIT
// Starts `cheetah serve` on a free port for one suite and stops it afterwards.
import { spawn } from "node:child_process";
import { after, before } from "node:test";

const START_MS = 120_000;

function start(args, environment) {
  const child = spawn(process.env.CHEETAH, ["serve", process.env.CHEETAH_MODEL, "--port", "0",
    "--served-model-name", "cub", "--kv-memory", "32MiB", "--threads", "1", "--log-level", "error", ...args],
    { stdio: ["ignore", "pipe", "inherit"], env: { ...process.env, ...environment } });
  return new Promise((resolve, reject) => {
    let text = "";
    const timer = setTimeout(() => {
      child.kill("SIGKILL");
      reject(new Error(`the server did not start in time: ${text}`));
    }, START_MS);
    child.once("exit", (code) => reject(new Error(`the server ended with ${code}: ${text}`)));
    child.stdout.on("data", (bytes) => {
      text += bytes;
      const found = text.match(/ready after .* at (http:\S+)/);
      if (!found) return;
      clearTimeout(timer);
      resolve({ child, url: found[1] });
    });
  });
}

function stop({ child }) {
  child.removeAllListeners("exit");
  return new Promise((resolve) => {
    const timer = setTimeout(() => child.kill("SIGKILL"), 30_000);
    child.once("exit", () => {
      clearTimeout(timer);
      resolve();
    });
    child.kill("SIGTERM");
  });
}

// The server of a suite: `url` is set when its tests run.
export function serverForSuite({ args = [], environment = {} } = {}) {
  const server = { url: "" };
  before(async () => Object.assign(server, await start(args, environment)));
  after(() => stop(server));
  return server;
}

// Asks until the answer is yes; throws after a while.
export async function eventually(what, question, patience_ms = 60_000) {
  for (const end = Date.now() + patience_ms; Date.now() < end;) {
    if (await question()) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`never came true: ${what}`);
}

export async function stats(server) {
  return (await fetch(`${server.url}/v1/stats`)).json();
}
