// Lazy, rich or delayed rich, over scale and λ; a click, or Enter on the cell that arrow keys have chosen, goes there.
// The colours turn where the words do, and the bar under the picture says which is which.

import { colour, verdictShade } from "./colours.js";
import { percent } from "./curves.js";
import { Picture, placeAmong, svg } from "./svg.js";

const EDGE = { left: 38, right: 8, top: 16, bottom: 74 };
const LAMS = [-20, -5, -1, 0, 1, 5, 20];
const SCALES = [1e-4, 1e-3, 0.01, 0.1, 1];

/** Rises with λ as the rows do: by the logarithm, and evenly around zero. */
const even = (lam) => Math.sign(lam) * Math.log1p(Math.abs(lam) / 0.05);

export class Phase extends Picture {
  constructor(place, go) {
    super(place);
    Object.assign(this, { go, at: null, chosen: null });
    place.tabIndex = 0;
    place.addEventListener("keydown", (event) => this.key(event));
  }

  update({ header, arrays }) {
    Object.assign(this, { header, arrays, ready: Boolean(arrays.movement), marks: null, chosen: null });
    if (this.ready) this.repaint();
    else this.place.replaceChildren();
    this.place.hidden = !this.ready;
    const names = this.ready ? counted(arrays.verdict.values, header.verdicts) : "";
    this.place.setAttribute("aria-label", `Lazy or rich over ${header.axes.join(" and ")}: ${names}. Arrow keys choose a cell, Enter goes there`);
  }

  paint(root, width, height) {
    const { scales, lams, movement: moved, verdict } = this.arrays;
    const [rows, columns] = moved.shape;
    const wide = (width - EDGE.left - EDGE.right) / columns;
    const high = (height - EDGE.top - EDGE.bottom) / rows;
    const x = (column) => EDGE.left + column * wide;
    const y = (row) => EDGE.top + (rows - 1 - row) * high;
    for (let r = 0; r < rows; r += 1) {
      for (let c = 0; c < columns; c += 1) {
        const [value, name] = [moved.values[r * columns + c], this.header.verdicts[verdict.values[r * columns + c]]];
        const cell = svg("rect", { x: x(c), y: y(r), width: wide + 0.4, height: high + 0.4, fill: verdictShade(name, value, this.header.lazy_below), "data-verdict": name });
        cell.append(svg("title", {}, this.told(r, c)));
        cell.addEventListener("click", () => this.leave(r, c));
        root.append(cell);
      }
    }
    this.toPixel = ([scale, lam]) => [x(placeAmong(scales.values, scale, Math.log) + 0.5), y(placeAmong(lams.values, lam, even)) + high / 2];
    const middle = EDGE.left + (width - EDGE.left - EDGE.right) / 2;
    for (const scale of SCALES) {
      root.append(svg("text", { class: "tick", x: this.toPixel([scale, 0])[0], y: height - EDGE.bottom + 13, "text-anchor": "middle" }, `${scale}`.replace("0.0001", "10⁻⁴").replace("0.001", "10⁻³")));
    }
    for (const lam of LAMS) {
      root.append(svg("text", { class: "tick", x: EDGE.left - 5, y: this.toPixel([1, lam])[1] + 4, "text-anchor": "end" }, `${lam}`.replace("-", "−")));
    }
    root.append(svg("text", { x: middle, y: height - EDGE.bottom + 27, "text-anchor": "middle" }, this.header.axes[0]));
    root.append(svg("text", { x: EDGE.left - 5, y: 11, "text-anchor": "end" }, this.header.axes[1]));
    this.bar(root, width, height);
    this.marks = ["here", "here-inner", "chosen"].map((kind) => svg("circle", { class: kind, r: 6, visibility: "hidden" }));
    root.append(...this.marks);
    this.point(this.at);
  }

  /** What the colours say: how far the kernel moves, and the word for it. */
  bar(root, width, height) {
    const { verdicts, lazy_below: below } = this.header;
    const late = this.arrays.verdict.values.includes(verdicts.indexOf("delayed rich"));
    const [left, right, top] = [EDGE.left, width - EDGE.right, height - 40];
    const turn = left + 0.3 * (right - left);
    const strip = (from, to, high, at, name, share) => {
      const steps = 24;
      for (let i = 0; i < steps; i += 1) {
        const step = (to - from) / steps;
        root.append(svg("rect", { class: "bar", x: from + i * step, y: at, width: step + 0.4, height: high, fill: verdictShade(name, share(i / (steps - 1)), below) }));
      }
    };
    strip(left, turn, 10, top, "lazy", (s) => s * below * 0.999);
    strip(turn, right, late ? 5 : 10, top, "rich", (s) => below + s * (1 - below));
    if (late) strip(turn, right, 5, top + 5, "delayed rich", (s) => below + s * (1 - below));
    const words = (x, anchor, text, y = top + 23) => root.append(svg("text", { class: "tick", x, y, "text-anchor": anchor }, text));
    words(left, "start", "0");
    words(turn, "middle", `${100 * below} %`);
    words(right, "end", "100 %");
    words(left, "start", "lazy", top + 36);
    words(right, "end", late ? "above: rich, below: delayed rich" : "rich", top + 36);
  }

  told(r, c) {
    const { scales, lams, movement: moved, verdict } = this.arrays;
    const place = r * moved.shape[1] + c;
    const name = this.header.verdicts[verdict.values[place]];
    return `${this.header.axes[0]} ${scales.values[c].toPrecision(2)}, ${this.header.axes[1]} ${lams.values[r].toPrecision(2)}: the kernel moves by ${percent(moved.values[place])}: ${name}`;
  }

  leave(r, c) {
    const { scales, lams } = this.arrays;
    this.go(+scales.values[c].toPrecision(3), +lams.values[r].toPrecision(3));
  }

  key(event) {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [1, 0], ArrowDown: [-1, 0] }[event.key];
    if (!this.ready || !(step || event.key === "Enter")) return;
    event.preventDefault();
    event.stopPropagation();
    const [rows, columns] = this.arrays.movement.shape;
    this.chosen ??= [rows >> 1, columns >> 1];
    if (!step) return this.leave(...this.chosen);
    this.chosen = [Math.min(rows - 1, Math.max(0, this.chosen[0] + step[0])), Math.min(columns - 1, Math.max(0, this.chosen[1] + step[1]))];
    this.place.setAttribute("aria-label", this.told(...this.chosen));
    this.point(this.at);
  }

  /** The present point, or none. */
  point(point) {
    this.at = point;
    if (!this.marks) return;
    const { scales, lams } = this.arrays;
    const chosen = this.chosen && [scales.values[this.chosen[1]], lams.values[this.chosen[0]]];
    this.marks.forEach((mark, i) => {
      const at = i < 2 ? point : chosen;
      mark.setAttribute("visibility", at ? "visible" : "hidden");
      if (!at) return;
      const [cx, cy] = this.toPixel(at);
      mark.setAttribute("cx", cx);
      mark.setAttribute("cy", cy);
    });
  }
}

function counted(values, names) {
  return names.map((name, i) => [values.filter((v) => v === i).length, name]).filter(([n]) => n).map(([n, name]) => `${n} cells ${name}`).join(", ");
}
