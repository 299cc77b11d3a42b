// SPDX-License-Identifier: MIT
// What the numbers of /v1/stats mean: differences between two readings, quantiles of histograms. No DOM.

// A quantile of counts per bucket, linear inside the bucket; the last bucket has no upper edge and answers
// with its lower one. null: nothing was counted.
export function histogram_quantile({ bounds, counts }, q) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  let left = q * total;
  for (let i = 0; i < bounds.length; ++i) {
    if (counts[i] > 0 && left <= counts[i]) {
      const low = i === 0 ? 0 : bounds[i - 1];
      return low + (bounds[i] - low) * (left / counts[i]);
    }
    left -= counts[i];
  }
  return bounds[bounds.length - 1];
}

// What was counted between two readings of one histogram; all of `now` when the server restarted meanwhile.
export function histogram_between(before, now) {
  if (!before || before.counts.length !== now.counts.length) return now;
  const counts = now.counts.map((count, i) => count - before.counts[i]);
  return counts.some((count) => count < 0) ? now : { bounds: now.bounds, counts };
}

// Growth of a counter a second between two readings; 0 across a restart.
export function rate(before, now, name) {
  const seconds = (now.time - before.time) / 1000;
  return seconds > 0 ? Math.max(0, now.stats[name] - before.stats[name]) / seconds : 0;
}

// The readings of the last minutes, oldest first.
export class History {
  #readings = [];
  #window_ms;

  constructor(window_ms) {
    this.#window_ms = window_ms;
  }

  add(time, stats) {
    const last = this.last();
    if (last && stats.generated_tokens < last.stats.generated_tokens) this.#readings = [];  // a new server
    this.#readings.push({ time, stats });
    while (this.#readings.length > 2 && this.#readings[1].time < time - this.#window_ms) this.#readings.shift();
  }

  last() {
    return this.#readings.at(-1);
  }

  // What `values(before, now)` gives for each reading but the first, with its age, for a chart.
  points(values) {
    const end = this.last()?.time ?? 0;
    return this.#readings.slice(1).map((now, i) => ({ age_s: (end - now.time) / 1000, values: values(this.#readings[i], now) }));
  }

  // Quantiles of what a histogram counted in the `window_ms` before each reading; null where it counted nothing.
  quantiles(name, quantiles, window_ms) {
    const end = this.last()?.time ?? 0;
    return this.#readings.slice(1).map((now, i) => {
      const before = this.#readings.slice(0, i + 1).find((reading) => reading.time >= now.time - window_ms) ?? this.#readings[i];
      const between = histogram_between(before.stats.histograms[name], now.stats.histograms[name]);
      return { age_s: (end - now.time) / 1000, values: quantiles.map((q) => histogram_quantile(between, q)) };
    });
  }

  // Rates of a counter between neighbouring readings.
  rates(name) {
    return this.#readings.slice(1).map((now, i) => rate(this.#readings[i], now, name));
  }

  // The histogram of what happened in the last `age_ms`; of the whole time when nothing did.
  recent(name, age_ms) {
    const now = this.last();
    const histogram = now?.stats.histograms?.[name];
    if (!histogram) return { histogram: { bounds: [], counts: [] }, whole: true };
    const before = this.#readings.find((reading) => reading.time >= now.time - age_ms);
    const between = before === now ? histogram : histogram_between(before.stats.histograms[name], histogram);
    const empty = between.counts.every((count) => count === 0);
    return { histogram: empty ? histogram : between, whole: empty || between === histogram };
  }
}

export function format_seconds(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds === 0) return "0";
  if (seconds < 0.0095) return `${(seconds * 1e3).toFixed(1)} ms`;
  return seconds < 0.9995 ? `${Math.round(seconds * 1e3)} ms` : `${seconds.toFixed(2)} s`;
}

export function format_count(count) {
  if (count >= 1e9) return `${(count / 1e9).toFixed(2)} G`;
  if (count >= 1e6) return `${(count / 1e6).toFixed(2)} M`;
  if (count >= 1e4) return `${(count / 1e3).toFixed(1)} k`;
  return count >= 100 || Number.isInteger(count) ? String(Math.round(count)) : count.toFixed(1);
}
