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

// The share of what was counted that is not above `limit`; null: nothing was counted.
export function share_within({ bounds, counts }, limit) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  let within = 0;
  for (let i = 0; i < counts.length; ++i) {
    const low = i === 0 ? 0 : bounds[i - 1], high = bounds[i] ?? Infinity;
    if (high <= limit) within += counts[i];
    else if (low < limit && Number.isFinite(high)) within += counts[i] * (limit - low) / (high - low);
  }
  return within / total;
}

// What was counted between two readings of one histogram; all of `now` when the server restarted meanwhile.
export function histogram_between(before, now) {
  if (!before || before.counts.length !== now.counts.length) return now;
  const counts = now.counts.map((count, i) => count - before.counts[i]);
  return counts.some((count) => count < 0) ? now : { bounds: now.bounds, counts };
}

// Growth of a counter per second between two readings; 0 across a restart.
export function rate(before, now, name) {
  const seconds = (now.time - before.time) / 1000;
  return seconds > 0 ? Math.max(0, now.stats[name] - before.stats[name]) / seconds : 0;
}

const kMostPoints = 240;  // of a chart

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

  // Pairs of readings of the last `span_s` seconds, at most about kMostPoints of them, with how long ago the later one was.
  pairs(span_s) {
    const end = this.last()?.time ?? 0;
    const seen = this.#readings.filter((reading) => reading.time >= end - span_s * 1000);
    const step = Math.max(1, Math.ceil(seen.length / kMostPoints));
    const kept = seen.filter((reading, i) => (seen.length - 1 - i) % step === 0);
    return kept.slice(1).map((now, i) => ({ x: (now.time - end) / 1000, before: kept[i], now }));
  }

  // [x, what `value(before, now)` gives] for a chart.
  points(span_s, value) {
    return this.pairs(span_s).map(({ x, before, now }) => [x, value(before, now)]);
  }

  // A quantile of what a histogram counted in the `window_s` before each reading; null where it counted nothing.
  quantiles(name, q, span_s, window_s) {
    let first = 0;
    return this.pairs(span_s).map(({ x, before, now }) => {
      const begin = Math.min(now.time - window_s * 1000, before.time);
      while (this.#readings[first + 1]?.time <= begin) ++first;
      const from = this.#readings[first];
      return [x, histogram_quantile(histogram_between(from.stats.histograms[name], now.stats.histograms[name]), q)];
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
