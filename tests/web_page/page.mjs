// SPDX-License-Identifier: MIT
// The page of a real `cheetah serve`, in headless Chromium, as a person uses it.
// usage: node page.mjs CHEETAH CHROMIUM FOLDER; playwright-core is installed in FOLDER, screenshots go there.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { find_barriers, find_overflow } from "./inspect.mjs";
import { check_look } from "./looks.mjs";
import { kHostile, start_cheetah, start_front } from "./stage.mjs";

const [cheetah, chromium_path, folder] = process.argv.slice(2).map((path) => resolve(path));
const { chromium } = createRequire(join(folder, "package.json"))("playwright-core");
const kFlags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
  "--disable-sync", "--no-first-run"];
const kPatience = { timeout: 60_000 };
const kTest = { timeout: 180_000 };

let server, front, browser;
before(async () => {
  server = await start_cheetah(cheetah);
  front = await start_front(server.url);
  browser = await chromium.launch({ executablePath: chromium_path, headless: true, args: kFlags, timeout: 120_000 });
}, { timeout: 300_000 });
after(async () => {
  await browser?.close();
  front?.stop();
  await server?.stop();
}, { timeout: 60_000 });

// A page that fails the test when its own code complains or it asks another server for anything.
async function open(options = {}, url = front.url) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, ...options });
  page.setDefaultTimeout(kPatience.timeout);
  page.problems = [];
  page.on("dialog", (dialog) => dialog.accept());
  page.on("pageerror", (error) => page.problems.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && !/Failed to load resource/.test(message.text())) page.problems.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith("data:")) page.problems.push(`asked ${request.url()}`);
  });
  await page.goto(url);
  return page;
}

async function close(page) {
  assert.deepEqual(page.problems, []);
  await page.close();
}

const text_of = (page, selector) => page.locator(selector).textContent();
const until_text = (page, selector, pattern) =>
  page.waitForFunction(([s, p]) => new RegExp(p).test(document.querySelector(s)?.textContent ?? ""),
    [selector, pattern.source], kPatience);
const idle = (page) => page.waitForSelector("#send:not([hidden])", kPatience);

async function ask(page, prompt) {
  await page.fill("#prompt", prompt);
  await page.keyboard.press("Enter");
}

test("shows the model and that the server answers", kTest, async () => {
  const page = await open();
  await until_text(page, "#status", /^connected$/);
  await until_text(page, "#model", /^cub-7m$/);
  assert.match(await page.title(), /cub-7m/);
  assert.equal(await text_of(page, "#base-url"), `${front.url}/v1`);
  await close(page);
});

test("streams an answer, tells its speed and remembers the conversation", kTest, async () => {
  const page = await open();
  await until_text(page, "#model", /cub-7m/);
  await ask(page, "Once upon a time there was a cheetah.");
  await until_text(page, ".message.assistant", /\d+ tokens? · first token after [\d.]+ [mµ]?s/);
  await idle(page);
  const answer = await text_of(page, ".message.assistant .text");
  assert.ok(answer.length > 0);
  await ask(page, "And then?");
  await until_text(page, ".message:nth-last-child(1)", /\d+ tokens/);
  await idle(page);
  const sent = front.seen.bodies.at(-1);
  assert.deepEqual(sent.messages.map((message) => message.role), ["user", "assistant", "user"]);
  const letters = (text) => text.replace(/\s+/g, "");  // paragraphs are elements on the page, empty lines in the message
  assert.equal(letters(sent.messages[1].content), letters(answer));
  assert.equal(sent.model, "cub-7m");
  assert.equal(sent.max_tokens, 512);
  await page.click("#conversations [data-open] .forget");
  assert.equal(await page.locator(".message").count(), 0);
  assert.ok(await page.isVisible("#empty"));
  await close(page);
});

test("sends the settings, and in plain completion mode no template", kTest, async () => {
  const page = await open();
  await until_text(page, "#model", /cub-7m/);
  await page.click("#settings summary");
  for (const [id, value] of [["temperature", "0"], ["top-p", "0.9"], ["max-tokens", "5"], ["seed", "7"], ["system", "Be brief."]])
    await page.fill(`#${id}`, value);
  await ask(page, "Hello");
  await until_text(page, ".message.assistant", /tokens? ·/);
  await idle(page);
  const { messages, ...fields } = front.seen.bodies.at(-1);
  assert.deepEqual(messages, [{ role: "system", content: "Be brief." }, { role: "user", content: "Hello" }]);
  assert.deepEqual(fields, { model: "cub-7m", temperature: 0, top_p: 0.9, max_tokens: 5, seed: 7, stream: true,
    stream_options: { include_usage: true } });
  await page.click("#settings summary");
  await page.selectOption("#mode", "completion");
  await ask(page, "Once upon a");
  await until_text(page, ".message:nth-last-child(1)", /tokens? ·/);
  await idle(page);
  assert.equal(front.seen.bodies.at(-1).prompt, "Once upon a");
  await page.reload();
  assert.equal(await page.inputValue("#seed"), "7");
  await close(page);
});

test("stops an answer and goes on", kTest, async () => {
  const page = await open();
  const left_before = front.seen.closed;
  await ask(page, "SLOW answer");
  await until_text(page, ".message.assistant .text", /word3 /);  // seen while the answer is still being made
  assert.equal(await page.getAttribute("#log", "aria-busy"), "true");
  await page.click("#stop");
  await until_text(page, ".message.assistant", /stopped/);
  await idle(page);
  for (const end = Date.now() + 30_000; front.seen.closed === left_before; await page.waitForTimeout(20))
    assert.ok(Date.now() < end, "the server sees the connection close");
  await ask(page, "SLOW again");
  await until_text(page, ".message:nth-last-child(1) .text", /word3 /);
  await page.keyboard.press("Escape");
  await until_text(page, ".message:nth-last-child(1)", /stopped/);
  await idle(page);
  await ask(page, "Hello");
  await until_text(page, ".message:nth-last-child(1)", /tokens? ·/);
  await close(page);
});

test("shows what a model writes as text, never as markup", kTest, async () => {
  const page = await open();
  await ask(page, `HOSTILE ${kHostile}`);
  await until_text(page, ".message.assistant", /2 tokens/);
  assert.ok((await text_of(page, ".message.assistant .text")).includes(kHostile));
  assert.equal(await text_of(page, ".message.assistant pre"), "<i>code</i>");
  assert.equal(await page.locator("#log img, #log script, #log i, #log b").count(), 0);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  await close(page);
});

const from_end = (page) => page.evaluate(() => {
  const log = document.getElementById("log");
  return log.scrollHeight - log.scrollTop - log.clientHeight;
});

test("follows the stream once the log overflows, unless the reader scrolls up", kTest, async () => {
  const page = await open();
  for (let turn = 0; turn < 3; ++turn) {
    await ask(page, "LINES please");
    for (let i = 1; i < 50; i += 12) {
      await until_text(page, ".message:last-child .text", new RegExp(`line ${i} `));
      assert.ok(await from_end(page) < 60, `turn ${turn}, line ${i}: ${await from_end(page)} px from the end`);
    }
    await idle(page);
  }
  await ask(page, "LINES please");
  await until_text(page, ".message:last-child .text", /line 5 /);
  await page.evaluate(() => { document.getElementById("log").scrollTop = 0; });
  await idle(page);
  assert.ok(await from_end(page) > 200);
  assert.match(await text_of(page, ".message:last-child .facts"), /100\.0 tokens\/s/);
  await close(page);
});

test("keeps conversations over a reload, and starts new ones", kTest, async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  page.setDefaultTimeout(kPatience.timeout);
  await page.goto(front.url);
  await ask(page, "LINES please");
  await idle(page);
  await page.reload();
  assert.equal(await page.locator(".message").count(), 2);
  await page.click("#new");
  assert.equal(await page.locator(".message").count(), 0);
  await page.click("#conversations .open:has-text('LINES please')");
  assert.equal(await page.locator(".message").count(), 2);
  await context.close();
});

test("asks again, and lets a message be changed", kTest, async () => {
  const page = await open();
  await ask(page, "LINES one");
  await idle(page);
  await page.click(".message.assistant .actions button:has-text('Retry')");
  await idle(page);
  assert.equal(await page.locator(".message").count(), 2);
  await page.click(".message.user .actions button:has-text('Edit')");
  assert.equal(await page.locator(".message").count(), 0);
  assert.equal(await page.inputValue("#prompt"), "LINES one");
  await close(page);
});

test("says how far the model is read, and sends nothing meanwhile", kTest, async () => {
  front.seen.loading = true;
  try {
    const page = await open();
    await until_text(page, "#status", /^loading 43 %$/);
    assert.equal(await page.getAttribute("#loading", "aria-valuenow"), "43");
    assert.ok(await page.isDisabled("#send"));
    front.seen.loading = false;
    await until_text(page, "#status", /^connected$/);
    assert.ok(await page.isEnabled("#send"));
    assert.ok(!(await page.isVisible("#loading")));
    await close(page);
  } finally {
    front.seen.loading = false;
  }
});

test("puts characters together that arrive in pieces", kTest, async () => {
  const page = await open();
  await ask(page, "PIECES please");
  await until_text(page, ".message.assistant .text", /größer 🐆/);
  await close(page);
});

test("says what went wrong: refused, cut off, failed, gone", kTest, async () => {
  const page = await open();
  await page.click("#settings summary");
  await page.fill("#top-p", "7");
  await ask(page, "Hello");
  await until_text(page, ".message:nth-last-child(1) .problem", /top_p/);
  await page.click("#settings summary");
  await page.fill("#top-p", "");
  await ask(page, "CUT me");
  await until_text(page, ".message:nth-last-child(1) .problem", /connection .* lost/);
  assert.equal(await text_of(page, ".message:nth-last-child(1) .text"), "half an");
  await ask(page, "FAIL me");
  await until_text(page, ".message:nth-last-child(1) .problem", /the pages ran out/);
  await idle(page);
  await close(page);
});

test("shows live numbers of the engine", kTest, async () => {
  const page = await open();
  await ask(page, "Tell me a long story.");
  await until_text(page, ".message.assistant", /tokens? ·/);
  await until_text(page, "#total-decoded", /^[1-9]/);
  await until_text(page, "#ttft-50", /m?s$/);
  await until_text(page, "#decode-rate", /\d/);
  await until_text(page, "#kv-cached", /%/);
  await until_text(page, "#finished", /^[1-9]/);
  await page.waitForFunction(() => document.querySelector("#rate-chart .line").getAttribute("d").includes("L"), null, kPatience);
  await page.hover("#rate-chart");
  await until_text(page, "#rate-chart .chart-tip", /(s ago|now)decoded .*prompt /);
  await page.focus("#rate-chart .chart-area");
  await page.keyboard.press("Home");
  await until_text(page, "#rate-chart .chart-tip", /s ago/);
  assert.match(await text_of(page, "#running"), /^\d+ of \d+$/);
  await page.fill("#slo-ttft", "60000");
  await page.press("#slo-ttft", "Tab");
  await until_text(page, "#ttft-chart", /objective 60 s/);
  await until_text(page, "#ttft-within", /^100 % within$/);
  await page.screenshot({ path: join(folder, "wide.png") });
  await close(page);
});

test("is dark or light as the system is or the person says", kTest, async () => {
  const page = await open({ colorScheme: "dark" });
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await back();
  await page.screenshot({ path: join(folder, "dark.png") });
  await page.click("#theme");
  assert.equal(await page.getAttribute("html", "data-theme"), "light");
  assert.notEqual(await back(), dark);
  await page.reload();
  assert.equal(await page.getAttribute("html", "data-theme"), "light");
  await close(page);
});

test("fits a phone", kTest, async () => {
  const page = await open({ viewport: { width: 360, height: 740 } });
  await until_text(page, "#status", /connected/);
  assert.ok(!(await page.isVisible("#metrics")));
  await page.click("#toggle-metrics");
  assert.ok(await page.isVisible("#metrics"));
  assert.equal(await page.getAttribute("#toggle-metrics", "aria-expanded"), "true");
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing sticks out");
  await page.screenshot({ path: join(folder, "phone.png") });
  await close(page);
});

test("names every control and can be used with the keyboard", kTest, async () => {
  const page = await open();
  await page.click("#settings summary");
  assert.deepEqual(await page.evaluate(find_barriers), []);
  await page.keyboard.press("Escape");
  await page.focus("#prompt");
  await page.keyboard.type("one");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("two");
  assert.equal(await page.inputValue("#prompt"), "one\ntwo");
  const order = [];
  for (let i = 0; i < 4; ++i) {
    await page.keyboard.press("Tab");
    order.push(await page.evaluate(() => document.activeElement.id || document.activeElement.textContent));
  }
  assert.deepEqual(order, ["Parameters", "Schema and tools", "logprobs", "send"]);
  await page.focus("#tab-server");
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.evaluate(() => document.activeElement.id), "tab-request");
  assert.ok(await page.isVisible("#panel-request"));
  await close(page);
});

test("shows each token with its probability and the server's time for it", kTest, async () => {
  const page = await open();
  await until_text(page, "#model", /cub-7m/);
  await page.check("#logprobs");
  await ask(page, "Tell me a story.");
  await idle(page);
  await page.click(".message.assistant .actions button:has-text('Tokens')");
  const count = await page.locator(".tokens .t").count();
  assert.ok(count > 1);
  assert.ok((await text_of(page, ".message.assistant .facts")).startsWith(`${count} `));
  await page.focus(".tokens .run");
  await page.keyboard.press("ArrowRight");
  await until_text(page, ".tokens .about", /Token 2: .*Probability [\d.]+ %.* after the last/);
  assert.equal(await page.locator(".tokens .about .option").count(), 5);
  assert.deepEqual(await page.evaluate(find_barriers), []);
  await close(page);
});

test("inspects a request down to the scheduler's decisions", kTest, async () => {
  const page = await open();
  await until_text(page, "#model", /cub-7m/);
  await ask(page, "What does the scheduler do?");
  await idle(page);
  await page.click(".message.assistant .actions button:has-text('Inspect')");
  await until_text(page, "#request-view", /Queue .*Prompt .*Decode /);
  for (const kind of [/Arrived with \d+ tokens/, /Was admitted: \d+ tokens, \d+ of them cached/, /Had \d+ tokens of its prompt computed in a step of \d+ tokens/, /Finished \((stop|length)\) with \d+ tokens/])
    await until_text(page, ".decisions", kind);
  await until_text(page, "#request-view", /\d+ prompt chunks?, \d+ decode steps/);
  await page.reload();
  await page.click(".message.assistant .actions button:has-text('Inspect')");  // what was kept of it
  await until_text(page, "#request-view", /Where .* went/);
  await close(page);
});

test("asks the model that is chosen, and remembers it", kTest, async () => {
  front.seen.models = ["cub-7m", "large"];
  try {
    const page = await open();
    await until_text(page, "#model", /cub-7m.*large/);
    await page.selectOption("#model", "large");
    assert.match(await page.title(), /large/);
    await ask(page, "LINES please");
    await idle(page);
    assert.equal(front.seen.bodies.at(-1).model, "large");
    await page.reload();
    await until_text(page, "#model", /large/);
    assert.equal(await page.inputValue("#model"), "large");
    await close(page);
  } finally {
    front.seen.models = null;
  }
});

test("sends a JSON schema, and says where one is wrong", kTest, async () => {
  const page = await open();
  await until_text(page, "#model", /cub-7m/);
  await page.click("#structure summary");
  await page.fill("#schema", "{oops");
  await page.press("#schema", "Tab");
  await until_text(page, "#schema-problem", /This is not JSON/);
  const sent = front.seen.bodies.length;
  await page.fill("#prompt", "Hello");
  await page.press("#prompt", "Enter");
  assert.equal(front.seen.bodies.length, sent);
  const schema = { type: "object", properties: { n: { type: "integer", minimum: 1, maximum: 5 } }, required: ["n"], additionalProperties: false };
  await page.fill("#schema", JSON.stringify(schema));
  await page.press("#prompt", "Enter");
  await until_text(page, ".message.assistant", /tokens? ·/);
  assert.deepEqual(front.seen.bodies.at(-1).response_format.json_schema.schema, schema);
  const answer = JSON.parse(await text_of(page, ".message.assistant .text"));
  assert.ok(answer.n >= 1 && answer.n <= 5);
  await page.click("#structure summary");
  await page.fill("#schema", "");
  await page.press("#schema", "Tab");
  await close(page);
});

test("shows a call of a tool and sends its result", kTest, async () => {
  const page = await open();
  const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object", properties: {} } } }];
  await page.click("#structure summary");
  await page.fill("#tools", JSON.stringify(tools));
  await ask(page, "CALL it");
  await until_text(page, ".call", /weather[^]*"city": "Bern"/);
  await idle(page);
  assert.deepEqual(front.seen.bodies.at(-1).tools, tools);
  await until_text(page, "#tool-hint", /The model called weather/);
  await ask(page, "RESULT sunny");
  await until_text(page, ".message:last-child .text", /It is sunny/);
  await idle(page);
  const { messages } = front.seen.bodies.at(-1);
  assert.deepEqual(messages.map((message) => message.role), ["user", "assistant", "tool"]);
  assert.equal(messages[2].tool_call_id, messages[1].tool_calls[0].id);
  assert.ok(!(await page.isVisible("#tool-hint")));
  await page.evaluate(() => localStorage.clear());
  await close(page);
});

test("shows a cluster at its router: workers, roles, transfers", kTest, async () => {
  const cluster = await start_cheetah(cheetah, [], ["cluster", "up", "--in-process", "--prefill", "1", "--decode", "1", "--port", "0"]);
  try {
    const page = await open({}, cluster.url);
    await until_text(page, "#model", /cub-7m/);
    await page.check("#logprobs");
    await ask(page, "Tell me a long story about a cheetah who lived on a wide plain and ran every day.");
    await until_text(page, ".message.assistant", /tokens? ·/);
    await idle(page);
    await page.click("#tab-cluster");
    await until_text(page, "#cluster-view", /Workers2 of 2 ready/);
    await until_text(page, ".workers", /prefill[^]*decode/);
    await until_text(page, "#cluster-view", /(Remote|Local) prefills1/);
    await until_text(page, "#cluster-view", /Faults and detours/);
    assert.ok(!(await page.isVisible("#cache-chart")));  // a router has no cache of its own
    await page.click(".message.assistant .actions button:has-text('Inspect')");
    await until_text(page, "#request-view", /Decode worker/);
    assert.deepEqual(await page.evaluate(find_barriers), []);
    await page.screenshot({ path: join(folder, "cluster.png") });
    await close(page);
  } finally {
    await cluster.stop();
  }
});

for (const [name, width, height] of [["phone", 390, 844], ["laptop", 1440, 900], ["wide", 2560, 1440], ["4k", 3840, 2160]])
  for (const colorScheme of ["light", "dark"])
    test(`has room and contrast at ${width} px, ${colorScheme}`, kTest, async () => {
      const page = await open({ viewport: { width, height }, colorScheme });
      await until_text(page, "#status", /connected/);
      await ask(page, "MARKDOWN please");
      await idle(page);
      const check = async (part) => {
        assert.deepEqual(await page.evaluate(find_overflow), [], part);
        assert.deepEqual(await page.evaluate(find_barriers), [], part);
        const picture = await page.screenshot({ path: join(folder, `${name}-${colorScheme}-${part}.png`) });
        if (part !== "server") await check_look(browser, `page ${name} ${colorScheme} ${part}`, picture);
      };
      if (name === "phone") await page.click("#toggle-metrics");
      await check("server");
      await page.click("#tab-request");
      await check("request");
      if (name === "phone") await page.click("#toggle-metrics");
      await check("chat");
      await page.click("#settings summary");
      await check("parameters");
      await close(page);
    });

test("asks for the API key and uses it", kTest, async () => {
  const keys = mkdtempSync(join(tmpdir(), "page-test-"));
  writeFileSync(join(keys, "keys"), "sk-page-test\n", { mode: 0o600 });
  const guarded = await start_cheetah(cheetah, ["--api-key-file", join(keys, "keys")]);
  try {
    const page = await open({}, guarded.url);
    await until_text(page, "#status", /API key needed/);
    await page.fill("#api-key", "sk-page-test");
    await page.press("#api-key", "Tab");
    await until_text(page, "#status", /connected/);
    await until_text(page, "#model", /cub-7m/);
    await ask(page, "Hello");
    await until_text(page, ".message.assistant", /tokens? ·/);
    assert.equal(await page.evaluate(() => JSON.stringify(localStorage).includes("sk-page")), false);
    await close(page);
  } finally {
    await guarded.stop();
    rmSync(keys, { recursive: true });
  }
});

test("says when the server is gone", kTest, async () => {
  const brief = await start_cheetah(cheetah);
  const page = await open({}, brief.url);
  await until_text(page, "#status", /connected/);
  await brief.stop();
  await until_text(page, "#status", /no connection/);
  await close(page);
});
