// How far apart the hidden layer holds the inputs, as a tree: two branches join at the mean distance between what hangs
// on them (average linkage). Where the distances are those of a tree, as in a hierarchy that is learned, this is exact;
// elsewhere the picture says how far it is off. A plane has no room for the distances of more than three inputs.

import { colour, ramp } from "./colours.js";
import { Picture, svg } from "./svg.js";

const MOST_NAMES = 20; // more have no room
const NAMES = 62; // pixels for them
const AXIS = 30; // pixels under the tree

/** √(Gᵢᵢ + Gⱼⱼ − 2Gᵢⱼ) of the first `count` rows of one n × n Gram matrix. */
export function distances(values, offset, n, count) {
  const g = (i, j) => values[offset + i * n + j];
  return Array.from({ length: count }, (_, i) => Array.from({ length: count }, (_, j) => Math.sqrt(Math.max(0, g(i, i) + g(j, j) - g(i, j) - g(j, i)))));
}

/** The tree: leaves are numbers; a branch has two parts, a height, and its leaves in the order of `rank`. */
export function linked(apart, rank) {
  let groups = apart.map((_, i) => ({ leaves: [i], height: 0 }));
  const between = (a, b) => {
    let sum = 0;
    for (const i of a.leaves) for (const j of b.leaves) sum += apart[i][j];
    return sum / (a.leaves.length * b.leaves.length);
  };
  const first = ({ leaves }) => leaves.reduce((sum, i) => sum + rank[i], 0) / leaves.length;
  while (groups.length > 1) {
    let best = { height: Infinity };
    for (let i = 0; i < groups.length; i += 1) {
      for (let j = 0; j < i; j += 1) {
        const height = between(groups[i], groups[j]);
        if (height < best.height) best = { height, i, j };
      }
    }
    const parts = [groups[best.i], groups[best.j]].sort((a, b) => first(a) - first(b));
    const joined = { parts, height: best.height, leaves: parts.flatMap(({ leaves }) => leaves) };
    groups = [...groups.filter((_, i) => i !== best.i && i !== best.j), joined];
  }
  return groups[0];
}

/** The largest difference between a distance and the height at which its two inputs join. */
export function misfit(apart, { parts, height }) {
  if (!parts) return 0;
  const [a, b] = parts;
  const here = Math.max(...a.leaves.flatMap((i) => b.leaves.map((j) => Math.abs(apart[i][j] - height))));
  return Math.max(here, misfit(apart, a), misfit(apart, b));
}

export class Tree extends Picture {
  constructor(place, caption) {
    super(place);
    Object.assign(this, { caption, frame: 0 });
  }

  /** `gram`: (T, n, n), of which the first rows belong to the inputs; `items`: their names. */
  update(gram, items) {
    const [frames, n] = gram.shape;
    const count = items.length;
    Object.assign(this, { gram, items, n, ready: true, drawn: null });
    this.at = (frame) => distances(gram.values, frame * n * n, n, count);
    this.most = 1e-12;
    for (let frame = 0; frame < frames; frame += 1) {
      for (let i = 0; i < count; i += 1) {
        for (let j = 0; j < i; j += 1) {
          const g = (a, b) => gram.values[(frame * n + a) * n + b];
          this.most = Math.max(this.most, Math.sqrt(Math.max(0, g(i, i) + g(j, j) - 2 * g(i, j))));
        }
      }
    }
    const last = linked(this.at(frames - 1), items.map((_, i) => i)).leaves;
    this.rank = items.map((_, i) => last.indexOf(i)); // leaves stay where the last tree has them, if they can
    this.frame = Math.min(this.frame, frames - 1);
  }

  draw(frame) {
    this.frame = frame;
    this.repaint();
  }

  paint(root, width, height) {
    const apart = this.at(this.frame);
    const tree = linked(apart, this.rank);
    const count = this.items.length;
    const names = count <= MOST_NAMES ? NAMES : 8;
    const step = (height - AXIS) / count;
    const unit = (width - names - 10) / this.most;
    const x = (distance) => names + unit * distance;
    const y = (i) => (tree.leaves.indexOf(i) + 0.5) * step;
    const shades = ramp(count);
    this.ticks(root, x, height - AXIS);
    const lines = (branch) => {
      if (!branch.parts) return y(branch.leaves[0]);
      const [a, b] = branch.parts.map((part) => [x(part.height), lines(part)]);
      const here = x(branch.height).toFixed(1);
      root.append(svg("path", { class: "branch", "data-height": branch.height, d: `M${a[0].toFixed(1)} ${a[1].toFixed(1)}H${here}V${b[1].toFixed(1)}H${b[0].toFixed(1)}` }));
      return (a[1] + b[1]) / 2;
    };
    lines(tree);
    tree.leaves.forEach((i) => {
      root.append(svg("circle", { cx: x(0), cy: y(i), r: Math.min(4, step / 3), fill: shades[this.rank[i]] }));
      if (count <= MOST_NAMES) root.append(svg("text", { class: "name", x: names - 7, y: y(i) + 4, "text-anchor": "end" }, this.items[i]));
    });
    const largest = Math.max(...apart.flat());
    const off = largest > 0 ? misfit(apart, tree) / largest : 0;
    if (this.caption) this.caption.textContent = `branches join at the distance between hidden representations${off > 0.01 ? `; a tree is off by up to ${(100 * off).toPrecision(2)} % of the largest` : ""}`;
    this.place.setAttribute("aria-label", `Distances between the hidden representations of ${count} inputs as a tree: ${told(tree, this.items)}`);
  }

  ticks(root, x, bottom) {
    const step = [1, 2, 5, 10].map((s) => s * 10 ** Math.floor(Math.log10(this.most / 3))).find((s) => this.most / s <= 5);
    for (let value = 0; value <= this.most; value += step) {
      root.append(svg("path", { class: "axis", d: `M${x(value).toFixed(1)} 0V${bottom}` }));
      root.append(svg("text", { x: x(value), y: bottom + 13, "text-anchor": "middle" }, `${+value.toPrecision(3)}`));
    }
    root.append(svg("text", { x: x(this.most / 2), y: bottom + 26, "text-anchor": "middle" }, "hidden distance"));
  }
}

function told({ parts, leaves, height }, items) {
  if (!parts || leaves.length > 8) return `${leaves.length} inputs`;
  const words = parts.map((part) => (part.parts ? `(${told(part, items)})` : items[part.leaves[0]]));
  return `${words.join(" and ")} at ${height.toPrecision(2)}`;
}
