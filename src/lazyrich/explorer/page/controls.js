// The controls, made from the server's list of choices: one labelled control each, in groups. Those that do not matter
// for the present choices are hidden.

import { withDepth } from "./depth.js";

const WORDS = {
  semantic_hierarchy: "semantic hierarchy", revised_kingdom: "revised kingdom", colour_hierarchy: "colour hierarchy",
  binary_tree: "binary tree", random_regression: "random regression", linear_teacher: "linear teacher",
  piecewise_teacher: "ReLU teacher", own: "my own matrix", uploaded: "my own data (CSV, NPZ)", reversal: "the same, reversed",
  another: "another one", zero_balanced: "zero-balanced", lambda_balanced: "λ-balanced", gaussian: "Gaussian",
  orthogonal: "orthogonal", aligned: "aligned with the task", single_neuron: "single neuron (δ)", prior: "knows a task already",
};

/** What a change of one choice changes with it. */
const TOGETHER = {
  depth: (depth, state) => withDepth(state, depth),
  lam: (lam, state) => ({ lam, ...(state.start === "zero_balanced" && lam !== 0 ? { start: "lambda_balanced" } : {}) }),
};

export class Controls {
  constructor(form, declared, store, upload) {
    this.declared = declared;
    this.store = store;
    this.shows = {}; // name → function(value) that shows it
    const groups = {};
    for (const control of declared) {
      if (!(control.group in groups)) {
        groups[control.group] = element("fieldset", {}, [element("legend", { textContent: control.group })]);
        form.append(groups[control.group]);
      }
      groups[control.group].append(this.make(control, upload));
    }
    const again = element("button", { type: "button", id: "reset", className: "live", textContent: "Start again" });
    again.addEventListener("click", () => store.reset());
    form.append(again);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("focusout", () => setTimeout(() => this.show())); // what was typed, as it was taken
    store.onChange((names) => {
      if (names.includes("width")) this.width = null;
      this.show();
    });
    this.show();
  }

  make(control, upload) {
    const box = element("div", { className: `control ${control.kind}`, title: control.help });
    box.dataset.name = control.name;
    const build = { choice, several, whole, log: slider, signed: slider, number, rates, text, hidden: file, flag, toggle: elsewhere, recorded }[control.kind];
    const changes = TOGETHER[control.name] ?? ((value) => ({ [control.name]: value }));
    this.shows[control.name] = build(box, control, (value) => this.store.set(changes(value, this.store.state)), upload);
    return box;
  }

  /** The sizes that the network has: λ may leave no room for as many hidden units as were asked for. */
  actual(sizes) {
    const width = sizes.length > 2 ? sizes[1] : null;
    if (width === this.width) return;
    this.width = width;
    this.shows.width?.(this.shown("width"), this.store.state);
  }

  shown(name) {
    const { state } = this.store;
    if (name === "width") return this.width ?? state.width;
    if (name === "lam" && state.start === "zero_balanced") return 0;
    return state[name];
  }

  show() {
    const { state } = this.store;
    for (const control of this.declared) {
      this.shows[control.name](this.shown(control.name), state);
      const matters = control.values ? control.values(state).length > 1 : Object.entries(control.when).every(([name, values]) => values.includes(String(state[name])));
      document.querySelector(`[data-name="${control.name}"]`).hidden = !matters;
    }
    for (const group of document.querySelectorAll("fieldset")) group.hidden = !group.querySelector(".control:not([hidden])");
  }
}

function elsewhere(box) {
  box.classList.add("elsewhere"); // beside the sentence, where it is missed
  return () => {};
}

export function element(tag, properties = {}, children = []) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function labelled(box, control, input) {
  input.id = `control-${control.name}`;
  box.append(element("label", { htmlFor: input.id, textContent: control.label }));
  return input;
}

function options(select, names) {
  select.append(...names.map((name) => element("option", { value: name, textContent: WORDS[name] ?? name })));
  return select;
}

/** Not while a user types into it: the text would change under the hand. */
function put(input, value) {
  if (document.activeElement !== input || input.type === "range") input.value = value;
}

function choice(box, control, set) {
  const input = options(labelled(box, control, element("select", { className: "wide" })), control.options);
  box.append(input);
  input.addEventListener("change", () => set(input.value));
  return (value) => (input.value = value);
}

function flag(box, control, set) {
  const input = element("input", { type: "checkbox" });
  box.append(input);
  labelled(box, control, input);
  input.addEventListener("change", () => set(input.checked));
  return (value) => (input.checked = value);
}

function typed(control, label = control.label) {
  const input = element("input", { type: "number", min: control.least, max: control.most, step: "any" });
  input.setAttribute("aria-label", `${label}, exactly`);
  return input;
}

function within(control, value) {
  return Math.min(control.most, Math.max(control.least, value));
}

function number(box, control, set) {
  const input = labelled(box, control, typed(control));
  input.removeAttribute("aria-label");
  box.append(input);
  input.addEventListener("input", () => input.value !== "" && Number.isFinite(+input.value) && set(within(control, +input.value)));
  return (value) => put(input, value);
}

function whole(box, control, set) {
  const range = labelled(box, control, element("input", { type: "range", min: control.least, max: control.most, step: 1, className: "wide" }));
  const exact = typed(control);
  exact.step = 1;
  box.append(exact, range);
  for (const input of [range, exact]) {
    input.addEventListener("input", () => input.value !== "" && set(Math.round(within(control, +input.value))));
  }
  return (value) => {
    put(range, value);
    put(exact, value);
  };
}

/** Positions 0 … 1000 of a slider: logarithmic, or a signed cube that is fine around zero. */
const SCALES = {
  log: {
    toValue: (x, { least, most }) => tidy(least * (most / least) ** x),
    toPlace: (v, { least, most }) => Math.log(v / least) / Math.log(most / least),
  },
  signed: {
    toValue: (x, { most }) => tidy(most * (2 * x - 1) ** 3),
    toPlace: (v, { most }) => (Math.cbrt(v / most) + 1) / 2,
  },
};

function tidy(value) {
  return +value.toPrecision(3);
}

function sliding(control, kind, label, set) {
  const range = element("input", { type: "range", min: 0, max: 1000, step: 1, className: "wide" });
  const exact = typed(control, label);
  const scale = SCALES[kind];
  range.addEventListener("input", () => set(scale.toValue(range.value / 1000, control)));
  exact.addEventListener("input", () => exact.value !== "" && Number.isFinite(+exact.value) && set(within(control, +exact.value)));
  const show = (value) => {
    put(exact, value);
    if (document.activeElement !== range || scale.toValue(range.value / 1000, control) !== value) {
      range.value = 1000 * scale.toPlace(value, control);
    }
    range.setAttribute("aria-valuetext", `${value}`);
  };
  return { range, exact, show };
}

function slider(box, control, set) {
  const { range, exact, show } = sliding(control, control.kind, control.label, set);
  labelled(box, control, range);
  box.append(exact, range);
  return show;
}

/** From one value that there is to the next. */
function recorded(box, control, set) {
  const range = labelled(box, control, element("input", { type: "range", min: 0, step: 1, className: "wide" }));
  const told = element("output");
  box.append(told, range);
  let values = [];
  range.addEventListener("input", () => set(values[+range.value]));
  return (value, state) => {
    values = control.values(state);
    range.max = Math.max(0, values.length - 1);
    range.value = values.indexOf(value);
    range.setAttribute("aria-valuetext", `${value}`);
    told.textContent = `${value}`.replace("-", "−");
  };
}

function rates(box, control, set) {
  const rows = element("div", { className: "several" });
  box.append(element("span", { textContent: control.label }), rows);
  let shows = [];
  let values = [];
  return (given, state) => {
    const layers = state.start === "single_neuron" ? 2 : state.depth;
    values = Array.from({ length: Math.min(layers, control.most_entries) }, (_, i) => given[i] ?? 1);
    if (shows.length !== values.length) {
      rows.replaceChildren();
      shows = values.map((_, i) => {
        const label = `Rate of layer ${i + 1}`;
        const change = (value) => set(values.with(i, value).every((v) => v === 1) ? [] : values.with(i, value));
        const { range, exact, show } = sliding(control, "log", label, change);
        range.setAttribute("aria-label", label);
        rows.append(element("div", { className: "row" }, [range, exact]));
        return show;
      });
    }
    values.forEach((value, i) => shows[i](value));
  };
}

function several(box, control, set) {
  const rows = element("div", { className: "several" });
  box.append(element("span", { textContent: control.label }), rows);
  let shown = null;
  return (given) => {
    if (JSON.stringify(given) === shown) return;
    shown = JSON.stringify(given);
    const places = given.length < control.most_entries ? [...given, ""] : given.slice(0, control.most_entries);
    rows.replaceChildren(...places.map((value, i) => {
      const select = options(element("select"), control.options);
      select.prepend(element("option", { value: "", textContent: "nothing more" }));
      select.value = value;
      select.setAttribute("aria-label", `Task ${i + 2}`);
      select.addEventListener("change", () => set(places.with(i, select.value).filter((name) => name)));
      return select;
    }));
  };
}

function text(box, control, set) {
  const input = labelled(box, control, element("textarea", { className: "wide", rows: 2, spellcheck: false, maxLength: 60_000 }));
  box.append(input);
  input.addEventListener("input", () => set(input.value));
  return (value) => put(input, value);
}

function file(box, control, set, upload) {
  const input = labelled(box, control, element("input", { type: "file", accept: ".csv,.npz", className: "wide" }));
  const told = element("span", { className: "small wide" });
  box.append(input, told);
  input.addEventListener("change", async () => {
    if (!input.files.length) return;
    told.textContent = "reading …";
    told.textContent = await upload(input.files[0]).catch(() => "The server does not answer: the file was not read.");
  });
  return () => {};
}
