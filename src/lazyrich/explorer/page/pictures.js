// Pictures in SVG: representations in the plane, the hyperboloid of the single neuron, lazy and rich over scale and λ.

import { colour, movement, ramp } from "./colours.js";

const SIZE = 260;

function svg(tag, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}

function canvas(place, height = SIZE) {
  const made = svg("svg", { viewBox: `0 0 ${SIZE} ${height}`, "aria-hidden": "true" });
  place.replaceChildren(made);
  return made;
}

function polyline(points) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

/** What the first layer makes of each input, on its way. */
export class Points {
  constructor(place) {
    this.place = place;
  }

  update(array) {
    this.array = array;
    const [frames, count] = array.shape;
    const root = canvas(this.place);
    const most = array.values.reduce((m, v) => Math.max(m, Math.abs(v)), 0) || 1;
    this.toPixel = (frame, i) => [0, 1].map((k) => SIZE / 2 + (k ? -1 : 1) * (0.4 * SIZE * array.values[(frame * count + i) * 2 + k]) / most);
    root.append(svg("path", { class: "axis", d: `M0 ${SIZE / 2}H${SIZE}M${SIZE / 2} 0V${SIZE}` }));
    const colours = ramp(count);
    this.dots = Array.from({ length: count }, (_, i) => {
      const way = Array.from({ length: frames }, (_, f) => this.toPixel(f, i));
      const dot = svg("circle", { r: 7, fill: colours[i], "fill-opacity": 0.85 });
      const name = svg("text", { class: "dot" });
      root.append(svg("path", { class: "trail", stroke: colours[i], d: polyline(way) }), dot, name);
      return [dot, name];
    });
    this.place.setAttribute("aria-label", `The hidden representations of ${count} inputs, projected to a plane, and their ways over time`);
  }

  draw(frame) {
    const groups = []; // inputs that lie on each other share one name
    this.dots?.forEach(([dot, name], i) => {
      const [x, y] = this.toPixel(frame, i);
      dot.setAttribute("cx", x);
      dot.setAttribute("cy", y);
      name.textContent = "";
      const near = groups.find((group) => Math.hypot(group.x - x, group.y - y) < 9);
      if (near) near.members.push(i + 1);
      else groups.push({ x, y, name, members: [i + 1] });
    });
    for (const { x, y, name, members } of groups) {
      name.textContent = members.length > 6 ? `${members.length} inputs` : members.join(" ");
      name.setAttribute("x", x);
      name.setAttribute("y", y - 10);
    }
  }
}

/** a² − ‖w‖² = δ: the surface, the path on it and the two minima. Drag to turn it. */
export class Neuron {
  constructor(place) {
    Object.assign(this, { place, turn: 0.6, tilt: 0.35 });
    place.addEventListener("pointermove", (event) => {
      if (event.buttons === 0 || !this.view) return;
      this.turn += event.movementX / 90;
      this.tilt = Math.min(1.3, Math.max(-1.3, this.tilt + event.movementY / 120));
      this.surface();
      this.draw(this.now);
    });
  }

  update(view) {
    this.view = view;
    const { neuron } = view.arrays;
    const { balance: delta, neuron_target: target } = view.header;
    this.delta = delta;
    const w2 = (Math.sqrt(delta * delta + 4 * target * target) - delta) / 2; // ‖w‖² at the minima
    this.goals = [1, -1].map((sign) => [sign * Math.sqrt(w2), 0, sign * Math.sqrt(Math.max(0, w2 + delta))]);
    const values = [...neuron.values, ...this.goals.flat()];
    this.most = 1.25 * values.reduce((m, v) => Math.max(m, Math.abs(v)), 1e-9);
    this.surface();
    const sheet = delta > 0 ? "two sheets" : delta < 0 ? "one sheet" : "a cone";
    this.place.setAttribute("aria-label", `The path of the single neuron on the hyperboloid a² − ‖w‖² = ${delta.toPrecision(3)}, ${sheet}`);
  }

  /** From (w along, w across, a) to the picture. */
  toPixel([x, y, z]) {
    const [c, s] = [Math.cos(this.turn), Math.sin(this.turn)];
    const [across, deep] = [c * x + s * y, -s * x + c * y];
    const up = z * Math.cos(this.tilt) + deep * Math.sin(this.tilt);
    const unit = (0.46 * SIZE) / (1.2 * this.most);
    return [SIZE / 2 + unit * across, SIZE / 2 - unit * up];
  }

  surface() {
    const root = canvas(this.place);
    const steps = Array.from({ length: 13 }, (_, i) => (i / 12) * this.most);
    const angles = Array.from({ length: 25 }, (_, i) => (i / 12) * Math.PI);
    const ring = (w, a) => svg("path", { class: "wire", d: polyline(angles.map((t) => this.toPixel([w * Math.cos(t), w * Math.sin(t), a]))) });
    const least = this.delta < 0 ? Math.sqrt(-this.delta) : 0; // of ‖w‖
    const radii = steps.map((x) => Math.hypot(x, least)); // so that lines meet the waist
    const height = (w) => Math.sqrt(Math.max(0, w * w + this.delta));
    for (const sign of [1, -1]) {
      for (const w of radii) root.append(ring(w, sign * height(w)));
      for (const t of angles.filter((_, i) => i % 2 === 0)) {
        root.append(svg("path", { class: "wire", d: polyline(radii.map((w) => this.toPixel([w * Math.cos(t), w * Math.sin(t), sign * height(w)]))) }));
      }
    }
    const { neuron } = this.view.arrays;
    this.points = Array.from({ length: neuron.shape[0] }, (_, i) => Array.from(neuron.values.slice(3 * i, 3 * i + 3)));
    root.append(svg("path", { class: "path", d: polyline(this.points.map((p) => this.toPixel(p))) }));
    for (const goal of this.goals) {
      const [cx, cy] = this.toPixel(goal);
      root.append(svg("circle", { class: "goal", cx, cy, r: 6 }));
    }
    const [x, y] = this.toPixel([0, 0, 0.95 * this.most]);
    root.append(svg("text", { x: x + 4, y }, "a"));
    const [u, v] = this.toPixel([1.12 * this.most, 0, 0]);
    root.append(svg("text", { x: Math.min(u, SIZE - 2), y: v, "text-anchor": "end" }, "w along β*"));
    this.ball = svg("circle", { class: "now", r: 5.5 });
    root.append(this.ball);
  }

  draw(index) {
    if (!this.points) return;
    this.now = index;
    const [cx, cy] = this.toPixel(this.points[Math.min(index, this.points.length - 1)]);
    this.ball.setAttribute("cx", cx);
    this.ball.setAttribute("cy", cy);
  }
}

/** How far the kernel moves, over scale and λ; a click goes there. */
export class Phase {
  constructor(place, go) {
    Object.assign(this, { place, go });
  }

  update({ header, arrays }) {
    this.header = header;
    if (!arrays.movement) {
      this.place.replaceChildren();
      return;
    }
    const { scales, lams, movement: moved } = arrays;
    const [rows, columns] = moved.shape;
    const [left, bottom, top] = [34, 34, 6];
    const height = 230;
    const root = canvas(this.place, height);
    const [wide, high] = [(SIZE - left - 4) / columns, (height - bottom - top) / rows];
    const y = (row) => top + (rows - 1 - row) * high;
    for (let r = 0; r < rows; r += 1) {
      for (let c = 0; c < columns; c += 1) {
        const value = moved.values[r * columns + c];
        const cell = svg("rect", { x: left + c * wide, y: y(r), width: wide + 0.4, height: high + 0.4, fill: Number.isFinite(value) ? movement(value) : colour("line") });
        cell.append(svg("title", {}, `${header.axes[0]} ${scales.values[c].toPrecision(2)}, ${header.axes[1]} ${lams.values[r].toPrecision(2)}: the kernel moves by ${(100 * value).toPrecision(2)} %`));
        cell.addEventListener("click", () => this.go(+scales.values[c].toPrecision(3), +lams.values[r].toPrecision(3)));
        root.append(cell);
      }
    }
    this.toPixel = ([scale, lam]) => [left + wide * (0.5 + place(scales.values, scale, Math.log)), y(place(lams.values, lam, (v) => v)) + high / 2];
    for (const c of [0, Math.floor((columns - 1) / 2), columns - 1]) {
      root.append(svg("text", { x: left + (c + 0.5) * wide, y: height - bottom + 12, "text-anchor": "middle" }, scales.values[c].toPrecision(1).replace("e-", "e−")));
    }
    for (const r of [0, Math.floor((rows - 1) / 2), rows - 1]) {
      root.append(svg("text", { x: left - 4, y: y(r) + high / 2 + 3, "text-anchor": "end" }, `${+lams.values[r].toPrecision(2)}`));
    }
    root.append(svg("text", { x: (SIZE + left) / 2, y: height - 4, "text-anchor": "middle" }, `${header.axes[0]}, blue: lazy, orange: rich`));
    root.append(svg("text", { x: 2, y: top + 10 }, header.axes[1]));
    this.marks = ["here", "here-inner"].map((kind) => svg("circle", { class: kind, r: 6, visibility: "hidden" }));
    root.append(...this.marks);
  }

  /** The present point, or none. */
  point(point) {
    if (!this.marks) return;
    for (const mark of this.marks) mark.setAttribute("visibility", point ? "visible" : "hidden");
    if (!point) return;
    const [cx, cy] = this.toPixel(point);
    for (const mark of this.marks) {
      mark.setAttribute("cx", cx);
      mark.setAttribute("cy", cy);
    }
  }
}

/** Where a value lies among rising ones, as a fractional index, on the scale of `of`; ends are ends. */
function place(values, value, of) {
  const last = values.length - 1;
  if (value <= values[0]) return 0;
  if (value >= values[last]) return last;
  const i = values.findIndex((v) => v > value) - 1;
  return i + (of(value) - of(values[i])) / (of(values[i + 1]) - of(values[i]));
}
