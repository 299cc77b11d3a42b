// SPDX-License-Identifier: MIT
// The live metrics: reads /v1/stats every second while the page is seen, and draws.
import { Chart, format_count, format_seconds } from "./chart.js";
import { ClusterView } from "./cluster.js";
import { History, histogram_between, histogram_quantile, rate, share_within } from "./stats.js";

const kPeriodMs = 1000;
const kHistoryMs = 1_800_000;
const kLatencyWindowMs = 60_000;
const kChartWindowS = 10;
// What is kept of a reading; the rest of the histograms would fill the memory of a long-open page.
const kHistograms = ["ttft_s", "tpot_s", "itl_s"];

const by_id = (id) => document.getElementById(id);
const set_text = (id, text) => {
  const element = by_id(id);
  if (element.textContent !== text) element.textContent = text;
};

// What the status line says while a model is read.
export function loading_text(loading) {
  if (!loading || loading.total_bytes === 0) return "loading the model";
  return loading.share < 1 ? `loading ${Math.floor(100 * loading.share)} %` : "preparing the model";
}

export class Dashboard {
  #history = new History(kHistoryMs);
  #timer = 0;
  #charts = make_charts();
  #cluster = new ClusterView(by_id("cluster-view"));

  // `headers()` gives those of each request; `options()` { span_s, slo_ttft_s, slo_tpot_s }; `hears`:
  // state(state, text, share of the model that is read), cluster(is there one).
  constructor(headers, options, hears) {
    Object.assign(this, { headers, options, hears });
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.poll_soon();
    });
    this.#poll();
  }

  poll_soon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#poll(), 0);
  }

  redraw() {
    if (this.#history.last()) this.#draw();
  }

  async #poll() {
    clearTimeout(this.#timer);
    try {
      const response = await fetch("v1/stats", {
        headers: this.headers(), cache: "no-store", signal: AbortSignal.timeout(5000),
      });
      if (response.status === 401 || response.status === 403) this.hears.state("down", "API key needed");
      else if (!response.ok) this.hears.state("down", `error ${response.status}`);
      else this.#take(await response.json());
    } catch {
      this.hears.state("down", "no connection");
    }
    clearTimeout(this.#timer);
    if (!document.hidden) this.#timer = setTimeout(() => this.#poll(), kPeriodMs);
  }

  #take(stats) {
    stats.histograms = Object.fromEntries(kHistograms.map((name) => [name, stats.histograms[name]]));
    this.#history.add(performance.now(), stats);
    this.#draw();
    if (stats.ready === false && stats.loading) this.hears.state("waiting", loading_text(stats.loading), stats.loading.share);
    else if (stats.ready === false) this.hears.state("waiting", stats.cluster ? "no worker is ready" : "not ready");
    else this.hears.state("up", "connected");
    this.hears.cluster(stats.cluster !== undefined);
  }

  #draw() {
    const { stats } = this.#history.last();
    // A router computes nothing itself: its batch and cache would be an absent engine's.
    for (const part of document.querySelectorAll(".engine")) part.hidden = stats.pages_total === 0;
    this.#draw_charts(stats);
    this.#draw_rates();
    this.#draw_latencies();
    this.#draw_batch(stats);
    this.#draw_cache(stats);
    if (stats.cluster && !by_id("panel-cluster").hidden) this.#cluster.draw(stats.cluster, this.#history, this.options().span_s);
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

  #draw_charts(stats) {
    const history = this.#history, { span_s, slo_ttft_s, slo_tpot_s } = this.options();
    const rate_of = (name) => history.points(span_s, (before, now) => rate(before, now, name));
    const now_of = (value) => history.points(span_s, (before, now) => value(now.stats));
    const quantile = (name, q) => history.quantiles(name, q, span_s, kChartWindowS);
    const set = (name, points, marks = [], y = {}) => {
      const chart = this.#charts[name], { series } = chart.spec;
      chart.set({ ...chart.spec, x: { now: span_s }, y: { ...chart.spec.y, ...y }, marks, series: series.map((one, i) => ({ ...one, points: points[i] })) });
    };
    const objective = (seconds) => (seconds ? [{ y: seconds, label: `objective ${format_seconds(seconds)}`, kind: "slo" }] : []);
    set("rates", [rate_of("generated_tokens"), rate_of("prompt_tokens")]);
    set("ttft", [quantile("ttft_s", 0.5), quantile("ttft_s", 0.99)], objective(slo_ttft_s));
    set("tpot", [quantile("tpot_s", 0.5), quantile("tpot_s", 0.99)], objective(slo_tpot_s));
    const most = stats.pages_total > 0 ? stats.max_sequences : 0;
    const busy = Math.max(...now_of((one) => one.running).map((point) => point[1]), 0) > most / 2;
    set("queue", [now_of((one) => one.running), now_of((one) => one.waiting + one.swapped)],
      busy && most > 0 ? [{ y: most, label: `batch limit ${most}` }] : []);
    const share = (pages) => (one) => 100 * pages(one) / Math.max(1, one.pages_total);
    set("cache", [now_of(share((one) => one.pages_total - one.pages_free - one.pages_cached)), now_of(share((one) => one.pages_cached))]);
    this.#draw_within("ttft", slo_ttft_s, span_s);
    this.#draw_within("tpot", slo_tpot_s, span_s);
  }

  // The share of the shown time's requests that met their objective.
  #draw_within(name, limit_s, span_s) {
    const pairs = this.#history.pairs(span_s), label = by_id(`${name}-within`);
    const within = !limit_s || pairs.length === 0 ? null : share_within(histogram_between(pairs[0].before.stats.histograms[`${name}_s`],
      pairs.at(-1).now.stats.histograms[`${name}_s`]), limit_s);
    label.textContent = within === null ? "" : `${(100 * within).toFixed(within > 0.999 ? 0 : 1)} % within`;
    label.className = `within ${within === null ? "" : within >= 0.99 ? "met" : "missed"}`;
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
    set_text("running", stats.pages_total > 0 ? `${stats.running} of ${stats.max_sequences}` : format_count(stats.running));
    set_text("waiting", format_count(stats.waiting + stats.swapped));
    set_text("step-ms", format_seconds(stats.steps > 0 ? stats.last_step_ms / 1e3 : null));
    set_text("step-tokens", format_count(stats.last_batch_tokens));
  }

  #draw_cache(stats) {
    const total = Math.max(1, stats.pages_total);
    const used = stats.pages_total - stats.pages_free - stats.pages_cached;
    const percent = (pages) => `${((100 * pages) / total).toFixed(pages > 0 && pages < 0.1 * total ? 1 : 0)} %`;
    set_text("kv-used", percent(used));
    set_text("kv-cached", percent(stats.pages_cached));
    const asked = stats.prefix_queries;
    set_text("hit-rate", asked > 0 ? `${((100 * stats.prefix_hits) / asked).toFixed(0)} %` : "–");
    set_text("preemptions", format_count(stats.preemptions));
  }
}

function make_charts() {
  const make = (id, label, names, unit) => new Chart(by_id(id), { label, x: { now: 120 }, y: { unit },
    series: names.map((name, i) => ({ name, points: [], area: i === 0 })) });
  return {
    rates: make("rate-chart", "Tokens per second", ["decoded", "prompt"], "count"),
    ttft: make("ttft-chart", "Time to first token", ["p50", "p99"], "seconds"),
    tpot: make("tpot-chart", "Time per output token", ["p50", "p99"], "seconds"),
    queue: make("queue-chart", "Requests", ["running", "waiting"], "count"),
    cache: make("cache-chart", "KV pages", ["in use", "cached"], "percent"),
  };
}
