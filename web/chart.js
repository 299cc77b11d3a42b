// SPDX-License-Identifier: MIT
// Charts in SVG with axes, limits and values under the pointer: one module for the page and every report. A report
// writes <figure data-chart='{…}'>; what the object may hold stands at Chart.

const kBottom = 22, kTop = 10, kRight = 14;
const kMaxSeries = 8;  // colours of look.css

export function format_seconds(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds === 0) return "0";
  if (seconds < 0.0000095) return `${(seconds * 1e9).toFixed(0)} ns`;
  if (seconds < 0.00095) return `${trim(seconds * 1e6)} µs`;
  if (seconds < 0.0095) return `${(seconds * 1e3).toFixed(1)} ms`;
  if (seconds < 0.9995) return `${Math.round(seconds * 1e3)} ms`;
  return seconds < 9.995 ? `${seconds.toFixed(2)} s` : `${trim(seconds)} s`;
}

export function format_count(count) {
  if (count === null || count === undefined) return "–";
  if (count >= 1e9) return `${(count / 1e9).toFixed(2)} G`;
  if (count >= 1e6) return `${(count / 1e6).toFixed(2)} M`;
  if (count >= 1e4) return `${(count / 1e3).toFixed(1)} k`;
  return count >= 100 || Number.isInteger(count) ? String(Math.round(count)) : count.toFixed(1);
}

const trim = (value) => String(Number(value.toPrecision(3)));
const short = (value) => {
  const power = Math.min(5, Math.max(0, Math.floor(Math.log10(Math.abs(value) || 1) / 3)));
  return `${trim(value / 1e3 ** power)}${["", "k", "M", "G", "T", "P"][power]}`;
};
export const kFormats = {
  count: format_count,
  seconds: format_seconds,
  milliseconds: (value) => format_seconds(value / 1e3),
  percent: (value) => `${trim(value)} %`,
  short,
  plain: trim,
};

// The least of 1, 2, 2.5, 5 times a power of ten that is not below `value`.
export function nice_ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= value * 0.9999);
}

// Values on an axis that people like to read, within [low, high]; about `most` of them.
export function axis_ticks(low, high, most) {
  const step = nice_ceiling((high - low) / Math.max(1, most));
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) ticks.push(i * step + 0);  // never -0
  return ticks;
}

export function log_ticks(low, high, most) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); ++power)
    for (const step of [1, 2, 5]) ticks.push(step * 10 ** power);
  const seen = ticks.filter((tick) => tick >= low && tick <= high);
  if (seen.length <= most) return seen;
  const tens = seen.filter((tick) => Number.isInteger(Math.round(Math.log10(tick) * 1e6) / 1e6));
  return tens.filter((tick, i) => i % Math.ceil(tens.length / most) === 0);
}

const svg = (tag, attributes = {}, text = "") => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.textContent = text;
  return made;
};
const html = (tag, name, ...children) => {
  const made = document.createElement(tag);
  made.className = name;
  made.append(...children);
  return made;
};

// A mark far above everything would press the rest into a corner: it is then drawn at the edge, with an arrow.
const kFar = 3;
function with_marks(values, marks) {
  const most = Math.max(0, ...values.filter((value) => value !== null));
  return values.concat(marks.filter((mark) => mark !== null && (most === 0 || mark <= kFar * most)));
}

// Values to pixels.
class Scale {
  constructor(values, { log = false, low, high, tight = false } = {}, from, to) {
    const seen = values.filter((value) => value !== null && Number.isFinite(value) && (!log || value > 0));
    this.log = log;
    if (log) {
      this.low = Math.min(...seen) / 1.2;
      this.high = Math.max(...seen) * 1.2;
      if (!seen.length) [this.low, this.high] = [1, 10];
    } else {
      this.low = low ?? Math.min(0, ...seen);
      this.high = high ?? (tight ? Math.max(0, ...seen) : nice_ceiling(Math.max(0, ...seen)));
      if (this.high <= this.low) this.high = this.low + 1;
    }
    [this.from, this.to] = [from, to];
  }
  at(value) {
    const part = this.log ? Math.log(value / this.low) / Math.log(this.high / this.low)
      : (value - this.low) / (this.high - this.low);
    return this.from + (this.to - this.from) * Math.min(1, Math.max(0, part));
  }
  ticks(most) {
    return this.log ? log_ticks(this.low, this.high, most) : axis_ticks(this.low, this.high, most);
  }
}

// spec:
//   title, label      the heading, and what a screen reader says
//   x, y              { label, unit: a name of kFormats or a function, log, low, high, now: the axis ends now, in seconds }
//   series            [{ name, points: [[x, y or null], …], dots, area, roof: a limit, named at its end }]
//   marks             [{ x or y, label, kind: "slo" or "mark" }]
//   bars              instead of series: [{ name, value, low, high, label, kind }]; mark: a line at this value
export class Chart {
  constructor(root, spec) {
    this.root = root;
    root.classList.add("chart");
    if (spec.title) root.append(html("figcaption", "chart-title", spec.title));
    this.key = html("p", "chart-key");
    this.key.setAttribute("aria-hidden", "true");
    this.picture = svg("svg", { role: "img" });
    this.tip = html("output", "chart-tip");
    this.tip.hidden = true;
    this.area = html("div", "chart-area", this.picture, this.tip);
    root.append(this.key, this.area);
    this.set(spec);
    if (spec.bars) return;
    this.area.tabIndex = 0;
    this.area.setAttribute("role", "group");
    this.area.addEventListener("pointermove", (event) => this.#point_at(event));
    this.area.addEventListener("pointerleave", () => this.#leave());
    this.area.addEventListener("keydown", (event) => this.#step(event));
    this.area.addEventListener("blur", () => this.#leave());
  }

  set(spec) {
    this.spec = { series: [], marks: [], x: {}, y: {}, ...spec };
    this.area.setAttribute("aria-label", `${this.spec.label ?? this.spec.title ?? "Chart"}. Arrow keys show values.`);
    this.picture.setAttribute("aria-label", this.#summary());
    this.#draw_key();
    this.watch ??= new ResizeObserver(() => this.draw());
    this.watch.observe(this.area);
    this.draw();
  }

  #unit(axis) {
    return typeof axis.unit === "function" ? axis.unit : kFormats[axis.unit ?? "plain"];
  }

  #draw_key() {
    const named = this.spec.series.filter((one) => one.name && !one.roof);
    const text = named.map((one) => one.name).join("\n");
    this.key.hidden = named.length < 2 && !this.spec.key;
    if (text === this.keyed) return;
    this.keyed = text;
    this.key.replaceChildren(...named.map((one) =>
      html("span", "", html("i", `swatch s${this.spec.series.indexOf(one) % kMaxSeries}`), one.name)));
  }

  draw() {
    const width = Math.round(this.area.clientWidth);
    if (width < 40) return;
    if (this.spec.bars) return this.#draw_bars(width);
    const { series, marks, x, y } = this.spec;
    const height = Math.round(this.area.clientHeight) || 160;
    const text_of_y = this.#unit(y), text_of_x = this.#unit(x);
    const xs = with_marks(series.flatMap((one) => one.points.map((point) => point[0])), marks.map((mark) => mark.x ?? null));
    const ys = with_marks(series.flatMap((one) => one.points.map((point) => point[1])), marks.map((mark) => mark.y ?? null));
    const base = height - kBottom - (x.label ? 16 : 0), top = kTop + (y.label ? 14 : 0);
    const tall = new Scale(ys, y, base, top);
    const rows = tall.ticks(Math.max(2, Math.floor((base - top) / 34)));
    const left = 12 + Math.max(...rows.map((tick) => text_of_y(tick).length)) * 6.4;
    const wide = new Scale(xs, { low: x.now ? -x.now : undefined, high: x.now ? 0 : undefined, tight: true, ...x }, left, width - kRight);
    Object.assign(this, { wide, tall, width, height, left });
    const parts = [];
    for (const tick of rows) {
      parts.push(svg("line", { class: "grid", x1: left, x2: width - kRight, y1: tall.at(tick), y2: tall.at(tick) }));
      parts.push(svg("text", { class: "tick", x: left - 7, y: tall.at(tick) + 4, "text-anchor": "end" }, text_of_y(tick)));
    }
    this.#draw_x_axis(parts, base, text_of_x);
    if (y.label) parts.push(svg("text", { class: "axis-name", x: left, y: 10 }, y.label));
    series.forEach((one, i) => this.#draw_series(parts, one, i % kMaxSeries, base));
    marks.forEach((mark) => this.#draw_mark(parts, mark, base, top));
    this.cursor = svg("line", { class: "cursor", y1: top, y2: base, visibility: "hidden" });
    this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.picture.replaceChildren(...parts, this.cursor);
    if (!this.tip.hidden) this.#show(this.shown);
  }

  #draw_x_axis(parts, base, text_of) {
    const { x } = this.spec;
    const room = (this.width - this.left) / 64;
    const ticks = x.now ? [-x.now, -x.now / 2, 0] : this.wide.ticks(Math.max(2, Math.floor(room)));
    for (const tick of ticks) {
      const anchor = x.now ? (tick === 0 ? "end" : tick === -x.now ? "start" : "middle") : "middle";
      const text = !x.now ? text_of(tick) : tick === 0 ? "now" : x.now >= 240 ? `−${trim(-tick / 60)} min` : `−${Math.round(-tick)} s`;
      parts.push(svg("text", { class: "tick", x: this.wide.at(tick), y: base + 15, "text-anchor": anchor }, text));
    }
    if (x.label)
      parts.push(svg("text", { class: "axis-name", x: this.width - kRight, y: this.height - 3, "text-anchor": "end" }, x.label));
  }

  // Gaps where nothing was measured.
  #draw_series(parts, one, i, base) {
    const place = ([x, y]) => `${this.wide.at(x).toFixed(1)},${this.tall.at(y).toFixed(1)}`;
    const runs = [[]];
    for (const point of one.points) {
      if (point[1] === null) runs.push([]);
      else runs.at(-1).push(point);
    }
    const drawn = runs.filter((run) => run.length > 0);
    if (one.roof) {
      const end = one.points.at(-1);
      parts.push(svg("path", { class: "roof", d: `M${one.points.map(place).join("L")}` }));
      parts.push(svg("text", { class: "tick", x: this.wide.at(end[0]) - 2, y: this.tall.at(end[1]) - 6, "text-anchor": "end" }, one.name));
      return;
    }
    if (one.area)
      for (const run of drawn.filter((points) => points.length > 1))
        parts.push(svg("path", { class: `area s${i}`,
          d: `M${this.wide.at(run[0][0]).toFixed(1)},${base}L${run.map(place).join("L")}L${this.wide.at(run.at(-1)[0]).toFixed(1)},${base}Z` }));
    if (!one.dots) parts.push(svg("path", { class: `line s${i}`, d: drawn.map((run) => `M${run.map(place).join("L")}`).join("") }));
    const every = one.dots || (!this.spec.x.now && one.points.length <= 24);  // few enough to be seen one by one
    for (const run of drawn)
      for (const point of run)
        if (every || run.length === 1)
          parts.push(svg("circle", { class: `s${i}`, cx: this.wide.at(point[0]), cy: this.tall.at(point[1]), r: one.dots ? 3 : 2.4 }));
  }

  #draw_mark(parts, mark, base, top) {
    const kind = mark.kind ?? "mark";
    if (mark.y !== undefined) {
      const y = this.tall.at(mark.y);
      parts.push(svg("line", { class: kind, x1: this.left, x2: this.width - kRight, y1: y, y2: y }));
      parts.push(svg("text", { class: `${kind}-name`, x: this.width - kRight, y: y - 4 < top ? y + 12 : y - 4, "text-anchor": "end" }, mark.y > this.tall.high ? `${mark.label} ↑` : mark.label));
      return;
    }
    const x = this.wide.at(mark.x), flips = x > this.width - 90;
    parts.push(svg("line", { class: kind, x1: x, x2: x, y1: top, y2: base }));
    parts.push(svg("text", { class: `${kind}-name`, x: x + (flips ? -5 : 5), y: top + 10, "text-anchor": flips ? "end" : "start" }, mark.x > this.wide.high ? `${mark.label} →` : mark.label));
  }

  #draw_bars(width) {
    const { bars, mark = 0 } = this.spec;
    const narrow = width < 460, step = narrow ? 44 : 26, thick = 14;
    const left = narrow ? 2 : Math.min(width / 3, 16 + 6.6 * Math.max(...bars.map((bar) => bar.name.length)));
    const right = width - 14 - 6.6 * Math.max(...bars.map((bar) => bar.label.length));
    const most = Math.max(mark, ...bars.map((bar) => Math.max(bar.value, bar.high ?? 0)));
    const at = (value) => left + (right - left) * Math.min(1, Math.max(0, value / most));
    const parts = [];
    bars.forEach((bar, i) => {
      const y = i * step + (narrow ? 20 : 5), middle = y + thick / 2;
      parts.push(narrow ? svg("text", { class: "tick", x: 2, y: y - 6 }, bar.name)
        : svg("text", { class: "tick", x: left - 9, y: middle + 4, "text-anchor": "end" }, bar.name));
      parts.push(svg("rect", { class: `bar ${bar.kind}`, x: left, y, width: Math.max(1, at(bar.value) - left), height: thick, rx: 2 }));
      if (bar.high > bar.low)
        parts.push(svg("path", { class: "whisker", d: `M${at(bar.low)},${middle}H${at(bar.high)}M${at(bar.low)},${middle - 4}v8M${at(bar.high)},${middle - 4}v8` }));
      parts.push(svg("text", { class: "bar-label", x: Math.max(at(bar.value), at(bar.high ?? 0)) + 8, y: middle + 4 }, bar.label));
    });
    const height = bars.length * step + 6;
    if (mark > 0) parts.push(svg("line", { class: "mark", x1: at(mark), x2: at(mark), y1: 0, y2: height - 4 }));
    this.area.style.height = `${height}px`;
    this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.picture.replaceChildren(...parts);
  }

  #summary() {
    if (this.spec.bars) return `${this.spec.title}: ${this.spec.bars.map((bar) => `${bar.name} ${bar.label}`).join("; ")}`;
    const text_of = this.#unit(this.spec.y);
    const last = this.spec.series.filter((one) => one.points.length > 0 && !one.roof)
      .map((one) => `${one.name} ${text_of(one.points.findLast((point) => point[1] !== null)?.[1] ?? null)}`);
    return `${this.spec.label ?? this.spec.title ?? "Chart"}: ${last.join(", ") || "nothing yet"}`;
  }

  // The places on the x axis at which something can be shown.
  get #stops() {
    const all = this.spec.series.filter((one) => !one.roof).flatMap((one) => one.points.map((point) => point[0]));
    return [...new Set(all)].sort((a, b) => a - b);
  }

  #point_at(event) {
    const stops = this.#stops;
    if (stops.length === 0) return;
    const box = this.area.getBoundingClientRect();
    const x = event.clientX - box.left;
    const far = stops.map((stop) => Math.abs(this.wide.at(stop) - x));
    this.#show(far.indexOf(Math.min(...far)));
  }

  #step(event) {
    const stops = this.#stops;
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -stops.length, End: stops.length }[event.key];
    if (!step || stops.length === 0) return;
    event.preventDefault();
    const from = this.tip.hidden ? (step > 0 ? -1 : stops.length) : this.shown;
    this.#show(Math.min(stops.length - 1, Math.max(0, from + step)));
  }

  #show(index) {
    const stop = this.#stops[index];
    if (stop === undefined) return this.#leave();
    this.shown = index;
    const { series, x, y } = this.spec;
    const place = this.wide.at(stop);
    for (const name of ["x1", "x2"]) this.cursor.setAttribute(name, place);
    this.cursor.setAttribute("visibility", "visible");
    const when = x.now ? (stop > -0.5 ? "now" : `${Math.round(-stop)} s ago`) : `${this.#unit(x)(stop)}${x.label ? ` ${x.label}` : ""}`;
    const rows = series.flatMap((one, i) => {
      const point = one.roof ? undefined : one.points.find((each) => each[0] === stop);
      if (!point) return [];
      const value = point[1] === null ? "–" : this.#unit(y)(point[1]);
      return [html("span", "", html("i", `swatch s${i % kMaxSeries}`), `${one.name} `, html("b", "", value))];
    });
    this.tip.hidden = false;
    this.tip.replaceChildren(html("span", "chart-when", when), ...rows);
    const flips = place > this.width / 2;
    this.tip.style.left = flips ? "auto" : `${place + 10}px`;
    this.tip.style.right = flips ? `${this.width - place + 10}px` : "auto";
  }

  #leave() {
    this.tip.hidden = true;
    this.cursor?.setAttribute("visibility", "hidden");
  }
}

// Of a report.
if (typeof document !== "undefined")
  for (const figure of document.querySelectorAll("figure[data-chart]")) new Chart(figure, JSON.parse(figure.dataset.chart));
