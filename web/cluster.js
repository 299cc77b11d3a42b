// SPDX-License-Identifier: MIT
// The cluster as its router sees it: workers and what they do, services, transfers, faults.
import { Chart, format_count, format_seconds } from "./chart.js";

const kFaults = ["workers_lost", "migrations", "fallbacks", "unavailable", "deadlines", "breaker_opened", "no_space", "slabs_refused",
  "quarantined", "jobs_refused", "stale_dropped", "duplicates_dropped", "requests_rejected", "requests_degraded"];
const kTransfers = ["remote_prefills", "local_prefills", "jobs_pushed", "jobs_direct", "jobs_claimed", "slabs_imported", "flips"];
const kRoles = { prefill: 0, decode: 1, both: 2, router: 3 };
const kMostSeries = 8;

const make = (tag, name, ...children) => {
  const made = document.createElement(tag);
  made.className = name;
  made.append(...children);
  return made;
};
const words = (name) => name.replaceAll("_", " ").replace(/^./, (first) => first.toUpperCase());

// Counters that moved, the largest first; `quiet`: of those that did not, how many.
export function moved(counters, names) {
  const seen = names.filter((name) => counters[name] > 0).sort((a, b) => counters[b] - counters[a]);
  return { seen: seen.map((name) => ({ name: words(name), count: counters[name] })), quiet: names.length - seen.length };
}

export function by_role(workers) {
  return workers.filter((worker) => worker.role !== "observer").toSorted((a, b) =>
    (kRoles[a.role] ?? 9) - (kRoles[b.role] ?? 9) || a.name.localeCompare(b.name));
}

export class ClusterView {
  constructor(root) {
    this.root = root;
  }

  // `history`: of the dashboard; its readings carry the cluster's state.
  draw(state, history, span_s) {
    if (!this.made) this.#make();
    const workers = by_role(state.workers);
    const ready = workers.filter((worker) => worker.reachable && worker.state === "ready").length;
    this.title.replaceChildren("Workers", make("small", "", `${ready} of ${workers.length} ready`));
    this.workers.replaceChildren(...workers.map(worker_card));
    this.services.replaceChildren(...service("Registry", state.registry), ...service("Prefill queue", state.queue));
    this.#draw_charts(workers, history, span_s);
    this.#draw_counters(this.transfers, moved(state.counters, kTransfers), "No request has been routed yet.", "");
    this.#draw_counters(this.faults, moved(state.counters, kFaults), "None so far.", "bad");
  }

  #make() {
    this.made = true;
    const part = (title, ...children) => make("section", "", make("h2", "", title), ...children);
    this.title = make("h2", "");
    this.workers = make("ul", "workers");
    this.services = make("dl", "pairs");
    this.transfers = make("div", "");
    this.faults = make("div", "");
    const charts = ["Sequences running, by worker", "KV pages in use, by worker"].map((label) => ({ label, figure: make("figure", "") }));
    this.root.replaceChildren(this.title, this.workers, make("div", "panel-grid",
      part("Requests per worker", charts[0].figure), part("KV pages per worker", charts[1].figure),
      part("Routing and transfers", this.transfers), part("Faults and detours", this.faults), part("Services", this.services)));
    this.charts = charts.map(({ label, figure }, i) => new Chart(figure, { label, series: [], x: { now: 120 }, y: { unit: i === 0 ? "count" : "percent" } }));
  }

  #draw_charts(workers, history, span_s) {
    const names = workers.filter((worker) => worker.role !== "router").slice(0, kMostSeries).map((worker) => worker.name);
    const pairs = history.pairs(span_s);
    const lines = (value) => names.map((name) => ({ name, points: pairs.map(({ x, now }) => {
      const worker = now.stats.cluster?.workers.find((one) => one.name === name);
      return [x, worker ? value(worker) : null];
    }) }));
    const used = (worker) => 100 * (worker.pages_total - worker.pages_free) / Math.max(1, worker.pages_total);
    const set = (chart, series, unit) => chart.set({ ...chart.spec, series, x: { now: span_s }, y: { unit } });
    set(this.charts[0], lines((worker) => worker.running + worker.waiting), "count");
    set(this.charts[1], lines(used), "percent");
  }

  #draw_counters(root, { seen, quiet }, none, kind) {
    if (seen.length === 0) return root.replaceChildren(make("p", "soft", none));
    const list = make("dl", "pairs");
    for (const { name, count } of seen)
      list.append(make("div", "", make("dt", "", name), make("dd", kind ? `badge ${kind}` : "", format_count(count))));
    root.replaceChildren(list);
    if (quiet > 0) root.append(make("p", "soft", `${quiet} other kinds: 0.`));
  }
}

function service(name, { up, absent, why }) {
  const badge = absent ? make("span", "badge", "none") : up ? make("span", "badge good", "up") : make("span", "badge bad", "down");
  if (why) badge.title = why;
  return [make("div", "", make("dt", "", name), make("dd", "", badge))];
}

function worker_card(worker) {
  const lost = !worker.reachable;
  const state = make("span", `badge ${lost ? "bad" : worker.state === "ready" ? "good" : "warn"}`, lost ? "unreachable" : worker.leaving ? "leaving" : worker.state);
  const head = make("div", "head", make("b", "", worker.name), make("span", "badge", worker.role), make("span", "spacer"), state);
  const card = make("li", "", head, make("div", "address", `${worker.address}${worker.model ? ` · ${worker.model}` : ""}`));
  if (worker.role === "router") return card;
  const used = worker.pages_total - worker.pages_free;
  const meter = make("div", "meter", make("i", ""));
  meter.firstChild.style.width = `${100 * used / Math.max(1, worker.pages_total)}%`;
  meter.setAttribute("role", "meter");
  meter.setAttribute("aria-label", `KV pages in use on ${worker.name}`);
  for (const [name, value] of [["valuemin", 0], ["valuemax", worker.pages_total], ["valuenow", used]]) meter.setAttribute(`aria-${name}`, String(value));
  const list = make("dl", "pairs");
  const add = (name, value) => list.append(make("div", "", make("dt", "", name), make("dd", "", value)));
  add("Running", `${worker.running} of ${worker.max_sequences}`);
  add("Waiting", format_count(worker.waiting));
  add("KV pages", `${format_count(used)} of ${format_count(worker.pages_total)}`);
  if (worker.decode_step_us > 0) add("Step", format_seconds(worker.decode_step_us / 1e6));
  if (worker.prefill_tokens > 0) add("Prompt tokens left", format_count(worker.prefill_tokens));
  if (worker.transfer_bytes_per_s > 0) add("Sends at", `${(worker.transfer_bytes_per_s / 1e9).toFixed(2)} GB/s`);
  card.append(meter, list);
  return card;
}
