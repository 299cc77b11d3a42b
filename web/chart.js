// SPDX-License-Identifier: MIT
// A line chart with axes and values under the pointer, in SVG. One module for every time series of the page.

const kLeft = 44, kRight = 8, kTop = 8, kBottom = 18, kHeight = 96;

const svg = (tag, attributes = {}, text = "") => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.textContent = text;
  return made;
};

// The least of 1, 2, 2.5, 5 times a power of ten that is not below `value`.
export function nice_ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= value * 0.9999);
}

export class Chart {
  #points = [];  // { age_s, values }, oldest first; a value may be null

  // `series`: names, drawn in the colours of classes s0, s1, …; `format(value)` writes one.
  constructor(root, { label, series, format, span_s }) {
    Object.assign(this, { root, label, series, format, span_s });
    root.classList.add("chart");
    root.tabIndex = 0;
    this.picture = svg("svg", { role: "img", "aria-label": label });
    this.tip = document.createElement("output");
    this.tip.className = "tip";
    this.tip.hidden = true;
    root.append(this.picture, this.tip);
    root.addEventListener("pointermove", (event) => this.#point_at(event.clientX));
    root.addEventListener("pointerleave", () => this.#leave());
    root.addEventListener("keydown", (event) => this.#step(event));
    root.addEventListener("blur", () => this.#leave());
    new ResizeObserver(() => this.#draw()).observe(root);
  }

  set(points) {
    this.#points = points;
    this.#draw();
    if (!this.tip.hidden) this.#show(Math.min(this.shown, points.length - 1));
  }

  get #width() {
    return Math.max(120, this.root.clientWidth);
  }

  #x(age_s) {
    return kLeft + (this.#width - kLeft - kRight) * (1 - Math.min(1, age_s / this.span_s));
  }

  #draw() {
    const width = this.#width;
    const most = nice_ceiling(Math.max(0, ...this.#points.flatMap((point) => point.values.filter((v) => v !== null))));
    const y = (value) => kTop + (kHeight - kTop - kBottom) * (1 - value / most);
    this.picture.setAttribute("viewBox", `0 0 ${width} ${kHeight}`);
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      parts.push(svg("line", { class: "grid", x1: kLeft, x2: width - kRight, y1: y(share * most), y2: y(share * most) }));
      parts.push(svg("text", { class: "axis", x: kLeft - 5, y: y(share * most) + 4, "text-anchor": "end" }, this.format(share * most)));
    }
    for (const [share, anchor] of [[1, "start"], [0.5, "middle"], [0, "end"]])
      parts.push(svg("text", { class: "axis", x: this.#x(share * this.span_s), y: kHeight - 4, "text-anchor": anchor },
        share === 0 ? "now" : `−${Math.round(share * this.span_s)} s`));
    this.series.forEach((name, i) => parts.push(svg("path", { class: `line s${i}`, d: this.#path(i, y) })));
    this.cursor = svg("line", { class: "cursor", y1: kTop, y2: kHeight - kBottom, visibility: "hidden" });
    this.picture.replaceChildren(...parts, this.cursor);
    const last = this.#points.at(-1);
    if (last) this.picture.setAttribute("aria-label", `${this.label}: ${this.#values_of(last)}`);
  }

  // Gaps where nothing was measured.
  #path(i, y) {
    let path = "", pen = "M";
    for (const { age_s, values } of this.#points) {
      if (values[i] !== null) path += `${pen}${this.#x(age_s).toFixed(1)},${y(values[i]).toFixed(1)}`;
      pen = values[i] === null ? "M" : "L";
    }
    return path;
  }

  #values_of({ values }) {
    return this.series.map((name, i) => `${name} ${values[i] === null ? "–" : this.format(values[i])}`).join(", ");
  }

  #point_at(client_x) {
    if (this.#points.length === 0) return;
    const box = this.root.getBoundingClientRect();
    const x = (client_x - box.left) * (this.#width / box.width);
    const far = this.#points.map((point) => Math.abs(this.#x(point.age_s) - x));
    this.#show(far.indexOf(Math.min(...far)));
  }

  #step(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || this.#points.length === 0) return;
    event.preventDefault();
    const from = this.tip.hidden ? this.#points.length : this.shown;
    this.#show(Math.min(this.#points.length - 1, Math.max(0, from + step)));
  }

  #show(index) {
    const point = this.#points[index];
    if (!point) return;
    this.shown = index;
    const x = this.#x(point.age_s);
    for (const name of ["x1", "x2"]) this.cursor.setAttribute(name, x);
    this.cursor.setAttribute("visibility", "visible");
    this.tip.hidden = false;
    this.tip.textContent = `${Math.round(point.age_s)} s ago: ${this.#values_of(point)}`;
    this.tip.classList.toggle("at-left", x > this.#width / 2);
  }

  #leave() {
    this.tip.hidden = true;
    this.cursor?.setAttribute("visibility", "hidden");
  }
}
