// SPDX-License-Identifier: MIT
// The live metrics: reads /v1/stats every second while the page is seen, and draws.
import { Chart } from "./chart.js";
import { History, format_count, format_seconds, histogram_quantile, rate } from "./stats.js";

const kPeriodMs = 1000;
const kHistoryMs = 120_000;
const kLatencyWindowMs = 60_000;
const kChartWindowMs = 10_000;

const by_id = (id) => document.getElementById(id);
const set_text = (id, text) => {
  const element = by_id(id);
  if (element.textContent !== text) element.textContent = text;
};

export class Dashboard {
  #history = new History(kHistoryMs);
  #headers;
  #on_state;
  #timer = 0;
  #charts = make_charts();

  // `headers()` gives those of each request; `on_state(state, text)` hears whether the server answers.
  constructor(headers, on_state) {
    this.#headers = headers;
    this.#on_state = on_state;
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.poll_soon();
    });
    this.#poll();
  }

  poll_soon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#poll(), 0);
  }

  async #poll() {
    clearTimeout(this.#timer);
    try {
      const response = await fetch("v1/stats", {
        headers: this.#headers(), cache: "no-store", signal: AbortSignal.timeout(5000),
      });
      if (response.status === 401 || response.status === 403) this.#on_state("down", "API key needed");
      else if (!response.ok) this.#on_state("down", `error ${response.status}`);
      else {
        const stats = await response.json();
        this.#history.add(performance.now(), stats);
        this.#draw();
        if (stats.ready === false) this.#on_state("waiting", "loading the model");
        else this.#on_state("up", "connected");
      }
    } catch {
      this.#on_state("down", "no connection");
    }
    clearTimeout(this.#timer);
    if (!document.hidden) this.#timer = setTimeout(() => this.#poll(), kPeriodMs);
  }

  #draw() {
    const { stats } = this.#history.last();
    // A router computes nothing itself: its batch and cache would be an absent engine's.
    for (const part of document.querySelectorAll(".engine")) part.hidden = stats.pages_total === 0;
    this.#draw_charts();
    this.#draw_rates();
    this.#draw_latencies();
    this.#draw_batch(stats);
    this.#draw_cache(stats);
    set_text("finished", format_count(stats.finished_stop + stats.finished_length));
    set_text("failed", format_count(stats.finished_error + stats.finished_deadline));
    set_text("total-decoded", format_count(stats.generated_tokens));
    set_text("total-prompt", format_count(stats.prompt_tokens));
  }

  #draw_rates() {
    const decoded = this.#history.rates("generated_tokens");
    if (decoded.length === 0) return;
    set_text("decode-rate", format_count(decoded.at(-1)));
    set_text("prompt-rate", format_count(this.#history.rates("prompt_tokens").at(-1)));
    set_text("peak-rate", format_count(Math.max(...decoded)));
  }

  #draw_charts() {
    const history = this.#history;
    const { rates, ttft, tpot, queue, cache } = this.#charts;
    rates.set(history.points((before, now) => ["generated_tokens", "prompt_tokens"].map((name) => rate(before, now, name))));
    ttft.set(history.quantiles("ttft_s", [0.5, 0.99], kChartWindowMs));
    tpot.set(history.quantiles("tpot_s", [0.5, 0.99], kChartWindowMs));
    queue.set(history.points((before, { stats }) => [stats.running, stats.waiting + stats.swapped]));
    cache.set(history.points((before, { stats }) => {
      const total = Math.max(1, stats.pages_total);
      return [100 * (stats.pages_total - stats.pages_free - stats.pages_cached) / total, 100 * stats.pages_cached / total];
    }));
  }

  #draw_latencies() {
    let whole = false;
    for (const name of ["ttft", "tpot", "itl"]) {
      const recent = this.#history.recent(`${name}_s`, kLatencyWindowMs);
      whole ||= recent.whole;
      for (const percent of [50, 90, 99])
        set_text(`${name}-${percent}`, format_seconds(histogram_quantile(recent.histogram, percent / 100)));
    }
    set_text("latency-window", whole ? "since start" : "last minute");
  }

  #draw_batch(stats) {
    set_text("running", format_count(stats.running));
    set_text("waiting", format_count(stats.waiting + stats.swapped));
    set_text("step-ms", format_seconds(stats.steps > 0 ? stats.last_step_ms / 1e3 : null));
    set_text("step-tokens", format_count(stats.last_batch_tokens));
    const most = Math.max(1, stats.max_sequences);
    fill_meter("batch-meter", [stats.running / most], stats.running, most);
  }

  #draw_cache(stats) {
    const total = Math.max(1, stats.pages_total);
    const used = stats.pages_total - stats.pages_free - stats.pages_cached;
    const percent = (pages) => `${((100 * pages) / total).toFixed(pages > 0 && pages < 0.1 * total ? 1 : 0)} %`;
    set_text("kv-used", percent(used));
    set_text("kv-cached", percent(stats.pages_cached));
    fill_meter("kv-meter", [used / total, stats.pages_cached / total], Math.round((100 * used) / total), 100);
    const asked = stats.prefix_queries;
    set_text("hit-rate", asked > 0 ? `${((100 * stats.prefix_hits) / asked).toFixed(0)} %` : "–");
    set_text("preemptions", format_count(stats.preemptions));
  }
}

function fill_meter(id, shares, value, most) {
  const meter = by_id(id);
  meter.setAttribute("aria-valuenow", String(value));
  meter.setAttribute("aria-valuemax", String(most));
  [...meter.children].forEach((part, i) => { part.style.width = `${Math.min(100, 100 * shares[i])}%`; });
}

function make_charts() {
  const make = (id, label, series, format) => new Chart(by_id(id), { label, series, format, span_s: kHistoryMs / 1000 });
  const percent = (value) => `${Math.round(value)} %`;
  return {
    rates: make("rate-chart", "Tokens per second", ["decoded", "prompt"], format_count),
    ttft: make("ttft-chart", "Time to first token", ["p50", "p99"], format_seconds),
    tpot: make("tpot-chart", "Time per output token", ["p50", "p99"], format_seconds),
    queue: make("queue-chart", "Requests", ["running", "waiting"], format_count),
    cache: make("cache-chart", "KV pages", ["in use", "cached"], percent),
  };
}
