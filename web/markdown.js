// SPDX-License-Identifier: MIT
// Markdown as models write it. parse() gives plain data; render() makes elements of it with textContent alone, so
// model text never becomes markup, whatever is in it.

import { highlight } from "./highlight.js";

const kFence = /^ {0,3}(```+|~~~+)\s*([\w+#.-]*)[^`]*$/;
const kItem = /^( {0,3})([-*+]|\d{1,9}[.)])( +|$)/;
const kRule = /^ {0,3}([-*_])( *\1){2,} *$/;
const kHeading = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const kTableLine = /^ {0,3}\|?[ :|-]*-[ :|-]*$/;
const kMaxDepth = 8;

const cells_of = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
const starts_block = (line) => kFence.test(line) || kItem.test(line) || kRule.test(line) || kHeading.test(line) ||
  /^ {0,3}>/.test(line);

// The blocks of a text: { type, source, … }. `source` is what the block was made of.
export function parse(text, depth = 0) {
  const lines = text.split("\n");
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (lines[at].trim() === "") {
      ++at;
      continue;
    }
    const [block, next] = read_block(lines, at, depth);
    blocks.push({ ...block, source: lines.slice(at, next).join("\n") });
    at = next;
  }
  return blocks;
}

function read_block(lines, at, depth) {
  const line = lines[at];
  const fence = kFence.exec(line);
  if (fence) return read_code(lines, at, fence);
  const heading = kHeading.exec(line);
  if (heading) return [{ type: "heading", level: heading[1].length, text: heading[2] }, at + 1];
  if (kRule.test(line)) return [{ type: "rule" }, at + 1];
  if (depth < kMaxDepth && /^ {0,3}>/.test(line)) return read_quote(lines, at, depth);
  if (depth < kMaxDepth && kItem.test(line)) return read_list(lines, at, depth);
  if (line.includes("|") && kTableLine.test(lines[at + 1] ?? "") && lines[at + 1].includes("|")) return read_table(lines, at);
  let end = at + 1;
  while (end < lines.length && lines[end].trim() !== "" && !starts_block(lines[end])) ++end;
  return [{ type: "paragraph", text: lines.slice(at, end).join("\n") }, end];
}

// Up to the closing fence, or to the end while it is still being written.
function read_code(lines, at, [, mark, language]) {
  let end = at + 1;
  while (end < lines.length && !(lines[end].trim().startsWith(mark) && lines[end].trim().replaceAll(mark[0], "") === "")) ++end;
  return [{ type: "code", language, text: lines.slice(at + 1, end).join("\n") }, Math.min(end + 1, lines.length)];
}

function read_quote(lines, at, depth) {
  let end = at;
  while (end < lines.length && /^ {0,3}>/.test(lines[end])) ++end;
  const inner = lines.slice(at, end).map((line) => line.replace(/^ {0,3}> ?/, "")).join("\n");
  return [{ type: "quote", blocks: parse(inner, depth + 1) }, end];
}

function read_list(lines, at, depth) {
  const ordered = /\d/.test(kItem.exec(lines[at])[2]);
  const items = [];
  let end = at;
  while (end < lines.length) {
    const item = kItem.exec(lines[end]);
    if (!item || /\d/.test(item[2]) !== ordered || kRule.test(lines[end])) break;
    const indent = item[0].length;
    const inner = [lines[end].slice(indent)];
    for (++end; end < lines.length; ++end) {
      const deep = lines[end].length - lines[end].trimStart().length;
      const blank = lines[end].trim() === "";
      if (blank && !/^ {2,}\S/.test(lines[end + 1] ?? "")) break;
      if (!blank && deep < 2 && starts_block(lines[end])) break;
      inner.push(lines[end].slice(Math.min(deep, indent)));
    }
    items.push(parse(inner.join("\n"), depth + 1));
    if (lines[end]?.trim() === "" && kItem.test(lines[end + 1] ?? "")) ++end;
  }
  return [{ type: "list", ordered, start: ordered ? parseInt(kItem.exec(lines[at])[2], 10) : 1, items }, end];
}

function read_table(lines, at) {
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|") && lines[end].trim() !== "") ++end;
  return [{ type: "table", head: cells_of(lines[at]), rows: lines.slice(at + 2, end).map(cells_of) }, end];
}

// One scan: code, links, strong, emphasis, deleted; what does not match stays text.
const kInline = /(`+)([^`]|[^`][^]*?[^`])\1(?!`)|\[([^\][\n]{1,500})\]\(([^()\s]{1,2000})\)|(\*\*|__)(?=\S)([^]*?\S)\5|([*_])(?=[^\s*_])([^\n]*?[^\s*_])\7(?!\w)|~~(?=\S)([^]*?\S)~~/;

export function parse_inline(text, depth = 0) {
  const parts = [];
  let rest = text;
  while (rest !== "") {
    const found = depth < kMaxDepth ? kInline.exec(rest) : null;
    if (!found) break;
    const before = rest.slice(0, found.index);
    const is_word = found[7] === "_" && /\w$/.test(before);  // snake_case is no emphasis
    if (before) parts.push({ type: "text", text: before });
    parts.push(is_word ? { type: "text", text: found[0] } : inline_part(found, depth));
    rest = rest.slice(found.index + found[0].length);
  }
  if (rest) parts.push({ type: "text", text: rest });
  return parts;
}

function inline_part([whole, , code, label, target, , strong, , emphasis, deleted], depth) {
  if (code !== undefined) return { type: "code", text: code.replace(/^ (.*) $/, "$1") };
  if (strong !== undefined) return { type: "strong", parts: parse_inline(strong, depth + 1) };
  if (emphasis !== undefined) return { type: "em", parts: parse_inline(emphasis, depth + 1) };
  if (deleted !== undefined) return { type: "del", parts: parse_inline(deleted, depth + 1) };
  if (/^(https?:\/\/|mailto:)/i.test(target)) return { type: "link", target, parts: parse_inline(label, depth + 1) };
  return { type: "text", text: whole };
}

function element(tag, ...children) {
  const made = document.createElement(tag);
  made.append(...children);
  return made;
}

function render_inline(parts) {
  return parts.map((part) => {
    if (part.type === "text") return document.createTextNode(part.text);
    if (part.type === "code") return element("code", part.text);
    if (part.type !== "link") return element(part.type, ...render_inline(part.parts));
    const link = element("a", ...render_inline(part.parts));
    Object.assign(link, { href: part.target, rel: "noopener noreferrer nofollow", target: "_blank", title: part.target });
    return link;
  });
}

const inline = (text) => render_inline(parse_inline(text));

function render_code({ language, text }) {
  const head = element("div", element("span", language || "code"));
  const copy = element("button", "Copy");
  Object.assign(copy, { type: "button", className: "copy quiet" });
  head.className = "code-head";
  head.append(copy);
  const code = element("code", ...highlight(text, language).map(({ kind, text: piece }) => {
    if (!kind) return document.createTextNode(piece);
    const part = element("span", piece);
    part.className = `tk-${kind}`;
    return part;
  }));
  const pre = element("pre", code);
  pre.tabIndex = 0;  // scrolls sideways with the keyboard
  pre.setAttribute("role", "region");
  pre.setAttribute("aria-label", `${language || "code"}`);
  const box = element("figure", head, pre);
  box.className = "code";
  return box;
}

function render_table({ head, rows }) {
  const row = (tag, cells) => element("tr", ...cells.map((cell) => element(tag, ...inline(cell))));
  const table = element("table", element("thead", row("th", head)), element("tbody", ...rows.map((cells) => row("td", cells))));
  const box = element("div", table);
  box.className = "table";
  return box;
}

export function render(block) {
  switch (block.type) {
    case "heading": return element(`h${Math.min(6, block.level + 1)}`, ...inline(block.text));
    case "code": return render_code(block);
    case "rule": return element("hr");
    case "quote": return element("blockquote", ...block.blocks.map(render));
    case "table": return render_table(block);
    case "list": {
      const tight = (blocks) => blocks.length > 0 && blocks[0].type === "paragraph"
        ? [...inline(blocks[0].text), ...blocks.slice(1).map(render)] : blocks.map(render);
      const list = element(block.ordered ? "ol" : "ul", ...block.items.map((blocks) => element("li", ...tight(blocks))));
      if (block.ordered && block.start !== 1) list.start = block.start;
      return list;
    }
    default: return element("p", ...inline(block.text));
  }
}
