// Puts the page together: the store says what is wanted, the link brings what it looks like, the panels draw it, and
// one cursor runs through all of them.

import { Controls, element } from "./controls.js";
import { Curves } from "./curves.js";
import { Link, onScreen } from "./link.js";
import { Matrix } from "./matrices.js";
import { Network } from "./network.js";
import { Neuron } from "./neuron.js";
import { Phase } from "./phase.js";
import { Player } from "./player.js";
import { Recording, unpacked } from "./recording.js";
import { Store } from "./state.js";
import { Stories } from "./stories.js";
import { Tree } from "./tree.js";
import { figure, file } from "./export.js";
import { complain, tellCaptions, tellView } from "./words.js";

const get = (id) => document.getElementById(id);
const PHASE_REST = 300; // ms without a change, before the phase picture is asked for
const MARKS_REST = 120; // ms without a change, before the predicted times are marked
const BALANCED = ["lambda_balanced", "aligned", "single_neuron"]; // those with a λ of their own
const WITHIN = ["scale", "lam", "horizon", "descent", "rate", "nudge"]; // choices that the phase picture does not depend on

const theme = () => {
  try {
    return localStorage.getItem("theme");
  } catch {
    return null; // private windows may have no storage
  }
};
document.documentElement.dataset.theme = theme() ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

const recorded = get("recording") && (await unpacked(get("recording").textContent));
const hello = recorded ? recorded.hello : await (await fetch("/hello")).json();
document.body.classList.toggle("recorded", Boolean(recorded));
const store = new Store(hello.defaults);
let [view, captions, descent, phase, pinned] = [null, null, null, null, null];
let [rest, marks] = [null, null];

// panels
let over = null; // the time under the pointer
const curves = new Curves(get("plot"), { line: get("cursor-line"), frame: get("plot-frame"), curtain: get("curtain") }, {
  move: (time) => moveTo(time),
  resized: () => curves.cursor(timeNow()),
  hovered: (time) => {
    over = time;
    read();
  },
});
const matrices = { function: new Matrix(get("function"), "The network function"), gram: new Matrix(get("gram"), "The Gram matrix QQᵀ") };
const tree = new Tree(get("points"), get("points-caption"));
const network = new Network(get("network"));
const neuron = new Neuron(get("neuron"));
const phases = new Phase(get("phase"), (scale, lam) => {
  store.set({ scale, lam, ...(BALANCED.includes(store.state.start) ? {} : { start: "lambda_balanced" }) });
});

// what is wanted
const link = recorded ? new Recording(recorded, receive) : new Link(receive, (lost) => {
  document.body.classList.toggle("lost", lost);
  if (lost) complain("The server does not answer: it may have been stopped. Trying again …");
  else complain(null);
});
if (recorded) store.admit = (state) => ({ ...link.nearest(state) });

const still = matchMedia("(prefers-reduced-motion: reduce)");
let toPlay = false; // once its first picture is there
const stories = new Stories(hello.stories, store, {
  entered: (step) => {
    player.play(false);
    pin(null);
    toPlay = !still.matches && !("cursor" in step.page);
  },
  answered: (reveal) => {
    const other = Object.keys(reveal).length > 0;
    if (other) pin(view);
    store.set({ ...reveal, cursor: other || still.matches ? 1 : store.page.cursor });
    if (view && !other) drawCurves();
    if (other) toPlay = !still.matches;
    else if (!still.matches) player.play(true);
  },
});
get("bibtex").textContent = hello.cite;
const player = new Player(get("play"), store, () => stories.seen);

store.onChange((names) => {
  const wanted = names.some((name) => name in store.state);
  if (wanted && store.state.task === "uploaded" && !store.state.data) {
    complain("Choose a file with your own data first: CSV or NPZ, under Task.");
  } else if (wanted) {
    document.body.classList.add("waiting");
    delete document.body.dataset.settled;
    link.ask(store.state, false);
    clearTimeout(rest);
    rest = setTimeout(() => link.ask(store.state, true), PHASE_REST);
    get("panel-network").classList.add("stale");
    if (names.some((name) => name in store.state && !WITHIN.includes(name))) get("panel-phase").classList.add("stale");
    pointOfPhase();
  }
  if (view && names.some((name) => name.startsWith("log"))) drawCurves();
  if (names.includes("cursor")) moved();
  get("log-loss").checked = store.page.logLoss;
  get("log-time").checked = store.page.logTime;
  get("with-descent").checked = store.state.descent;
  get("inputs").hidden = store.state.task !== "uploaded" || !store.state.data;
  for (const button of get("inputs").querySelectorAll("button")) {
    const { whiten, centre } = store.state;
    const on = { whiten, centre, "": !whiten && !centre }[button.dataset.inputs];
    button.setAttribute("aria-pressed", String(on));
  }
  if (store.page.cursor > stories.seen) store.set({ cursor: stories.seen });
  stories.tell();
  if (pinned && pinned.story !== store.page.story) pin(null); // they belong to the story that was told
  if (view && names.includes("step")) drawCurves();
});

// what comes
function receive(header, arrays) {
  if (header.kind === "error") {
    if (header.id !== null && (header.id !== link.id || link.waiting)) return; // of what has been changed since
    document.body.classList.remove("waiting");
    document.body.dataset.settled = "with an error";
    complain(header.sentence);
    return;
  }
  if (header.kind === "view") {
    view = { header, arrays };
    descent = null;
    complain(null);
    document.body.classList.toggle("waiting", header.id !== link.id || Boolean(link.waiting)); // for a newer one
    drawView();
    painted(header.id, link.since);
    if (toPlay && !link.waiting) {
      toPlay = false;
      store.set({ cursor: 0 });
      player.play(true);
    }
  } else if (header.id !== view?.header.id) {
    return; // of a picture that is gone
  } else if (header.kind === "captions") {
    captions = header;
    tellCaptions(header);
    clearTimeout(marks);
    marks = setTimeout(drawCurves, MARKS_REST);
  } else if (header.kind === "descent") {
    descent = { header, arrays };
    drawCurves();
  } else if (header.kind === "weights") {
    get("panel-network").classList.remove("stale");
    const layers = Array.from({ length: header.layers }, (_, l) => arrays[`W${l + 1}`]);
    if (layers.length) network.update({ times: arrays.times.values, layers, items: view.header.items });
    else network.without("Of this network QQᵀ is followed, and not each weight.");
    moved();
  } else if (header.kind === "phase") {
    phase = { header, arrays };
    phases.update(phase);
    get("panel-phase").classList.remove("stale");
    get("phase-caption").textContent = header.caption;
    pointOfPhase();
    document.body.dataset.settled = header.id; // the last stage
  }
}

/** Notes when the picture of a request was on the screen. */
function painted(id, since) {
  onScreen(() => {
    document.body.dataset.drawn = id;
    performance.measure("change to picture", { start: since, end: performance.now() });
  });
}

function drawView() {
  const { arrays } = view;
  captions = null;
  tellView(view, store.state);
  drawCurves();
  matrices.function.update(arrays.function);
  get("panel-gram").hidden = !arrays.gram;
  if (arrays.gram) matrices.gram.update(arrays.gram, view.header.sizes[0]);
  get("panel-points").hidden = Boolean(arrays.neuron) || view.header.items.length < 2; // one unit: parameter space shows it
  get("panel-neuron").hidden = !arrays.neuron;
  if (!get("panel-points").hidden) tree.update(arrays.gram ?? arrays.inner, view.header.items);
  if (arrays.neuron) neuron.update(view);
  controls.actual(view.header.sizes);
  moved();
}

function drawCurves() {
  clearTimeout(marks);
  curves.update({ view, captions, descent, pinned, marks: stories.marks, seen: stories.seen, hides: stories.hides }, store.page);
  curves.cursor(timeNow());
  showKey(curves.legend());
}

function showKey(entries) {
  const text = JSON.stringify(entries);
  if (get("key").dataset.shown === text) return;
  get("key").dataset.shown = text;
  const line = ([shade, words]) => {
    const dash = element("i");
    dash.style.color = shade;
    return element("span", {}, [dash, words]);
  };
  get("key").replaceChildren(...entries.map(line));
}

/** The point of the phase picture follows the sliders at once; those without a λ of their own lie at 0. */
function pointOfPhase() {
  const { start, scale, lam } = store.state;
  phases.point(phase?.header.point ? [scale, BALANCED.includes(start) ? lam : 0] : null);
}

// the cursor
function timeNow() {
  return curves.toTime(store.page.cursor);
}

function moveTo(time) {
  store.set({ cursor: Math.min(stories.seen, Math.max(0, curves.toShare(time))) });
}

function moved() {
  if (!view) return;
  const time = timeNow();
  const { times, frames } = view.arrays;
  const index = nearest(times.values, time);
  const frame = nearest(Array.from(frames.values, (i) => times.values[i]), time);
  if (recorded) get("drawn-at").textContent = `network, tree and matrices at t = ${times.values[frames.values[frame]].toPrecision(3)}, the nearest there is`;
  curves.cursor(time);
  matrices.function.draw(frame);
  if (view.arrays.gram) matrices.gram.draw(frame);
  if (!get("panel-points").hidden) tree.draw(frame);
  if (view.arrays.neuron) neuron.draw(index);
  if (network.ready) network.draw(nearest(network.times, time));
  read();
  const slider = get("time");
  if (Math.round(1000 * store.page.cursor) !== +slider.value) slider.value = Math.round(1000 * store.page.cursor);
  get("time-out").textContent = `t = ${time.toPrecision(3)}`;
  slider.setAttribute("aria-valuetext", `time ${time.toPrecision(3)}, loss ${view.arrays.loss.values[index * view.arrays.loss.shape[1]].toPrecision(3)}`);
}

/** The numbers under the pointer, or else at the cursor. */
function read() {
  if (view) get("readout").textContent = curves.reading(nearest(view.arrays.times.values, Math.min(over ?? timeNow(), curves.toTime(stories.seen))));
}

function nearest(times, time) {
  let [low, high] = [0, times.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low > 0 && time - times[low - 1] < times[low] - time ? low - 1 : low;
}

get("time").addEventListener("input", (event) => {
  if (player.playing) player.play(false);
  store.set({ cursor: Math.min(stories.seen, event.target.value / 1000) });
});

// axes, presets, export
get("log-loss").addEventListener("change", (event) => store.set({ logLoss: event.target.checked }));
get("log-time").addEventListener("change", (event) => store.set({ logTime: event.target.checked }));
get("with-descent").addEventListener("change", (event) => store.set({ descent: event.target.checked }));

for (const button of get("inputs").querySelectorAll("button")) {
  const name = button.dataset.inputs;
  button.addEventListener("click", () => store.set(name ? { [name]: !store.state[name] } : { whiten: false, centre: false }));
}

/** Keeps the curves that are there, so that others can be compared with them. */
function pin(what) {
  pinned = what && { ...what, story: store.page.story, words: stories.story ? "before" : "pinned" };
  get("pin").setAttribute("aria-pressed", String(Boolean(pinned)));
  if (view) drawCurves();
}
get("pin").addEventListener("click", () => pin(pinned ? null : view));

get("link").addEventListener("click", async () => {
  history.replaceState(null, "", store.address());
  try {
    await navigator.clipboard.writeText(location.href);
    get("link").textContent = "Copied";
  } catch {
    get("link").textContent = "It is in the address bar"; // no clipboard without permission
  }
  setTimeout(() => (get("link").textContent = "Copy link"), 1500);
});

for (const button of document.querySelectorAll("[data-file]")) {
  button.addEventListener("click", async () => {
    get("export").open = false;
    complain(await file(button.dataset.file, store.state));
  });
}
for (const button of document.querySelectorAll("[data-figure]")) {
  button.addEventListener("click", () => {
    get("export").open = false;
    const shown = [...document.querySelectorAll(".panel:not([hidden])")]
      .map((panel) => ({ name: panel.querySelector("h2").textContent, node: panel.querySelector("canvas, svg") }))
      .filter(({ node }) => node);
    figure(button.dataset.figure, get("plot"), shown, get("sentence").textContent);
  });
}

async function upload(chosen) {
  if (chosen.size > hello.most_upload) return `The file must be at most ${(hello.most_upload / 2 ** 20).toFixed(0)} MiB.`;
  const answer = await fetch(`/upload?name=${encodeURIComponent(chosen.name)}`, { method: "POST", body: chosen });
  const told = await answer.json();
  if (answer.ok) store.set(told.state);
  return told.sentence;
}

get("theme").addEventListener("click", () => {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("theme", next);
  } catch {
    // it lasts until the page is left
  }
  const told = captions; // a new view has none yet; this one is only painted anew
  if (view) drawView();
  captions = told;
  if (view) drawCurves();
  if (phase) phases.update(phase);
  network.repaint();
  pointOfPhase();
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") for (const menu of document.querySelectorAll(".menu")) menu.open = false;
  const typing = event.target.closest("input:not([type=checkbox], [type=range]), select, textarea");
  if (event.ctrlKey || event.metaKey || event.altKey || typing) return;
  if (event.key === " " && !event.target.closest("button, summary, a, [type=checkbox]")) {
    event.preventDefault();
    player.play(!player.playing);
  }
  if (/^[1-9]$/.test(event.key) && !event.target.closest("#controls")) stories.buttons[+event.key - 1]?.click();
  const way = { ArrowRight: 1, ArrowLeft: -1, PageDown: 1, PageUp: -1 }[event.key];
  if (!way || event.target.closest("[type=range]")) return;
  if (stories.story && !event.shiftKey) {
    event.preventDefault(); // a page that is turned is not scrolled
    stories.turn(way);
  } else if (event.key.startsWith("Arrow")) {
    store.set({ cursor: Math.min(stories.seen, Math.max(0, store.page.cursor + 0.01 * way)) });
  }
});

const controls = new Controls(get("controls"), hello.controls, store, upload);
addEventListener("hashchange", () => store.restore(location.hash));
if (location.hash.length < 2 || (recorded && !/[#&](story|scale|lam|seed)=/.test(location.hash))) stories.open(hello.stories[0].name);
else {
  toPlay = !still.matches && !/[#&]cursor=/.test(location.hash);
  store.restore(location.hash);
}
