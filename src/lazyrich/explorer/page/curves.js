// Loss, modes and kernel distance over one axis of time, as one figure. Titles and legend are text beside it, and the
// cursor is a line over it: what does not change with the numbers is not drawn anew with them.

import { colour, ramp, series } from "./colours.js";
import { Plot } from "./plot.js";

const SHARES = { loss: [0.69, 1], modes: [0.29, 0.62], kernel: [0, 0.22] }; // of the height
const MOST_MODES = 16; // more cannot be told apart
const ROOM = 1.25; // of the lazy threshold, which the panel of the kernel always has
const BEYOND = 0.05; // of a range, that an axis goes on beyond it
const SMALLEST = 1e-12; // of the largest loss, on a logarithmic axis

export class Curves {
  constructor(place, { line, frame, curtain }, { move, resized, hovered }) {
    const none = { view: null, captions: null, descent: null, pinned: null, marks: [], seen: 1, hides: "", page: null, span: [0, 1], size: { width: 0, height: 0 } };
    Object.assign(this, { place, line, curtain, plot: new Plot(place), ...none });
    const drag = (event) => {
      if (!this.view) return;
      const time = this.toTime(Plot.share(event.clientX - frame.getBoundingClientRect().left, this.size.width));
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
    const end = Math.max(times.values.at(-1), this.pinned?.arrays.times.values.at(-1) ?? 0);
    this.span = this.page.logTime ? [times.values.find((t) => t > 0) ?? end, end] : [0, end];
    if (this.size.width < 100 || this.size.height < 100) return;
    const traces = [
      ...this.before(),
      ...this.losses(times, loss),
      ...this.modes(times, modes, targets),
      ...this.kernel(times),
      ...this.numbered(),
    ].filter(({ panel }) => panel !== this.hides);
    this.curtain.hidden = this.seen === 1;
    this.curtain.style.left = `${Plot.place(this.seen, this.size.width)}px`;
    const parts = this.view.header.boundaries.slice(0, -1);
    this.plot.draw(traces, { panels: this.panels(), time: { log: this.page.logTime, range: this.span }, parts, ...this.size });
    this.place.setAttribute("aria-label", this.inWords());
  }

  /** The curves that were pinned, thin and grey. */
  before() {
    if (!this.pinned) return [];
    const { times, loss, modes, movement } = this.pinned.arrays;
    const thin = (panel, values) => ({ ...line(panel, times.values, values, colour("soft"), { width: 1 }), pinned: true });
    const strengths = Array.from({ length: Math.min(modes.shape[1], MOST_MODES) }, (_, k) => thin("modes", column(modes, k)));
    return [...Array.from({ length: loss.shape[1] }, (_, k) => thin("loss", column(loss, k))), ...strengths, thin("kernel", movement.values)];
  }

  /** The marks of a story that lie on a curve, as far as it may be seen. */
  numbered() {
    const { times, loss, modes, movement } = this.view.arrays;
    const found = [];
    this.marks.forEach(({ panel, mode, share }, k) => {
      const values = { loss: () => column(loss, mode), modes: () => column(modes, mode), kernel: () => movement.values }[panel];
      const half = this.captions?.half_times.find((mark) => mark.mode === mode);
      const time = share === null ? half?.time : this.toTime(share);
      if (!values || time === undefined || this.toShare(time) > this.seen) return;
      const after = times.values.findIndex((t) => t >= time);
      const i = after < 0 ? times.values.length - 1 : after; // pinned curves may go on for longer
      const at = share === null ? [time, half.strength] : [times.values[i], values()[i]];
      found.push({ panel, kind: "mark", x: [at[0]], y: [at[1]], number: k, color: colour("green") });
    });
    return found;
  }

  losses(times, loss) {
    const tasks = loss.shape[1];
    const colours = series();
    const traces = Array.from({ length: tasks }, (_, k) => line("loss", times.values, column(loss, k), colours[k]));
    if (this.descent) {
      const { times: t, loss: descended } = this.descent.arrays;
      traces.push(line("loss", t.values, descended.values, colour("ink"), { dash: "dot", width: 2 }));
    }
    return traces;
  }

  modes(times, modes, targets) {
    const count = Math.min(modes.shape[1], MOST_MODES);
    const colours = ramp(count);
    const traces = [];
    for (let k = 0; k < count; k += 1) {
      traces.push(line("modes", times.values, this.parted(column(modes, k)), colours[k]));
      if (this.descent) {
        const { times: t, modes: descended } = this.descent.arrays;
        traces.push(line("modes", t.values, column(descended, k), colour("ink"), { dash: "dot", width: 1.2 }));
      }
    }
    const marks = (this.captions?.half_times ?? []).filter(({ mode, time }) => mode < count && time <= times.values.at(-1) && this.toShare(time) <= this.seen);
    if (marks.length) traces.push(rings("modes", marks));
    if (this.view.header.boundaries.length === 1) traces.unshift(...this.levels(targets.values.slice(0, count)));
    return traces;
  }

  /** Where each mode ends when it is learned. One that is not learned has a level that is seen, and a name. */
  levels(targets) {
    const [from, to] = this.span;
    const { unlearned } = this.view.header;
    const missed = this.seen < 1 ? [] : unlearned.filter((k) => k < targets.length); // not before it was predicted
    const levels = (values, shade, width) => line("modes", values.flatMap(() => [from, to, null]), values.flatMap((s) => [s, s, null]), shade, { dash: "dash", width });
    return [
      levels([...targets].filter((_, k) => !missed.includes(k)), colour("soft"), 1),
      ...missed.map((k) => levels([targets[k]], colour("bad"), 2.2)),
      ...missed.slice(0, 1).map((k) => ({ panel: "modes", kind: "words", x: [this.toTime(0.5)], y: [targets[k]], text: notLearned(missed), color: colour("bad") })),
    ];
  }

  /** How far it has moved, by which a network is called lazy, and how far it has turned. */
  kernel(times) {
    const { kernel, movement } = this.view.arrays;
    const { lazy_below: below } = this.view.header;
    const [from, to] = this.span;
    return [
      line("kernel", [from, to], [below, below], colour("soft"), { dash: "dash", width: 1 }),
      line("kernel", times.values, this.parted(kernel.values), colour("blue"), { dash: "dash", width: 1.2 }),
      line("kernel", times.values, this.parted(movement.values), colour("blue")),
      ...(this.captions && this.seen === 1 ? [rings("kernel", this.decisive())] : []), // with the sentence that it belongs to
    ];
  }

  /** What the sentence tells: the farthest that the kernel has moved by the time when the loss has fallen, task by task. */
  decisive() {
    const { times, movement } = this.view.arrays;
    const { starts } = this.view.header;
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

  /** The axes: those of the theory, also where gradient descent over it diverges. */
  panels() {
    const { loss, modes, targets, movement } = this.view.arrays;
    const old = this.pinned?.arrays;
    const levels = this.view.header.boundaries.length === 1 ? [...targets.values.slice(0, MOST_MODES)] : [];
    const most = this.hides === "kernel" ? 1 : 1.05 * Math.max(ROOM * this.view.header.lazy_below, ...movement.values, ...(old?.movement.values ?? []));
    return {
      loss: { share: SHARES.loss, ticks: 5, ...(this.page.logLoss ? decades(loss.values) : { range: withZero([...loss.values, ...(old?.loss.values ?? [])]) }) },
      modes: { share: SHARES.modes, ticks: 5, range: withZero([...modes.values, ...levels, ...(old?.modes.values ?? [])]) },
      kernel: { share: SHARES.kernel, ticks: 4, range: [0, most], percent: true },
    };
  }

  /** What the colours mean: [colour, words]. */
  legend() {
    const tasks = this.view.arrays.loss.shape[1];
    const entries = tasks > 1 ? series().slice(0, tasks).map((shade, k) => [shade, `task ${k + 1}`]) : [];
    if (this.pinned) entries.push([colour("soft"), this.pinned.words]);
    if (this.descent) {
      const { end, steps, rate } = this.descent.header;
      const reached = this.descent.arrays.times.values.at(-1) < 0.98 * this.view.arrays.times.values.at(-1) ? ` until ${(steps * rate).toPrecision(3)}` : "";
      entries.push([colour("ink"), `gradient descent (dotted)${end === "complete" ? reached : `: ${end}`}`]);
    }
    return entries;
  }

  /** Without a stroke from one task to the next, whose modes and kernel are others: the first value of each is left out. */
  parted(values) {
    const { starts } = this.view.header;
    return starts.length === 1 ? values : values.map((value, i) => (i > 0 && starts.includes(i) ? NaN : value));
  }

  cursor(time) {
    this.line.style.transform = `translateX(${Plot.place(this.toShare(time), this.size.width)}px)`;
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
    const moved = this.hides === "kernel" ? "" : `; kernel ${percent(movement.values[index])}`;
    return `t = ${times.values[index].toPrecision(3)}: loss ${row(loss).join(" and ")}; modes ${shown}${moved}`;
  }
}

function rings(panel, marks) {
  return { panel, kind: "rings", x: marks.map(({ time }) => time), y: marks.map(({ strength }) => strength), color: colour("ink") };
}

/** From zero, or from below it, to beyond the largest. */
function withZero(values) {
  const [least, most] = [values.reduce((a, b) => Math.min(a, b), 0), values.reduce((a, b) => Math.max(a, b), 0)];
  const more = BEYOND * (most - least || 1);
  return [least < 0 ? least - more : 0, most > 0 || least === 0 ? most + more : 0];
}

function decades(values) {
  const most = values.reduce((a, b) => Math.max(a, b), 0) || 1;
  const least = values.reduce((a, b) => (b > SMALLEST * most ? Math.min(a, b) : a), most);
  return { log: true, range: [10 ** (Math.log10(least) - 0.2), 10 ** (Math.log10(most) + 0.1)] };
}

function notLearned(modes) {
  const numbers = modes.map((k) => k + 1); // as lr.fate prints them
  return numbers.length > 1 ? `modes ${numbers.join(", ")} are not learned` : `mode ${numbers[0]} is not learned`;
}

export function percent(share) {
  return share < 0.0995 ? `${(100 * share).toPrecision(2)} %` : `${Math.round(100 * share)} %`;
}

function line(panel, x, y, color, { dash = "", width = 1.8 } = {}) {
  return { panel, kind: "line", x, y, color, dash, width };
}

/** One column of a (T, k) array. */
function column({ shape, values }, k) {
  const [rows, columns] = shape;
  return columns === 1 ? values : Float32Array.from({ length: rows }, (_, i) => values[i * columns + k]);
}
