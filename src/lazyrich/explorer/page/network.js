// The network itself: units in layers, a line for each weight, as thick as it is large, blue below zero and orange above
// it. It moves with the cursor.

import { colour } from "./colours.js";
import { Picture, svg } from "./svg.js";

const MOST_UNITS = 16; // of a layer; of more, those with the largest weights are drawn
const THICK = 4.5; // pixels, of the largest weight at any time
const FAINT = 0.02; // of it: less is not drawn
const NAMES = 52; // pixels for the names of the inputs
const EDGE = 30; // and for what is written under the first and last layer

export class Network extends Picture {
  constructor(place) {
    super(place);
    this.frame = 0;
  }

  /** `layers`: (T, out, in) of each, first one first; `times`: when. */
  update({ times, layers, items }) {
    const sizes = [layers[0].shape[2], ...layers.map(({ shape }) => shape[1])];
    Object.assign(this, { times, layers, items, sizes, ready: true, lines: null });
    this.most = layers.reduce((most, { values }) => values.reduce((m, v) => Math.max(m, Math.abs(v)), most), 0) || 1;
    this.units = sizes.map((size, l) => strongest(size, layers[l - 1], layers[l]));
    this.frame = Math.min(this.frame, times.length - 1);
    this.repaint();
  }

  paint(root, width, height) {
    const named = this.sizes[0] <= 10 && this.items.length === this.sizes[0];
    const left = named ? NAMES + 10 : EDGE;
    const x = (layer) => left + ((width - left - EDGE) * layer) / (this.sizes.length - 1);
    const y = (layer, place) => 6 + ((height - 26) * (place + 0.5)) / this.units[layer].length;
    this.lines = this.layers.map((_, l) =>
      this.units[l + 1].map((_, to) =>
        this.units[l].map((_, from) => {
          const line = svg("line", { x1: x(l), y1: y(l, from), x2: x(l + 1), y2: y(l + 1, to), class: "weight" });
          root.append(line);
          return line;
        }),
      ),
    );
    this.units.forEach((units, l) => {
      units.forEach((unit, place) => {
        root.append(svg("circle", { class: "unit", cx: x(l), cy: y(l, place), r: Math.min(4.5, (height - 26) / units.length / 3) }));
        if (l === 0 && named) root.append(svg("text", { class: "name", x: left - 9, y: y(0, place) + 4, "text-anchor": "end" }, this.items[unit]));
      });
      root.append(svg("text", { class: "tick", x: x(l), y: height - 4, "text-anchor": "middle" }, this.label(l)));
    });
    this.shades = { plus: colour("orange"), minus: colour("blue") };
    this.draw(this.frame);
  }

  /** How many units a layer has, and how many are drawn; which layer it is, where there is room for the word. */
  label(l) {
    const [drawn, all, last] = [this.units[l].length, this.sizes[l], this.sizes.length - 1];
    const words = last > 2 ? ["in", "", "out"] : ["inputs", "hidden", "outputs"];
    return `${drawn === all ? all : `${drawn} of ${all}`} ${words[l === 0 ? 0 : l === last ? 2 : 1]}`.trim();
  }

  draw(frame) {
    this.frame = frame;
    if (!this.lines) return;
    this.lines.forEach((rows, l) => {
      const { shape, values } = this.layers[l];
      const start = frame * shape[1] * shape[2];
      rows.forEach((row, to) =>
        row.forEach((line, from) => {
          const weight = values[start + this.units[l + 1][to] * shape[2] + this.units[l][from]] / this.most;
          const size = Math.abs(weight);
          line.setAttribute("visibility", size < FAINT ? "hidden" : "visible");
          if (size < FAINT) return;
          line.setAttribute("stroke", weight > 0 ? this.shades.plus : this.shades.minus);
          line.setAttribute("stroke-width", (THICK * size).toFixed(2));
          line.setAttribute("stroke-opacity", (0.25 + 0.6 * size).toFixed(2));
        }),
      );
    });
    this.place.setAttribute("aria-label", `The network, ${this.sizes.join("-")}, with its weights at t = ${this.times[frame].toPrecision(3)}; the largest at any time is ${this.most.toPrecision(2)}`);
  }

  /** No weights are known of this network. */
  without(why) {
    Object.assign(this, { ready: false, lines: null });
    this.place.textContent = why;
    this.place.setAttribute("aria-label", why);
  }
}

/** The units of a layer that are drawn, by their weights on either side at any time, in their order. */
function strongest(size, before, after) {
  const all = Array.from({ length: size }, (_, i) => i);
  if (size <= MOST_UNITS) return all;
  const sums = all.map(() => 0);
  const add = ({ shape, values }, of) => values.forEach((v, k) => (sums[of(k, shape)] += v * v));
  if (before) add(before, (k, [, rows, columns]) => Math.floor(k / columns) % rows);
  if (after) add(after, (k, [, , columns]) => k % columns);
  return all.sort((a, b) => sums[b] - sums[a]).slice(0, MOST_UNITS).sort((a, b) => a - b);
}
