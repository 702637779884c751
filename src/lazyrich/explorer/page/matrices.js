// Matrices that follow the cursor: one pixel an entry, enlarged by the browser. The colours of a matrix are those of
// its largest entry at any time, so that it is seen to grow.

import { dark, diverging } from "./colours.js";
import { element } from "./controls.js";

export class Matrix {
  constructor(place, name) {
    Object.assign(this, { place, name, array: null, shades: null, theme: null });
    this.canvas = element("canvas");
    this.least = element("span");
    this.most = element("span");
    this.rules = [element("div", { className: "rule" }), element("div", { className: "rule" })];
    const sheet = element("div", { className: "sheet" }, [this.canvas, ...this.rules]);
    place.append(sheet, element("div", { className: "scale" }, [this.least, this.most]));
  }

  /** `inputs`: so many of the first rows and columns belong to the inputs, the others to the outputs. */
  update(array, inputs = 0) {
    this.array = array;
    const share = `${(100 * inputs) / array.shape[2]}%`;
    Object.assign(this.rules[0].style, { left: share, top: 0, bottom: 0, width: "1px" });
    Object.assign(this.rules[1].style, { top: share, left: 0, right: 0, height: "1px" });
    for (const rule of this.rules) rule.hidden = inputs === 0;
    const [, rows, columns] = array.shape;
    Object.assign(this.canvas, { width: columns, height: rows });
    this.pen = this.canvas.getContext("2d", { willReadFrequently: true }); // figures that are taken away read it
    this.image = this.pen.createImageData(columns, rows);
    this.limit = array.values.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
    this.least.textContent = `−${this.limit.toPrecision(2)}`;
    this.most.textContent = this.limit.toPrecision(2);
    this.drawn = -1;
  }

  draw(frame) {
    if (!this.array || (this.drawn === frame && this.theme === dark())) return;
    const [, rows, columns] = this.array.shape;
    const size = rows * columns;
    if (this.theme !== dark()) {
      this.shades = Array.from({ length: 511 }, (_, i) => diverging((i - 255) / 255));
      this.theme = dark();
    }
    const { data } = this.image;
    for (let i = 0; i < size; i += 1) {
      const value = this.array.values[frame * size + i] / this.limit;
      const [r, g, b] = this.shades[Math.round(255 * Math.min(1, Math.max(-1, value))) + 255];
      data[4 * i] = r;
      data[4 * i + 1] = g;
      data[4 * i + 2] = b;
      data[4 * i + 3] = 255;
    }
    this.pen.putImageData(this.image, 0, 0);
    this.drawn = frame;
    this.place.setAttribute("aria-label", `${this.name}, ${rows} rows and ${columns} columns; largest entry at any time ${this.limit.toPrecision(3)}`);
  }
}
