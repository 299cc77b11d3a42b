// SPDX-License-Identifier: MIT
// One request, down to the scheduler's decisions: where its time went, its prompt chunk by chunk, its tokens.
import { Chart, format_count, format_seconds } from "./chart.js";
import { gaps_of, median } from "./tokens.js";

const make = (tag, name, ...children) => {
  const made = document.createElement(tag);
  made.className = name;
  made.append(...children);
  return made;
};
const ms = (value) => format_seconds(value / 1e3);

// The phases of a request, in milliseconds: of one engine, or of the workers of a cluster.
export function phases_of(timings) {
  const at = timings.cluster ?? timings;
  const phases = timings.cluster
    ? [["Queue", at.queue_ms, "s7"], ["Prefill", at.prefill_ms, "s1"], ["Transfer", at.transfer_ms, "s3"], ["Decode", at.decode_ms, "s0"]]
    : [["Queue", at.queue_ms, "s7"], ["Prompt", at.prompt_ms, "s1"], ["Decode", at.predicted_ms, "s0"]];
  return phases.map(([name, time_ms, colour]) => ({ name, time_ms, colour }));
}

// What the decisions say as a whole. Decode steps are not listed: they lie between the last chunk and the end.
export function summary_of(decisions) {
  const of = (kind) => decisions.filter((one) => one.kind === kind);
  const chunks = of("prefilled"), end = of("finished").at(-1);
  return {
    chunks: chunks.length,
    decode_steps: end && chunks.length > 0 ? end.step - chunks.at(-1).step : null,
    preemptions: of("preempted").length,
    holds: of("held_back").length,
    cached_tokens: of("admitted")[0]?.cached_tokens ?? null,
  };
}

export class Inspector {
  #asked = 0;

  // `headers()` gives those of each request; `objective()` the TPOT objective in milliseconds, or null.
  constructor(root, empty, headers, objective) {
    Object.assign(this, { root, empty, headers, objective });
  }

  async show(about) {
    this.empty.hidden = true;
    const asked = ++this.#asked;
    if (!about?.timings) {
      this.root.replaceChildren(make("p", "soft", "The server sent no timings for this answer."));
      return;
    }
    const { timings } = about;
    const below = make("div", "");
    this.root.replaceChildren(...this.#waterfall(timings), this.#facts(about), ...this.#cluster(timings.cluster), below);
    this.#gaps(timings.token_ms, below);
    if (timings.request_id === undefined || timings.cluster) return;
    const decisions = await this.#decisions(timings.request_id);
    if (asked === this.#asked) below.append(...this.#list(decisions));
  }

  async #decisions(id) {
    try {
      const response = await fetch(`v1/decisions?request=${id}`, { headers: this.headers(), signal: AbortSignal.timeout(5000) });
      return response.ok ? (await response.json()).decisions : [];
    } catch {
      return [];
    }
  }

  #waterfall(timings) {
    const phases = phases_of(timings);
    const total = Math.max(1e-9, phases.reduce((sum, phase) => sum + phase.time_ms, 0));
    const bar = make("div", "phases");
    bar.setAttribute("role", "img");
    bar.setAttribute("aria-label", phases.map(({ name, time_ms }) => `${name} ${ms(time_ms)}`).join(", "));
    const key = make("ul", "phase-key");
    for (const { name, time_ms, colour } of phases) {
      const part = make("i", `${colour}-back`);
      part.style.flex = `${time_ms / total} 0 0`;
      bar.append(part);
      key.append(make("li", "", make("i", `swatch ${colour}`), `${name} ${ms(time_ms)}`));
    }
    return [make("h2", "", `Where ${ms(timings.total_ms ?? total)} went`), bar, key];
  }

  #facts({ usage, timings }) {
    const list = make("dl", "pairs");
    const add = (name, value) => list.append(make("div", "", make("dt", "", name), make("dd", "", value)));
    const prompt = usage?.prompt_tokens ?? timings.prompt_n + timings.cache_n;
    add("Prompt", `${format_count(prompt)} tokens`);
    add("Of these cached", format_count(timings.cache_n));
    add("Answer", `${format_count(timings.predicted_n)} tokens`);
    add("First token", ms(timings.ttft_ms));
    if (timings.prompt_per_second > 0) add("Prompt rate", `${format_count(timings.prompt_per_second)} tok/s`);
    if (timings.predicted_n > 1 && timings.predicted_ms > 0)
      add("Time per token", ms(timings.predicted_ms / (timings.predicted_n - 1)));
    const gaps = gaps_of(timings.token_ms).slice(1);
    if (gaps.length > 0) {
      add("Median gap", ms(median(gaps)));
      add("Longest gap", ms(Math.max(...gaps)));
    }
    return list;
  }

  #cluster(cluster) {
    if (!cluster) return [];
    const list = make("dl", "pairs");
    const add = (name, value) => value && list.append(make("div", "", make("dt", "", name), make("dd", "", String(value))));
    add("Decode worker", cluster.decode_worker);
    add("chosen for", cluster.worker_reason);
    add("Prefill worker", cluster.prefill_worker || "the same");
    add("chosen for", cluster.prefill_reason);
    add("Attempts", cluster.attempts);
    add("Tokens computed elsewhere", cluster.remote_tokens || "");
    add("Fell back", cluster.fallback);
    add("Degraded", cluster.degraded);
    const out = [make("h2", "", "Route"), list];
    if (cluster.slabs?.length > 0) {
      const rows = cluster.slabs.map((slab) => make("tr", "", make("td", "", `${slab.first_token}–${slab.first_token + slab.tokens}`),
        make("td", "", ms(slab.posted_ms)), make("td", "", ms(slab.landed_ms)), make("td", "", ms(slab.imported_ms))));
      const head = make("thead", "", make("tr", "", ...["tokens", "posted", "landed", "imported"].map((name) => make("th", "", name))));
      out.push(make("h2", "", "Key/value transfers"), make("div", "table", make("table", "", head, make("tbody", "", ...rows))));
    }
    return out;
  }

  #gaps(token_ms, root) {
    const gaps = gaps_of(token_ms).slice(1);
    if (gaps.length < 2) return;
    const figure = make("figure", "");
    root.append(make("h2", "", "Time between tokens"), figure);
    const objective = this.objective();
    new Chart(figure, {
      label: "Time between tokens", x: { label: "token", unit: "plain", low: 1, high: gaps.length + 1 }, y: { unit: "milliseconds" },
      series: [{ name: "gap", points: gaps.map((gap, i) => [i + 2, gap]), area: true }],
      marks: objective ? [{ y: objective, label: `objective ${ms(objective)}`, kind: "slo" }] : [],
    });
  }

  #list(decisions) {
    if (decisions.length === 0)
      return [make("h2", "", "Scheduler"), make("p", "soft", "Its decisions are no longer known: the scheduler remembers the last 4,096.")];
    const { chunks, decode_steps, preemptions, holds } = summary_of(decisions);
    const said = [`${chunks} prompt ${chunks === 1 ? "chunk" : "chunks"}`, decode_steps === null ? "" : `${decode_steps} decode steps`,
      `${preemptions} ${preemptions === 1 ? "preemption" : "preemptions"}`, holds > 0 ? `held back ${holds === 1 ? "once" : `${holds} times`}` : ""].filter(Boolean);
    const start = decisions[0].time_s;
    const list = make("ol", "decisions");
    for (const one of decisions)
      list.append(make("li", "", make("span", "at", `+${ms((one.time_s - start) * 1e3)}`),
        make("span", "", `${one.text[0].toUpperCase()}${one.text.slice(1)}. `, make("span", "step", `step ${one.step}, ${format_count(one.free_pages)} pages free`))));
    return [make("h2", "", "Scheduler", make("small", "", said.join(", "))), list];
  }
}
