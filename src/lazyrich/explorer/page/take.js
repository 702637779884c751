// What a user takes away: the figure (made here), data and Python code (made by the server from the same state).

import { colour } from "./colours.js";

export function save(blob, name) {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(blob);
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}

/** Data or code of a state; a sentence where the server refuses. */
export async function file(kind, state) {
  const answer = await fetch(`/take/${kind}`, { method: "POST", body: JSON.stringify(state), headers: { "Content-Type": "application/json" } });
  if (!answer.ok) return (await answer.json()).sentence;
  save(await answer.blob(), `lazyrich-view.${kind}`);
  return null;
}

/** The curves with the panels under them, as one SVG, or that SVG painted as a PNG. */
export async function figure(kind, plot, panels, title) {
  const picture = await compose(plot, panels, title);
  const source = new Blob([picture.text], { type: "image/svg+xml" });
  if (kind === "svg") return save(source, "lazyrich-view.svg");
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(picture.text)}`;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: 2 * picture.width, height: 2 * picture.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => save(blob, "lazyrich-view.png"));
}

const GAP = 20;
const PANEL = 240;

async function compose(plot, panels, title) {
  const [width, plotHeight] = [Math.max(plot.clientWidth, panels.length * (PANEL + GAP)), plot.clientHeight];
  const height = plotHeight + PANEL + 80;
  const curves = decodeURIComponent((await Plotly.toImage(plot, { format: "svg", width: plot.clientWidth, height: plotHeight })).replace(/^data:image\/svg\+xml,/, ""));
  const parts = [
    `<rect width="${width}" height="${height}" fill="${colour("paper")}"/>`,
    `<text x="12" y="24" font-size="15" font-weight="600" fill="${colour("ink")}" font-family="sans-serif">${escaped(title)}</text>`,
    nested(curves, 0, 34, plot.clientWidth, plotHeight),
  ];
  panels.forEach(({ name, node }, i) => {
    const x = 12 + i * (PANEL + GAP);
    const y = plotHeight + 62;
    parts.push(`<text x="${x}" y="${y - 8}" font-size="12" fill="${colour("soft")}" font-family="sans-serif">${escaped(name)}</text>`);
    parts.push(node.tagName === "CANVAS" ? enlarged(node, x, y) : nested(styled(node), x, y, PANEL, PANEL));
  });
  const text = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">${parts.join("")}</svg>`;
  return { text, width, height };
}

function escaped(text) {
  return text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

/** An SVG at a place in another one. */
function nested(text, x, y, width, height) {
  return text.replace(/^[\s\S]*?<svg/, `<svg x="${x}" y="${y}"`).replace(/<svg([^>]*?)>/, (_, attributes) => {
    const box = /viewBox=/.test(attributes) ? "" : ` viewBox="0 0 ${width} ${height}"`;
    return `<svg${attributes.replace(/\s(width|height)="[^"]*"/g, "")} width="${width}" height="${height}"${box}>`;
  });
}

/** A matrix as squares, which stay sharp at any size. */
function enlarged(canvas, x, y) {
  const { width, height } = canvas;
  const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  const side = PANEL / Math.max(width, height);
  const squares = [];
  for (let i = 0; i < width * height; i += 1) {
    const [r, g, b] = pixels.slice(4 * i, 4 * i + 3);
    squares.push(`<rect x="${(x + (i % width) * side).toFixed(2)}" y="${(y + Math.floor(i / width) * side).toFixed(2)}" width="${(side + 0.3).toFixed(2)}" height="${(side + 0.3).toFixed(2)}" fill="rgb(${r},${g},${b})"/>`);
  }
  return squares.join("");
}

const COPIED = ["fill", "stroke", "stroke-width", "stroke-opacity", "fill-opacity", "font-size", "font-weight", "text-anchor", "visibility"];

/** A copy with the colours that style sheets give it written into it. */
function styled(root) {
  const copy = root.cloneNode(true);
  const originals = [root, ...root.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((node, i) => {
    const style = getComputedStyle(originals[i]);
    for (const name of COPIED) node.setAttribute(name, style.getPropertyValue(name));
    node.removeAttribute("class");
  });
  return new XMLSerializer().serializeToString(copy);
}
