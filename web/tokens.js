// SPDX-License-Identifier: MIT
// The tokens of an answer: how sure the model was of each, what else it weighed, and when each was made.
import { format_seconds } from "./chart.js";

const kSlow = 3;  // times the median gap

// The tokens an event of the stream tells of, in one form for chat and completion.
export function tokens_of(choice) {
  const { content, tokens, token_logprobs, top_logprobs } = choice?.logprobs ?? {};
  if (content) {
    return content.map(({ token, logprob, top_logprobs: top = [] }) =>
      ({ text: token, logprob, top: top.map((one) => ({ text: one.token, logprob: one.logprob })) }));
  }
  return (tokens ?? []).map((text, i) => ({ text, logprob: token_logprobs?.[i] ?? null,
    top: Object.entries(top_logprobs?.[i] ?? {}).map(([other, logprob]) => ({ text: other, logprob }))
      .sort((a, b) => b.logprob - a.logprob) }));
}

export const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

// Milliseconds between each token and the one before; the first one's since the request arrived.
export function gaps_of(token_ms) {
  return (token_ms ?? []).map((at, i) => (i === 0 ? at : at - token_ms[i - 1]));
}

// 4: over 90 %, 3: over half, 2: over a fifth, 1: over 5 %, 0: less.
export function sureness(logprob) {
  const share = Math.exp(logprob ?? -Infinity);
  return [0.05, 0.2, 0.5, 0.9].filter((edge) => share > edge).length;
}

const percent = (logprob) => (logprob === null ? "–" : `${(100 * Math.exp(logprob)).toFixed(1)} %`);
const visible = (text) => text.replaceAll("\n", "⏎\n").replaceAll("\t", "⇥");

const make = (tag, name, text = "") => {
  const made = document.createElement(tag);
  made.className = name;
  made.textContent = text;
  return made;
};

// The view: a run of tokens and, below it, what is known of the one under the pointer or chosen with the arrow keys.
export function token_view(tokens, token_ms) {
  const root = make("div", "tokens");
  const run = make("div", "run");
  run.tabIndex = 0;
  run.setAttribute("role", "group");
  run.setAttribute("aria-label", `${tokens.length} tokens; arrow keys move from one to the next`);
  const about = make("div", "about");
  about.setAttribute("role", "status");
  const gaps = gaps_of(token_ms);
  const usual = median(gaps.slice(1));
  let here = -1;
  const marks = tokens.map((token, i) => {
    const mark = make("span", "t", visible(token.text));
    mark.dataset.sure = String(sureness(token.logprob));
    mark.classList.toggle("slow", i > 0 && usual > 0 && gaps[i] > kSlow * usual);
    return mark;
  });
  const show = (i) => {
    if (i < 0 || i >= tokens.length || i === here) return;
    marks[here]?.classList.remove("here");
    here = i;
    marks[here].classList.add("here");
    about.replaceChildren(facts(tokens[i], i, token_ms?.[i], gaps[i]), options(tokens[i]));
  };
  run.append(...marks);
  run.addEventListener("pointerover", (event) => show(marks.indexOf(event.target)));
  run.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    show(Math.min(tokens.length - 1, Math.max(0, here + step)));
    marks[here].scrollIntoView({ block: "nearest" });
  });
  show(0);
  root.append(run, about);
  return root;
}

function facts(token, i, at_ms, gap_ms) {
  const box = make("div", "");
  const line = (text) => box.append(make("p", "", text));
  line(`Token ${i + 1}: ${JSON.stringify(token.text)}`);
  line(`Probability ${percent(token.logprob)} (logprob ${token.logprob?.toFixed(3) ?? "–"})`);
  if (at_ms !== undefined)
    line(i === 0 ? `${format_seconds(at_ms / 1e3)} after the request came` : `${format_seconds(gap_ms / 1e3)} after the last, ${format_seconds(at_ms / 1e3)} in all`);
  return box;
}

function options(token) {
  const box = make("div", "");
  for (const { text, logprob } of token.top) {
    const row = make("p", "option");
    const meter = document.createElement("meter");
    Object.assign(meter, { min: 0, max: 1, value: Math.exp(logprob) });
    meter.setAttribute("aria-label", `probability of ${JSON.stringify(text)}`);
    row.append(make("code", "", JSON.stringify(text).slice(1, -1)), meter, make("span", "", percent(logprob)));
    box.append(row);
  }
  return box;
}
