// SPDX-License-Identifier: MIT
// A router with an endpoint picker and two decode workers that take requests themselves, at one port of two addresses,
// as pods do.
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const START_MS = 120_000;
export const HOSTS = ["127.0.0.1", "127.0.0.2"];

function freePort(host = "127.0.0.1") {
  return new Promise((resolve, reject) => {
    const server = createServer().once("error", reject).listen(0, host, () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

function startNode(name, args) {
  const child = spawn(process.env.CHEETAH, ["serve", process.env.CHEETAH_MODEL, "--node-name", name, "--threads", "1",
    "--kv-memory", "32MiB", "--log-level", "error", ...args], { stdio: ["ignore", "pipe", "inherit"] });
  child.ready = new Promise((resolve, reject) => {
    let text = "";
    const timer = setTimeout(() => reject(new Error(`${name} did not start in time: ${text}`)), START_MS);
    child.once("exit", (code) => reject(new Error(`${name} ended with ${code}: ${text}`)));
    child.stdout.on("data", (bytes) => {
      text += bytes;
      if (!/ready after/.test(text)) return;
      clearTimeout(timer);
      resolve(text);
    });
  });
  return child;
}

// A router that speaks TLS, without workers.
export async function startRouterWithTls() {
  const folder = mkdtempSync(join(tmpdir(), "cheetah-picker-"));
  const path = (name) => join(folder, name);
  const made = spawnSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", path("key"), "-out", path("cert")]);
  if (made.status !== 0) throw new Error(`openssl: ${made.stderr}`);
  const [peers, picker] = [await freePort(), await freePort()];
  writeFileSync(path("peers"), `router 127.0.0.1:${peers} router\n`);
  const router = startNode("router", ["--cluster", `peers:${path("peers")}`, "--role", "router", "--port", "0", "--cluster-port", `${peers}`,
    "--endpoint-picker-port", `${picker}`, "--tls-cert", path("cert"), "--tls-key", path("key")]);
  await router.ready;
  const stop = () => {
    router.removeAllListeners("exit");
    router.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  };
  return { picker: `127.0.0.1:${picker}`, certificate: readFileSync(path("cert")), stop };
}

export async function startCluster({ policy = "", keys = "" } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "cheetah-picker-"));
  const file = (name, text) => {
    writeFileSync(join(folder, name), text);
    chmodSync(join(folder, name), 0o600);
    return join(folder, name);
  };
  const [client, picker, router, first, second] = [await freePort(), await freePort(), await freePort(), await freePort(),
    await freePort(HOSTS[1])];
  const peers = file("peers", `router ${HOSTS[0]}:${router} router\ndecode ${HOSTS[0]}:${first} d0\ndecode ${HOSTS[1]}:${second} d1\n`);
  const shared = ["--cluster", `peers:${peers}`, "--secret-file", file("secret", "0123456789abcdef0123456789abcdef\n"),
    ...(policy ? ["--policy-file", file("policy.toml", policy)] : []), ...(keys ? ["--api-key-file", file("keys", keys)] : [])];
  const nodes = {
    router: startNode("router", [...shared, "--role", "router", "--port", "0", "--cluster-port", `${router}`,
      "--endpoint-picker-port", `${picker}`, "--endpoint-picker-target-port", `${client}`]),
    d0: startNode("d0", [...shared, "--role", "decode", "--host", HOSTS[0], "--port", `${client}`, "--cluster-port", `${first}`]),
    d1: startNode("d1", [...shared, "--role", "decode", "--host", HOSTS[1], "--port", `${client}`, "--cluster-host", HOSTS[1],
      "--cluster-port", `${second}`]),
  };
  const stop = () => {
    for (const child of Object.values(nodes)) {
      child.removeAllListeners("exit");
      child.kill("SIGKILL");
    }
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await Promise.all(Object.values(nodes).map((child) => child.ready));
  } catch (error) {
    stop();
    throw error;
  }
  return { picker: `127.0.0.1:${picker}`, endpoints: HOSTS.map((host) => `${host}:${client}`), nodes, stop };
}
