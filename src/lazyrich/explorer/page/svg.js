// What the pictures in SVG share. They are drawn in the pixels of their place, so that text has the size it says, and
// drawn again when the place changes its size.

export function svg(tag, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}

export function polyline(points) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

/** A picture in a place of its own; `paint(root, width, height)` draws it all. */
export class Picture {
  constructor(place) {
    Object.assign(this, { place, width: 0, height: 0 }); // asking the browser each time would make it lay out the page
    new ResizeObserver(([{ contentRect }]) => {
      Object.assign(this, { width: contentRect.width, height: contentRect.height });
      this.repaint();
    }).observe(place);
  }

  repaint() {
    const { width, height } = this;
    if (!this.ready || width < 40 || height < 40) return;
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
    this.place.replaceChildren(root);
    this.paint(root, width, height);
  }
}

/** Where a value lies among rising ones, as a fractional index, on the scale of `of`; ends are ends. */
export function placeAmong(values, value, of) {
  const last = values.length - 1;
  if (value <= values[0]) return 0;
  if (value >= values[last]) return last;
  const i = values.findIndex((v) => v > value) - 1;
  return i + (of(value) - of(values[i])) / (of(values[i + 1]) - of(values[i]));
}
