// SPDX-License-Identifier: MIT
// The endpoint picker as a gateway meets it: which worker, among which, and when none.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { connect } from "node:net";

import { startCluster, startRouterWithTls } from "./cluster.mjs";
import { BUFFERED, Gateway } from "./gateway.mjs";

// Cached prefixes decide; whoever is "limited" has two short requests.
const POLICY = `[[qos.quota]]
tenant = "limited"
tokens_per_s = 1
burst_tokens = 60
`;
const SERVING = 1, NOT_SERVING = 2;
const KEY = { authorization: "Bearer key-of-all-others-0123456789" }, LIMITED = { authorization: "Bearer key-of-the-limited-0123456" };
let cluster, gateway;

before(async () => {
  cluster = await startCluster({ policy: POLICY, keys: "all key-of-all-others-0123456789\nlimited key-of-the-limited-0123456\n" });
  gateway = new Gateway(cluster.picker);
  const end = Date.now() + 60_000;  // both workers are linked
  while ((await gateway.ask(undefined, { path: "/v1/models", method: "GET", headers: KEY })).endpoint?.split(",").length !== 2)
    assert.ok(Date.now() < end, "both workers are seen");
});
after(() => {
  gateway?.close();
  cluster?.stop();
});

const prompt = (salt, length = 600) => Array.from({ length }, (_, i) => 5 + ((i * 37 + salt * 11) % 200));
const body = (salt, more = {}) => ({ model: "cub-1m", prompt: prompt(salt), max_tokens: 2, temperature: 0, ...more });
const first = (choice) => choice.endpoint.split(",")[0];

async function post(endpoint, request) {
  const answer = await fetch(`http://${endpoint}/v1/completions`, { method: "POST", headers: { "content-type": "application/json", ...KEY },
    body: JSON.stringify(request) });
  assert.equal(answer.status, 200, await answer.clone().text());
  return answer.json();
}

test("a request gets an endpoint that answers it, and its body goes on as it came", async () => {
  const choice = await gateway.ask(body(1), { headers: KEY, pieces: 3 });
  assert.ok(cluster.endpoints.includes(first(choice)), choice.endpoint);
  assert.equal(choice.endpoint, choice.metadata);
  assert.deepEqual(JSON.parse(choice.body), body(1));
  assert.deepEqual(choice.endpoint.split(",").sort(), [...cluster.endpoints].sort(), "the other one is there in case");
  assert.equal((await post(first(choice), body(1))).choices.length, 1);
});

test("a body of several megabytes goes through whole", async () => {
  const large = JSON.stringify(body(2)) + " ".repeat(3_000_000);
  const choice = await gateway.ask(large, { headers: KEY, pieces: 60 });
  assert.ok(choice.endpoint);
  assert.ok(choice.body === large);
});

test("a prompt goes where its beginning is cached", async () => {
  for (const [salt, endpoint] of [[31, cluster.endpoints[0]], [32, cluster.endpoints[1]], [33, cluster.endpoints[1]], [34, cluster.endpoints[0]]]) {
    await post(endpoint, body(salt));
    const end = Date.now() + 60_000;  // the worker tells the router what it keeps
    let choice;
    do choice = await gateway.ask(body(salt), { headers: KEY });
    while (first(choice) !== endpoint && Date.now() < end);
    for (let turn = 0; turn < 3; ++turn) assert.equal(first(await gateway.ask(body(salt), { headers: KEY })), endpoint);
  }
});

test("the choice is among the subset, and none is no choice", async () => {
  for (const endpoint of cluster.endpoints) {
    const choice = await gateway.ask(body(4), { headers: KEY, subset: [endpoint, "10.9.9.9:1"] });
    assert.equal(choice.endpoint, endpoint);
  }
  for (const subset of [[], ["10.9.9.9:8000"], [cluster.endpoints[0].replace(/:.*/, ":1")]]) {
    const refused = await gateway.ask(body(4), { headers: KEY, subset });
    assert.equal(refused.status, 503);
    assert.equal(JSON.parse(refused.text).error.code, "no_workers");
  }
});

test("a buffered body is answered with the choice", async () => {
  assert.ok(cluster.endpoints.includes(first(await gateway.ask(body(5), { headers: KEY, mode: BUFFERED }))));
});

test("what no worker would answer is refused at once", async () => {
  const broken = await gateway.ask("{\"prompt\": ", { headers: KEY });
  assert.equal(broken.status, 400);
  assert.equal(JSON.parse(broken.text).error.type, "invalid_request_error");
  assert.equal((await gateway.ask(body(6, { model: "none" }), { headers: KEY })).status, 404);
  assert.equal((await gateway.ask(body(6), {})).status, 401);
  assert.equal((await gateway.ask(body(6), { headers: { authorization: "Bearer wrong" } })).status, 401);
});

test("who has used up a quota is told when to come again", async () => {
  const small = { model: "cub-1m", prompt: prompt(7, 20), max_tokens: 8 };
  const held = [];
  let refused;
  for (let turn = 0; turn < 10 && !refused; ++turn) {
    const answer = await gateway.ask(small, { headers: LIMITED, hold: true });
    if (answer.status) refused = answer;
    else held.push(answer);
  }
  assert.equal(refused?.status, 429);
  assert.ok(Number(refused.headers["retry-after"]) >= 1, JSON.stringify(refused.headers));
  for (const answer of held) answer.done();
  assert.ok((await gateway.ask(small, { headers: KEY })).endpoint, "others are not concerned");
});

test("noise at the port concerns nobody", async () => {
  const noise = ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\xff".repeat(500), "GET / HTTP/1.1\r\n\r\n", "\0".repeat(64), "\x16\x03\x01\x02"];
  await Promise.all(noise.map((text) => new Promise((resolve) => {
    const [host, port] = cluster.picker.split(":");
    const stranger = connect(Number(port), host, () => stranger.end(Buffer.from(text, "latin1")));
    stranger.on("close", resolve).on("error", resolve).resume();
  })));
  assert.ok((await gateway.ask(body(8), { headers: KEY })).endpoint);
});

test("it speaks TLS where the server does", async () => {
  const router = await startRouterWithTls();
  const secure = new Gateway(router.picker, router.certificate);
  try {
    assert.equal(await secure.check("liveness"), SERVING);
    assert.equal(await secure.check(), NOT_SERVING);
    assert.equal((await secure.ask(body(10))).status, 503);
  } finally {
    secure.close();
    router.stop();
  }
});

test("health follows the workers", async () => {
  assert.equal(await gateway.check(), SERVING);
  for (const name of ["d0", "d1"]) {
    cluster.nodes[name].removeAllListeners("exit");
    cluster.nodes[name].kill("SIGKILL");
  }
  const end = Date.now() + 60_000;
  while ((await gateway.check()) !== NOT_SERVING) assert.ok(Date.now() < end, "the loss is seen");
  assert.equal(await gateway.check("liveness"), SERVING);
  assert.equal((await gateway.ask(body(9), { headers: KEY })).status, 503);
});
