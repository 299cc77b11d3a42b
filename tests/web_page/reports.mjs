// SPDX-License-Identifier: MIT
// The pages that bench, lab and doctor write, from files and without a network, in headless Chromium.
// usage: node reports.mjs CHEETAH CHROMIUM FOLDER, as page.mjs.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { find_barriers, find_overflow } from "./inspect.mjs";
import { check_look } from "./looks.mjs";
import { start_cheetah } from "./stage.mjs";

const [cheetah, chromium_path, folder] = process.argv.slice(2).map((path) => resolve(path));
const { chromium } = createRequire(join(folder, "package.json"))("playwright-core");
const kFlags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND"];
const kTest = { timeout: 180_000 };
const kLab = new URL("../lab/run.json", import.meta.url).pathname;
const run = (...args) => promisify(execFile)(cheetah, args.map(String), { timeout: 120_000 });
const page_of = (name) => join(folder, `${name}.html`);

let browser;
before(async () => {
  const server = await start_cheetah(cheetah);
  try {
    const load = ["bench", "serve", "--url", server.url, "--output-tokens", 8, "--requests", 20, "--slo-ttft", 60000, "--slo-tpot", 60000];
    await run(...load, "--rate", 40, "--html", page_of("load"));
    await run(...load, "--sweep", "20:40:3", "--html", page_of("sweep"));
  } finally {
    await server.stop();
  }
  await run("lab", "report", kLab, "-o", page_of("lab"));
  await run("doctor", "--html", page_of("doctor"));
  browser = await chromium.launch({ executablePath: chromium_path, headless: true, args: kFlags, timeout: 120_000 });
}, { timeout: 300_000 });
after(async () => browser?.close(), { timeout: 60_000 });

async function open(name, options) {
  const page = await browser.newPage(options);
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(String(error)));
  page.on("console", (message) => { if (message.type() === "error") page.problems.push(message.text()); });
  page.on("request", (request) => { if (request.url() !== page.url() && !/^(file|data):/.test(request.url())) page.problems.push(`asked ${request.url()}`); });
  await page.goto(pathToFileURL(page_of(name)).href);
  await page.waitForFunction(() => [...document.querySelectorAll("figure[data-chart]")].every((figure) => figure.querySelector("svg > *")));
  return page;
}

const kCharts = { load: 3, sweep: 3, lab: 2, doctor: 0 };
for (const name of Object.keys(kCharts))
  for (const [width, height] of [[390, 844], [1440, 900], [2560, 1440]])
    for (const colorScheme of ["light", "dark"])
      test(`${name} at ${width} px, ${colorScheme}`, kTest, async () => {
        const page = await open(name, { viewport: { width, height }, colorScheme });
        assert.ok(await page.locator("figure svg").count() >= kCharts[name]);
        for (const details of await page.locator("details").all()) await details.evaluate((element) => { element.open = true; });
        assert.deepEqual(await page.evaluate(find_overflow), []);
        assert.deepEqual(await page.evaluate(find_barriers), []);
        assert.match(await page.title(), /, \d{4}-\d{2}-\d{2}$/);
        await page.screenshot({ path: join(folder, `${name}-${width}-${colorScheme}.png`), fullPage: true });
        if (name === "lab") await check_look(browser, `lab ${width} ${colorScheme}`, await page.screenshot());
        assert.deepEqual(page.problems, []);
        await page.close();
      });

test("charts of a report give their values to the pointer and the keyboard", kTest, async () => {
  const page = await open("sweep", { viewport: { width: 1440, height: 900 } });
  const area = page.locator(".chart-area").first();
  await area.hover();
  await page.waitForFunction(() => /goodput/.test(document.querySelector(".chart-tip").textContent));
  await area.focus();
  await page.keyboard.press("Home");
  assert.match(await page.locator(".chart-tip").first().textContent(), /^20 offered requests\/sgoodput/);
  assert.match(await page.locator(".slo-name").first().textContent(), /^objective 60000/);
  await page.close();
});
