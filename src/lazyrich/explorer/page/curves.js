// Loss, modes and kernel distance over one axis of time, drawn by plotly.js as a single figure: one update then costs
// half of what three figures would. Titles and legend are our own text beside it, and the cursor is a line over it:
// what does not change with the numbers is not drawn anew with them.

import { colour, ramp, series } from "./colours.js";

const MARGIN = { l: 58, r: 14, t: 12, b: 42 };
const PANELS = [[0.69, 1], [0.29, 0.62], [0, 0.22]]; // loss, modes, kernel: shares of the height
const MOST_MODES = 16; // more cannot be told apart
const ROOM = 1.25; // of the lazy threshold, which the panel of the kernel always has
const LABEL = { type: "scatter", mode: "text", cliponaxis: false, hoverinfo: "skip" };

export class Curves {
  constructor(place, line, frame, { move, resized, hovered }) {
    Object.assign(this, { place, line, view: null, over: null, captions: null, descent: null, page: null, span: [0, 1], size: { width: 0, height: 0 } });
    const drag = (event) => {
      if (!this.view) return;
      const box = frame.getBoundingClientRect();
      const share = (event.clientX - box.left - MARGIN.l) / (box.width - MARGIN.l - MARGIN.r);
      const time = this.toTime(Math.min(1, Math.max(0, share)));
      if (event.buttons === 0) hovered(time);
      else move(time);
    };
    frame.addEventListener("pointerdown", (event) => {
      frame.setPointerCapture(event.pointerId);
      drag(event);
    });
    frame.addEventListener("pointermove", drag);
    frame.addEventListener("pointerleave", () => hovered(null));
    new ResizeObserver(([{ contentRect }]) => {
      this.size = { width: contentRect.width, height: contentRect.height };
      if (!this.view) return;
      this.draw();
      resized();
    }).observe(frame);
  }

  /** A share of the axis as a time. */
  toTime(share) {
    const [from, to] = this.span;
    return this.page.logTime ? from * (to / from) ** share : from + share * (to - from);
  }

  toShare(time) {
    const [from, to] = this.span;
    return this.page.logTime ? Math.log(Math.max(time, from) / from) / Math.log(to / from) : (time - from) / (to - from);
  }

  update(parts, page) {
    Object.assign(this, parts, { page });
    this.draw();
  }

  draw() {
    const { times, loss, modes, targets } = this.view.arrays;
    const end = times.values.at(-1);
    this.span = this.page.logTime ? [times.values.find((t) => t > 0) ?? end, end] : [0, end];
    const traces = [
      ...this.losses(times, loss),
      ...this.modes(times, modes, targets),
      ...this.kernel(times),
    ];
    Plotly.react(this.place, traces, this.layout(), { displayModeBar: false, responsive: false, staticPlot: true });
    this.place.setAttribute("aria-label", this.inWords());
  }

  losses(times, loss) {
    const tasks = loss.shape[1];
    const colours = series();
    const traces = Array.from({ length: tasks }, (_, k) => line(times.values, column(loss, k), colours[k], "y"));
    if (this.descent) {
      const { times: t, loss: descended } = this.descent.arrays;
      traces.push(line(t.values, descended.values, colour("ink"), "y", { dash: "dot", width: 2 }));
    }
    return traces;
  }

  modes(times, modes, targets) {
    const count = Math.min(modes.shape[1], MOST_MODES);
    const colours = ramp(count);
    const traces = [];
    for (let k = 0; k < count; k += 1) {
      traces.push(line(times.values, this.parted(column(modes, k)), colours[k], "y2"));
      if (this.descent) {
        traces.push(line(this.descent.arrays.times.values, column(this.descent.arrays.modes, k), colour("ink"), "y2", { dash: "dot", width: 1.2 }));
      }
    }
    const marks = (this.captions?.half_times ?? []).filter(({ mode, time }) => mode < count && time <= times.values.at(-1));
    if (marks.length) traces.push(rings(marks, "y2"));
    if (this.view.header.boundaries.length === 1) traces.unshift(...this.levels(targets.values.slice(0, count)));
    return traces;
  }

  /** Where each mode ends when it is learned. One that is not learned has a level that is seen, and a name. */
  levels(targets) {
    const [from, to] = this.span;
    const { unlearned } = this.view.header;
    const missed = unlearned.filter((k) => k < targets.length);
    const levels = (values, shade, width) => line(values.flatMap(() => [from, to, null]), values.flatMap((s) => [s, s, null]), shade, "y2", { dash: "dash", width });
    return [
      levels([...targets].filter((_, k) => !missed.includes(k)), colour("soft"), 1),
      ...missed.map((k) => levels([targets[k]], colour("bad"), 2.2)),
      ...missed.slice(0, 1).map((k) => ({ ...LABEL, x: [this.page.logTime ? Math.sqrt(from * to) : (from + to) / 2], y: [targets[k]], yaxis: "y2", text: [notLearned(missed)], textposition: "top center", textfont: { color: colour("bad"), size: 12 } })),
    ];
  }

  /** How far it has moved, by which a network is called lazy, and how far it has turned. */
  kernel(times) {
    const { kernel, movement } = this.view.arrays;
    const { lazy_below: below } = this.view.header;
    const [from, to] = this.span;
    return [
      line([from, to], [below, below], colour("soft"), "y3", { dash: "dash", width: 1 }),
      line(times.values, this.parted(kernel.values), colour("blue"), "y3", { dash: "dash", width: 1.2 }),
      line(times.values, this.parted(movement.values), colour("blue"), "y3"),
      ...(this.captions ? [rings(this.decisive(), "y3")] : []), // with the sentence that it belongs to
    ];
  }

  /** What the sentence tells: the farthest that the kernel has moved by the time when the loss has fallen, task by task. */
  decisive() {
    const { times, movement } = this.view.arrays;
    const starts = [...times.values.keys()].filter((i) => i === 0 || times.values[i] === times.values[i - 1]);
    return this.view.header.learned_by.flatMap((learned, k) => {
      if (learned === null) return [];
      const [from, to] = [starts[k], starts[k + 1] ?? times.values.length];
      let best = from;
      for (let i = from; i < to && times.values[i] <= learned * (1 + 1e-6); i += 1) {
        if (movement.values[i] > movement.values[best]) best = i;
      }
      return [{ time: times.values[best], strength: movement.values[best] }];
    });
  }

  layout() {
    const [ink, grid] = [colour("soft"), colour("line")];
    const axis = { gridcolor: grid, zerolinecolor: grid, linecolor: grid, exponentformat: "e", ticklabeloverflow: "allow" }; // a raised exponent would need inline styles
    const value = (domain) => ({ ...axis, domain, nticks: 5, rangemode: "tozero" });
    const { boundaries } = this.view.header;
    return {
      ...this.size, margin: MARGIN, showlegend: false,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 11, family: "system-ui, DejaVu Sans, sans-serif" },
      xaxis: { ...axis, anchor: "y3", type: this.page.logTime ? "log" : "linear", range: this.page.logTime ? this.span.map(Math.log10) : this.span },
      yaxis: { ...value(PANELS[0]), type: this.page.logLoss ? "log" : "linear", ...this.lossRange() },
      yaxis2: { ...value(PANELS[1]), ...this.modeRange() },
      yaxis3: { ...value(PANELS[2]), nticks: 4, tickformat: ".0%", range: [0, 1.05 * Math.max(ROOM * this.view.header.lazy_below, ...this.view.arrays.movement.values)] },
      shapes: boundaries.slice(0, -1).map((t) => ({ type: "line", x0: t, x1: t, yref: "paper", y0: 0, y1: 1, line: { color: ink, width: 1, dash: "dot" } })),
    };
  }

  /** With gradient descent over it, which may diverge, the axes are those of the theory. */
  lossRange() {
    if (!this.descent) return {};
    const values = this.view.arrays.loss.values;
    const most = 1.05 * values.reduce((a, b) => Math.max(a, b), 0);
    const least = values.reduce((a, b) => (b > 0 ? Math.min(a, b) : a), most);
    return { range: this.page.logLoss ? [Math.log10(least) - 0.2, Math.log10(most) + 0.1] : [0, most] };
  }

  modeRange() {
    if (!this.descent) return {};
    const values = this.view.arrays.modes.values;
    const [least, most] = [values.reduce((a, b) => Math.min(a, b), 0), values.reduce((a, b) => Math.max(a, b), 0)];
    return { range: [least - 0.05 * (most - least), most + 0.05 * (most - least)] };
  }

  /** What the colours mean: [colour, words]. */
  legend() {
    const tasks = this.view.arrays.loss.shape[1];
    const entries = tasks > 1 ? series().slice(0, tasks).map((shade, k) => [shade, `task ${k + 1}`]) : [];
    if (this.descent) {
      const { end, steps, rate } = this.descent.header;
      const reached = this.descent.arrays.times.values.at(-1) < 0.98 * this.view.arrays.times.values.at(-1) ? ` until ${(steps * rate).toPrecision(3)}` : "";
      entries.push([colour("ink"), `gradient descent (dotted)${end === "complete" ? reached : `: ${end}`}`]);
    }
    return entries;
  }

  /** Without a stroke from one task to the next, whose modes and kernel are others: the first value of each is left out. */
  parted(values) {
    const { times } = this.view.arrays;
    if (this.view.header.boundaries.length === 1) return values;
    return values.map((value, i) => (i > 0 && times.values[i] === times.values[i - 1] ? NaN : value));
  }

  cursor(time) {
    const width = this.size.width - MARGIN.l - MARGIN.r;
    this.line.style.transform = `translateX(${MARGIN.l + width * Math.min(1, Math.max(0, this.toShare(time)))}px)`;
  }

  inWords() {
    const { loss, kernel, movement } = this.view.arrays;
    const tasks = loss.shape[1];
    const turned = ` The kernel ends ${percent(movement.values.at(-1))} of its size away, turned by S = ${kernel.values.at(-1).toPrecision(3)}.`;
    return `The loss goes from ${loss.values[0].toPrecision(3)} to ${loss.values[loss.values.length - tasks].toPrecision(3)}.${turned}`;
  }

  /** The numbers at one of the times. */
  reading(index) {
    const { times, loss, modes, movement } = this.view.arrays;
    const row = ({ shape, values }) => Array.from(values.slice(index * shape[1], (index + 1) * shape[1]), (v) => v.toPrecision(3));
    const strengths = row(modes);
    const shown = strengths.slice(0, 3).join(", ") + (strengths.length > 3 ? " …" : "");
    return `t = ${times.values[index].toPrecision(3)}: loss ${row(loss).join(" and ")}; modes ${shown}; kernel ${percent(movement.values[index])}`;
  }
}

function rings(marks, yaxis) {
  return {
    x: marks.map(({ time }) => time), y: marks.map(({ strength }) => strength), yaxis, type: "scatter", mode: "markers",
    marker: { size: 8, color: "rgba(0,0,0,0)", line: { width: 1.8, color: colour("ink") } },
  };
}

function notLearned(modes) {
  const numbers = modes.map((k) => k + 1); // as lr.fate prints them
  return numbers.length > 1 ? `modes ${numbers.join(", ")} are not learned` : `mode ${numbers[0]} is not learned`;
}

export function percent(share) {
  return share < 0.0995 ? `${(100 * share).toPrecision(2)} %` : `${Math.round(100 * share)} %`;
}

function line(x, y, color, yaxis, { dash = "solid", width = 1.8 } = {}) {
  return { x, y, yaxis, type: "scatter", mode: "lines", line: { color, dash, width, simplify: false } };
}

/** One column of a (T, k) array. */
function column({ shape, values }, k) {
  const [rows, columns] = shape;
  return columns === 1 ? values : Float32Array.from({ length: rows }, (_, i) => values[i * columns + k]);
}
