// A figure of panels over one axis of time, drawn in SVG: lines, levels, rings and words at the values that they have.
// It draws what it is given and chooses nothing but the ticks.

import { svg } from "./svg.js";

const MARGIN = { l: 58, r: 14, t: 12, b: 42 };
const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";

export class Plot {
  constructor(place) {
    this.place = place;
  }

  /**
   * `panels`: name → { share: [bottom, top] of the height, log, range, ticks, percent }; `time`: { log, range };
   * `traces`: { panel, kind: "line" | "rings" | "words" | "mark", x, y, … } in the order in which they lie over each other;
   * `parts`: times of upright lines.
   */
  draw(traces, { panels, time, parts, width, height }) {
    Object.assign(this, { traces, panels, time, width, height });
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "figure", "aria-hidden": "true" });
    root.append(...this.grid());
    const groups = {};
    for (const [name, { top, bottom }] of Object.entries(this.places())) {
      const clip = svg("clipPath", { id: `clip-${name}` });
      clip.append(svg("rect", { x: MARGIN.l, y: top - 2, width: this.wide, height: bottom - top + 4 }));
      groups[name] = svg("g", { "data-panel": name, "clip-path": `url(#clip-${name})` });
      groups[name].append(...parts.map((t) => svg("path", { class: "part", d: `M${this.x(t).toFixed(1)} ${top}V${bottom}` })));
      root.append(clip, groups[name]);
    }
    for (const trace of traces) (trace.kind === "line" ? groups[trace.panel] : root).append(...this[trace.kind](trace));
    this.place.replaceChildren(root);
    this.place.drawn = { traces, panels, time }; // for whoever compares the figure with its numbers
  }

  get wide() {
    return this.width - MARGIN.l - MARGIN.r;
  }

  /** Where a point of the screen lies on the axis of time, as a share of it. */
  static share(x, width) {
    return Math.min(1, Math.max(0, (x - MARGIN.l) / (width - MARGIN.l - MARGIN.r)));
  }

  /** And a share on the screen. */
  static place(share, width) {
    return MARGIN.l + (width - MARGIN.l - MARGIN.r) * Math.min(1, Math.max(0, share));
  }

  places() {
    const high = this.height - MARGIN.t - MARGIN.b;
    const place = ([bottom, top]) => ({ top: MARGIN.t + (1 - top) * high, bottom: MARGIN.t + (1 - bottom) * high });
    return Object.fromEntries(Object.entries(this.panels).map(([name, { share }]) => [name, place(share)]));
  }

  x(time) {
    return MARGIN.l + this.wide * along(this.time, time);
  }

  y(panel, value) {
    const { top, bottom } = this.places()[panel];
    return bottom + (top - bottom) * along(this.panels[panel], value);
  }

  line({ panel, x, y, color, width = 1.8, dash = "" }) {
    const { top, bottom } = this.places()[panel];
    const [across, down] = [this.panels[panel], this.time];
    let [text, pen] = ["", false];
    for (let i = 0; i < x.length; i += 1) {
      const [at, value] = [along(down, x[i]), along(across, y[i])];
      if (Number.isFinite(at) && Number.isFinite(value) && x[i] !== null && y[i] !== null) {
        text += `${pen ? "L" : "M"}${(MARGIN.l + this.wide * at).toFixed(1)} ${Math.max(-1e4, Math.min(1e4, bottom + (top - bottom) * value)).toFixed(1)}`;
        pen = true;
      } else pen = false;
    }
    const dashes = { dash: "7 5", dot: "2 3" }[dash];
    return [svg("path", { d: text, fill: "none", stroke: color, "stroke-width": width, "stroke-linejoin": "round", ...(dashes ? { "stroke-dasharray": dashes } : {}) })];
  }

  rings({ panel, x, y, color }) {
    const there = x.map((_, i) => i).filter((i) => Number.isFinite(this.x(x[i]))); // a logarithmic axis has no zero
    return there.map((i) => svg("circle", { class: "ring", cx: this.x(x[i]), cy: this.y(panel, y[i]), r: 4, fill: "none", stroke: color, "stroke-width": 1.8 }));
  }

  mark({ panel, x, y, number, color }) {
    const [cx, cy] = [this.x(x[0]), this.y(panel, y[0])];
    const away = Math.max(MARGIN.l + 10, cx - 14);
    const above = cy - 13 > this.places()[panel].top + 4;
    const high = above ? cy - 13 : cy + 14; // not into the title over a panel
    const group = svg("g", { class: "mark", "data-mark": number });
    group.append(
      svg("circle", { cx, cy, r: 3.5, fill: color }),
      svg("circle", { class: "badge", cx: away, cy: high, r: 8.5, fill: color }),
      svg("text", { class: "number", x: away, y: high + 4, "text-anchor": "middle" }, `${number + 1}`),
    );
    return [group];
  }

  words({ panel, x, y, text, color }) {
    return [svg("text", { class: "said", x: this.x(x[0]), y: this.y(panel, y[0]) - 6, "text-anchor": "middle", fill: color }, text)];
  }

  grid() {
    const drawn = [];
    const places = this.places();
    const lowest = Math.max(...Object.values(places).map(({ bottom }) => bottom));
    for (const time of ticks(this.time, Math.max(2, Math.floor(this.wide / 60)))) {
      const x = this.x(time).toFixed(1);
      for (const { top, bottom } of Object.values(places)) drawn.push(svg("path", { class: "axis", d: `M${x} ${top}V${bottom}` }));
      drawn.push(svg("text", { class: "tick", x, y: lowest + 15, "text-anchor": "middle" }, told(time, this.time)));
    }
    for (const [name, axis] of Object.entries(this.panels)) {
      for (const value of ticks(axis, axis.ticks)) {
        const y = this.y(name, value).toFixed(1);
        drawn.push(svg("path", { class: "axis", d: `M${MARGIN.l} ${y}H${MARGIN.l + this.wide}` }));
        drawn.push(svg("text", { class: "tick", x: MARGIN.l - 6, y: +y + 4, "text-anchor": "end" }, told(value, axis)));
      }
    }
    return drawn;
  }
}

/** A value as a share of its axis; below a logarithmic one there is none. */
function along({ log, range: [from, to] }, value) {
  return log ? Math.log(value / from) / Math.log(to / from) : (value - from) / (to - from);
}

/** About so many round values, or powers of ten, within a range. */
export function ticks({ log, range: [from, to] }, count) {
  if (log) {
    const [first, last] = [Math.ceil(Math.log10(from) - 1e-9), Math.floor(Math.log10(to) + 1e-9)];
    const step = Math.max(1, Math.ceil((last - first + 1) / count));
    if (last > first) return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, i) => 10 ** (first + i * step));
  }
  const step = rounded((to - from) / count);
  const first = Math.ceil(from / step - 1e-9);
  return Array.from({ length: Math.max(0, Math.floor(to / step + 1e-9) - first + 1) }, (_, i) => +((first + i) * step).toPrecision(12));
}

/** 1, 2 or 5 times a power of ten, no smaller. */
function rounded(step) {
  const power = 10 ** Math.floor(Math.log10(step));
  return [1, 2, 5, 10].map((s) => s * power).find((s) => s >= step * (1 - 1e-9)) ?? power;
}

function told(value, { log, percent }) {
  if (percent) return `${+(100 * value).toPrecision(6)} %`;
  const power = Math.round(Math.log10(Math.abs(value)));
  const isPower = Math.abs(value / 10 ** power - 1) < 1e-9;
  if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e5)) {
    const exponent = isPower ? power : Math.floor(Math.log10(Math.abs(value)));
    const raised = `10${exponent < 0 ? "⁻" : ""}${[...`${Math.abs(exponent)}`].map((digit) => RAISED[digit]).join("")}`;
    return isPower && value > 0 ? raised : `${+(value / 10 ** exponent).toPrecision(3)}·${raised}`.replace("-", "−");
  }
  return `${+value.toPrecision(log ? 3 : 6)}`.replace("-", "−");
}
