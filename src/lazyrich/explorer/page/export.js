// What a user takes away: the figure (made here), data and Python code (made by the server from the same state).

import { colour } from "./colours.js";

export function save(blob, name) {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(blob);
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}

/** Data or code of a state; a sentence where there is none. */
export async function file(kind, state) {
  try {
    const answer = await fetch(`/export/${kind}`, { method: "POST", body: JSON.stringify(state), headers: { "Content-Type": "application/json" } });
    if (!answer.ok) return await refusal(answer);
    save(await answer.blob(), `lazyrich-view.${kind}`);
    return null;
  } catch {
    return "The server does not answer: nothing was taken away.";
  }
}

async function refusal(answer) {
  const told = await answer.json().catch(() => null); // what stands between us and the server may speak no JSON
  return told?.sentence ?? `The server answers with status ${answer.status}: nothing was taken away.`;
}

/** The curves with the panels under them, as one SVG, or that SVG painted as a PNG. */
export async function figure(kind, plot, panels, title) {
  const picture = compose(plot, panels, title);
  const source = new Blob([picture.text], { type: "image/svg+xml" });
  if (kind === "svg") return save(source, "lazyrich-view.svg");
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(picture.text)}`;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: 2 * picture.width, height: 2 * picture.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => save(blob, "lazyrich-view.png"));
}

const FONT = "system-ui, DejaVu Sans, sans-serif";
const EDGE = 12;
const GAP = 20;
const PANEL = { least: 150, most: 320 }; // sides

/** From top to bottom: the sentence, the curves, rows of panels, where they come from. The curves give the width. */
function compose(plot, panels, title) {
  const { clientWidth: width, clientHeight: plotHeight } = plot;
  const drawn = styled(plot.querySelector("svg"));
  const head = paragraph(title, EDGE, EDGE, width - 2 * EDGE, { size: 15, weight: 600, shade: colour("ink") });
  const plotTop = EDGE + head.height + GAP;
  const rows = inRows(panels, plotTop + plotHeight + GAP, width);
  const foot = paragraph(origin(), EDGE, rows.bottom, width - 2 * EDGE);
  const height = Math.ceil(rows.bottom + foot.height + EDGE);
  const over = besides(plot, plotTop);
  const parts = [`<rect width="${width}" height="${height}" fill="${colour("paper")}"/>`, head.text, nested(drawn, 0, plotTop, width, plotHeight), over, rows.text, foot.text];
  const text = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${FONT}">${parts.join("")}</svg>`;
  return { text, width, height };
}

/** Sizes and tasks, theory or gradient descent, and the time of the panels. */
function origin() {
  const [sizes, source, time] = ["told", "legend", "time-out"].map((id) => document.getElementById(id).textContent);
  return [sizes, source, `panels at ${time}`].filter(Boolean).join(" · ");
}

/** What the page lays over the curves, where it lies there: titles, the key with its colours, the cursor. */
function besides(plot, top) {
  const frame = plot.parentElement;
  const corner = plot.getBoundingClientRect();
  const place = (box) => new DOMRect(box.x - corner.x, box.y - corner.y + top, box.width, box.height);
  const bar = (node, fill) => rectangle(place(node.getBoundingClientRect()), fill);
  const label = (node, owner = node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    const { x, y, width } = place(range.getBoundingClientRect());
    if (width === 0) return ""; // hidden
    return paragraph(node.textContent, x, y, width + 1, { size: parseFloat(getComputedStyle(owner).fontSize) }).text;
  };
  return [
    bar(frame.querySelector("#cursor-line"), colour("blue")),
    ...[...frame.querySelectorAll(".title")].map((node) => label(node)),
    ...[...frame.querySelectorAll("#key i")].map((dash) => bar(dash, getComputedStyle(dash).color) + label(dash.nextSibling, dash.parentElement)),
  ].join("");
}

/** Panels in as few rows as the width allows, equally many in each but the last. */
function inRows(panels, top, width) {
  const fitting = Math.max(1, Math.floor((width - 2 * EDGE + GAP) / (PANEL.least + GAP)));
  const columns = Math.ceil(panels.length / Math.ceil(panels.length / fitting));
  const side = Math.min(PANEL.most, (width - 2 * EDGE + GAP) / columns - GAP);
  const left = (width + GAP - columns * (side + GAP)) / 2;
  const parts = [];
  let bottom = top;
  for (let first = 0; first < panels.length; first += columns) {
    const row = panels.slice(first, first + columns).map((panel, i) => drawing(panel, left + i * (side + GAP), bottom, side));
    parts.push(...row.map(({ text }) => text));
    bottom += GAP + Math.max(...row.map(({ height }) => height));
  }
  return { text: parts.join(""), bottom };
}

/** A panel under its name. */
function drawing({ name, node }, x, y, side) {
  const head = paragraph(name, x, y, side, { weight: 600 });
  const top = y + head.height + 4;
  const { text, height } = node.tagName === "CANVAS" ? matrix(node, x, top, side) : picture(node, x, top, side);
  return { text: head.text + text, height: top + height - y };
}

function picture(node, x, y, side) {
  const { width, height } = node.viewBox.baseVal;
  const high = (side * height) / width;
  return { text: nested(styled(node), x, y, side, high), height: high };
}

/** Text in as many lines as the width needs, from its upper left corner on. */
function paragraph(text, x, y, width, { size = 12, weight = 400, shade = colour("soft") } = {}) {
  const lines = wrapped(text, width, `${weight} ${size}px ${FONT}`);
  const step = 1.3 * size;
  const line = (words, i) => `<text x="${x.toFixed(1)}" y="${(y + size + i * step).toFixed(1)}" font-size="${size}" font-weight="${weight}" fill="${shade}">${escaped(words)}</text>`;
  return { text: lines.map(line).join(""), height: lines.length * step };
}

function wrapped(text, width, font) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = font;
  const lines = [];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && pen.measureText(longer).width <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

function rectangle({ x, y, width, height }, fill) {
  return `<rect x="${x.toFixed(2)}" y="${y.toFixed(2)}" width="${width.toFixed(2)}" height="${height.toFixed(2)}" fill="${fill}"/>`;
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

/** A matrix as squares, which stay sharp at any size, with the lines over it and its range under it. */
function matrix(canvas, x, y, side) {
  const { width, height } = canvas;
  const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  const step = side / Math.max(width, height);
  const [wide, high] = [width * step, height * step];
  const parts = [rectangle(new DOMRect(x - 1, y - 1, wide + 2, high + 2), colour("line"))]; // seen around it
  for (let i = 0; i < width * height; i += 1) {
    const [r, g, b] = pixels.slice(4 * i, 4 * i + 3);
    const square = new DOMRect(x + (i % width) * step, y + Math.floor(i / width) * step, step + 0.3, step + 0.3); // no seams
    parts.push(rectangle(square, `rgb(${r},${g},${b})`));
  }
  const box = canvas.getBoundingClientRect();
  for (const rule of canvas.parentElement.querySelectorAll(".rule:not([hidden])")) {
    const { left, top, width: thick, height: long } = rule.getBoundingClientRect();
    const [across, down] = [wide / box.width, high / box.height];
    parts.push(rectangle(new DOMRect(x + (left - box.left) * across, y + (top - box.top) * down, thick * across, long * down), colour("soft")));
  }
  const [least, most] = [...canvas.closest(".matrix").querySelectorAll(".scale span")].map((node) => node.textContent);
  const range = (at, anchor, text) => `<text x="${at.toFixed(1)}" y="${(y + high + 16).toFixed(1)}" font-size="12" text-anchor="${anchor}" fill="${colour("soft")}">${escaped(text)}</text>`;
  parts.push(range(x, "start", least), range(x + wide, "end", most));
  return { text: parts.join(""), height: high + GAP };
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
