// a² − ‖w‖² = δ: the surface, the path of the single neuron on it, and the two minima. Drag it, or use the arrow keys,
// to turn it.

import { Picture, polyline, svg } from "./svg.js";

const TURN = 0.12; // of one press of a key

export class Neuron extends Picture {
  constructor(place) {
    super(place);
    Object.assign(this, { turn: 0.6, tilt: 0.35, now: 0 });
    place.tabIndex = 0;
    place.addEventListener("pointermove", (event) => {
      if (event.buttons !== 0) this.turned(event.movementX / 90, event.movementY / 120);
    });
    place.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-TURN, 0], ArrowRight: [TURN, 0], ArrowUp: [0, -TURN], ArrowDown: [0, TURN] }[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation(); // elsewhere arrows move time
      this.turned(...step);
    });
  }

  turned(by, tilted) {
    this.turn += by;
    this.tilt = Math.min(1.3, Math.max(-1.3, this.tilt + tilted));
    this.repaint();
  }

  update(view) {
    const { neuron } = view.arrays;
    const { balance: delta, neuron_target: target } = view.header;
    const w2 = (Math.sqrt(delta * delta + 4 * target * target) - delta) / 2; // ‖w‖² at the minima
    this.delta = delta;
    this.goals = [1, -1].map((sign) => [sign * Math.sqrt(w2), 0, sign * Math.sqrt(Math.max(0, w2 + delta))]);
    this.points = Array.from({ length: neuron.shape[0] }, (_, i) => Array.from(neuron.values.slice(3 * i, 3 * i + 3)));
    this.most = 1.25 * [...neuron.values, ...this.goals.flat()].reduce((m, v) => Math.max(m, Math.abs(v)), 1e-9);
    this.ready = true;
    const sheet = delta > 0 ? "two sheets" : delta < 0 ? "one sheet" : "a cone";
    this.repaint();
    this.place.setAttribute("aria-label", `The path of the single neuron on the hyperboloid a² − ‖w‖² = ${delta.toPrecision(3)}, ${sheet}; arrow keys turn it`);
  }

  /** From (w along, w across, a) to the picture. */
  toPixel([x, y, z]) {
    const [c, s] = [Math.cos(this.turn), Math.sin(this.turn)];
    const [across, deep] = [c * x + s * y, -s * x + c * y];
    const up = z * Math.cos(this.tilt) + deep * Math.sin(this.tilt);
    return [this.middle[0] + this.unit * across, this.middle[1] - this.unit * up];
  }

  paint(root, width, height) {
    this.middle = [width / 2, height / 2];
    this.unit = (0.46 * Math.min(width, height)) / (1.2 * this.most);
    const steps = Array.from({ length: 13 }, (_, i) => (i / 12) * this.most);
    const angles = Array.from({ length: 25 }, (_, i) => (i / 12) * Math.PI);
    const wire = (points) => root.append(svg("path", { class: "wire", d: polyline(points.map((point) => this.toPixel(point))) }));
    const least = this.delta < 0 ? Math.sqrt(-this.delta) : 0; // of ‖w‖
    const radii = steps.map((x) => Math.hypot(x, least)); // so that lines meet the waist
    const high = (w) => Math.sqrt(Math.max(0, w * w + this.delta));
    for (const sign of [1, -1]) {
      for (const w of radii) wire(angles.map((t) => [w * Math.cos(t), w * Math.sin(t), sign * high(w)]));
      for (const t of angles.filter((_, i) => i % 2 === 0)) wire(radii.map((w) => [w * Math.cos(t), w * Math.sin(t), sign * high(w)]));
    }
    root.append(svg("path", { class: "path", d: polyline(this.points.map((p) => this.toPixel(p))) }));
    for (const goal of this.goals) {
      const [cx, cy] = this.toPixel(goal);
      root.append(svg("circle", { class: "goal", cx, cy, r: 6 }));
    }
    const [x, y] = this.toPixel([0, 0, 0.95 * this.most]);
    root.append(svg("text", { x: x + 4, y }, "a"));
    const [u, v] = this.toPixel([1.12 * this.most, 0, 0]);
    root.append(svg("text", { x: Math.min(u, width - 2), y: v, "text-anchor": "end" }, "w along β*"));
    this.ball = svg("circle", { class: "now", r: 5.5 });
    root.append(this.ball);
    this.draw(this.now);
  }

  draw(index) {
    this.now = index;
    if (!this.ball) return;
    const [cx, cy] = this.toPixel(this.points[Math.min(index, this.points.length - 1)]);
    this.ball.setAttribute("cx", cx);
    this.ball.setAttribute("cy", cy);
  }
}
