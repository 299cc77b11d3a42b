// SPDX-License-Identifier: MIT
// Test strings: the same on every run, from a seeded generator, snippets of many scripts and files of this repository.
import { readFileSync } from "node:fs";

export function randomSource(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  return {
    below: (limit) => Math.floor(next() * limit),
    pick: (list) => list[Math.floor(next() * list.length)],
  };
}

const SNIPPETS = [
  "The quick brown fox jumps over the lazy dog.", "I'm sure they've said we'll go; it's what she'd DON'T'VE want.",
  "Café naïve façade coöperate Zürich ÅNGSTRÖM", "Größenwahn straße Übergrößenträger", "¿Qué pasó? ¡Adiós, señor!",
  "Съешь же ещё этих мягких французских булок", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία", "我能吞下玻璃而不伤身体。今天天气很好！",
  "いろはにほへと ちりぬるを カタカナ ｶﾀｶﾅ", "다람쥐 헌 쳇바퀴에 타고파 한국어 처리", "नमस्ते दुनिया, आप कैसे हैं?", "স্বাগতম বাংলা ভাষা",
  "ภาษาไทยไม่มีช่องว่างระหว่างคำ", "مرحبا بالعالم ١٢٣٤٥", "שלום עולם, מה שלומך?", "გამარჯობა მსოფლიო", "Բարեւ աշխարհ", "ሰላም ልዑል",
  "👩‍👩‍👧‍👦 family, 👍🏽 ok, 🇩🇪🇫🇷 flags, ❤️‍🔥 x", "é versus é, ﬁ ligature, ① ² ½ Ⅷ", "price: $1,234,567.89 (−12.5%) £3 €4 ¥5",
  "0123456789 1 12 123 1234 12345 3.14159e-10 0xDEADBEEF", "https://example.com/a/b?q=1&r=%20#frag user@host.org",
  "if (x != y) { return x->z[i++] * 2; } // done", "def f(a, b=None):\n    return {\"k\": [a, *b]}\n", "SELECT * FROM t WHERE a >= 'b''c' -- x\n",
  "<div class=\"a\">text</div>\n\n\n<br/>", "\t\tindent\n    four\n\r\n  mixed \u00a0nbsp\u3000wide", "   leading", "trailing   ", "a  b   c    d     e",
  "\n", " ", "  ", "\n\n", " \n \n ", "\t", "\r\n\r\n", "\u200b\u200d\ufeff zero width", "\u0000 nul \u0007 bell \u001b[0m", "\ufffd replacement \ue000 private",
  "ſ long s 'ſ K kelvin 'Re 'LL 'vE", "word's words' 'quoted' 'd 'D 's'S", "ＦＵＬＬ　ｗｉｄｔｈ １２３", "𝓯𝓪𝓷𝓬𝔂 𝟘𝟙𝟚 𐍈𐍂", "a\u0301\u0302\u0303 q\u0323\u0307",
  "▁ metaspace ▁▁ twice", "Ġ and Ċ as text", "<0x0A> <0xFF> as text", "[CLS] [SEP] [UNK] <unk> <s> </s> <pad>",
];

const RANGES = [
  [0x20, 0x7e], [0x20, 0x7e], [0xa0, 0x24f], [0x300, 0x36f], [0x370, 0x3ff], [0x400, 0x4ff], [0x590, 0x5ff], [0x600, 0x6ff], [0x900, 0x97f],
  [0xe00, 0xe7f], [0x1100, 0x11ff], [0x2000, 0x206f], [0x20a0, 0x20bf], [0x2150, 0x218f], [0x2190, 0x21ff], [0x2500, 0x257f], [0x3000, 0x303f],
  [0x3040, 0x30ff], [0x4e00, 0x9fff], [0xac00, 0xd7a3], [0xff00, 0xffef], [0x1f300, 0x1f64f], [0x1f900, 0x1f9ff], [0x10000, 0x100ff], [0x1d400, 0x1d7ff],
];
const SPACES = [" ", " ", " ", "  ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2028", "\u0085", "   ", " \n "];

function randomChars(random, length) {
  let text = "";
  for (let i = 0; i < length; ++i) {
    const [first, last] = random.pick(RANGES);
    text += random.below(6) === 0 ? random.pick(SPACES) : String.fromCodePoint(first + random.below(last - first + 1));
  }
  return text;
}

// About `count` strings; `specials` are the tokenizer's own added tokens.
export function makeStrings(count, specials, files, seed) {
  const random = randomSource(seed);
  const strings = ["", ...SNIPPETS];
  const lines = files.flatMap((file) => readFileSync(file, "utf8").split(/(?<=\n)/));
  while (strings.length < count) {
    const kind = strings.length % 6;
    if (kind === 0) strings.push(randomChars(random, 1 + random.below(24)));
    else if (kind === 1) strings.push(random.pick(SNIPPETS) + random.pick(SPACES) + random.pick(SNIPPETS));
    else if (kind === 2) {
      const start = random.below(lines.length);
      strings.push(lines.slice(start, start + 1 + random.below(4)).join(""));
    } else if (kind === 3) {
      const text = random.pick(SNIPPETS);
      const chars = [...text];
      strings.push(chars.slice(random.below(chars.length), 1 + random.below(chars.length)).join("") + random.pick(SPACES));
    } else if (kind === 4 && specials.length > 0)
      strings.push(random.pick(SNIPPETS) + random.pick(["", " ", "\n"]) + random.pick(specials) + random.pick(["", " ", "  "]) + random.pick(SNIPPETS));
    else strings.push(String(random.below(1e9)) + random.pick(SPACES) + randomChars(random, random.below(8)));
  }
  return strings;
}
