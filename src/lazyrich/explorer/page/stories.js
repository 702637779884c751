// Stories: a step at a time, with a prediction to make before the figure shows what comes.

import { element } from "./controls.js";

const get = (id) => document.getElementById(id);

export class Stories {
  /** `entered(step)` is called when a step begins, `answered(reveal)` when its prediction has been made. */
  constructor(stories, store, { entered, answered }) {
    Object.assign(this, { stories, store, entered, answered, chosen: null, told: "" });
    this.buttons = stories.map((story, i) => {
      const button = element("button", { type: "button", textContent: story.title, title: `${story.title} (key ${i + 1})` });
      button.dataset.story = story.name;
      button.addEventListener("click", (event) => {
        this.open(story.name);
        if (event.detail) button.blur(); // after a mouse, the space bar plays
      });
      return button;
    });
    get("stories").append(...this.buttons);
    get("story-back").addEventListener("click", () => this.turn(-1));
    get("story-next").addEventListener("click", () => this.turn(1));
    get("story-close").addEventListener("click", () => store.set({ story: "", step: 0 }));
    get("lecture").addEventListener("click", () => this.lecture());
    document.addEventListener("fullscreenchange", () => {
      if (!document.fullscreenElement) document.body.classList.remove("lecture");
    });
  }

  get story() {
    return this.stories.find(({ name }) => name === this.store.page.story) ?? null;
  }

  get step() {
    return this.story?.steps[Math.min(this.store.page.step, this.story.steps.length - 1)] ?? null;
  }

  get question() {
    return this.step?.question ?? null;
  }

  /** The share of the axis of time that may be seen. */
  get seen() {
    return this.question && this.chosen === null ? this.question.seen : 1;
  }

  /** The panel that a question asks about, until it is answered. */
  get hides() {
    return this.question && this.chosen === null ? this.question.hides : "";
  }

  get marks() {
    return this.step?.marks ?? [];
  }

  open(name, number = 0) {
    const story = this.stories.find((one) => one.name === name);
    const step = story.steps[number];
    this.chosen = null;
    this.told = "";
    const page = { logTime: false, logLoss: false, ...story.page, ...step.page };
    const end = step.question ? step.question.seen : 1;
    this.store.reset({ ...story.state, ...step.state, cursor: end, ...page, story: name, step: number });
    this.entered(step);
  }

  /** To the next step, or the one before; from the last one nowhere. */
  turn(by) {
    if (!this.story) return;
    const number = this.store.page.step + by;
    if (number >= 0 && number < this.story.steps.length) this.open(this.story.name, number);
  }

  answer(choice) {
    this.chosen = choice;
    this.told = "";
    this.tell();
    this.answered(this.question.reveal);
  }

  /** The present step in its place; what is there already stays. */
  tell() {
    const { story, step, question } = this;
    this.buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.story === story?.name)));
    document.body.classList.toggle("telling", Boolean(story));
    document.body.classList.toggle("asking", this.seen < 1);
    get("story").hidden = !story;
    const now = JSON.stringify([story?.name, this.store.page.step, this.chosen]);
    if (now === this.told) return;
    this.told = now;
    for (const badge of document.querySelectorAll("h2 .badge")) badge.remove();
    if (!story) return;
    const number = this.store.page.step;
    get("story-title").textContent = story.title;
    get("story-count").textContent = `${number + 1} of ${story.steps.length}`;
    get("story-back").disabled = number === 0;
    get("story-next").disabled = number === story.steps.length - 1;
    get("story-text").replaceChildren(...typeset(step.text));
    get("story-tries").replaceChildren(...step.tries.map(({ words, state }) => {
      const button = element("button", { type: "button", textContent: words });
      button.addEventListener("click", () => this.store.set({ ...this.story.state, ...step.state, ...state }));
      return button;
    }));
    step.marks.forEach(({ panel }, k) => {
      get(`panel-${panel}`)?.querySelector("h2").append(badge(k));
    });
    get("story-question").hidden = !question;
    if (question) this.ask(question);
  }

  ask({ ask, options, right, answer }) {
    get("story-ask").replaceChildren(...typeset(ask));
    get("story-options").replaceChildren(...options.map((words, i) => {
      const button = element("button", { type: "button", textContent: words, disabled: this.chosen !== null });
      if (this.chosen !== null) button.className = i === right ? "right" : i === this.chosen ? "wrong" : "";
      button.addEventListener("click", () => this.answer(i));
      return button;
    }));
    get("story-answer").replaceChildren(...(this.chosen === null ? [] : typeset(answer)));
  }

  /** Large type, and the whole screen where the browser gives it. */
  lecture() {
    const on = document.body.classList.toggle("lecture");
    if (on) document.documentElement.requestFullscreen?.().catch(() => {}); // a frame may not: large type all the same
    else if (document.fullscreenElement) document.exitFullscreen();
  }
}

function badge(k) {
  const made = element("span", { className: "badge", textContent: `${k + 1}` });
  made.dataset.mark = k;
  return made;
}

/** Words, formulas, and numbers that light up the mark they name. */
function typeset(parts) {
  return parts.map((part) => {
    if (typeof part === "string") return part;
    if (part.math) return document.importNode(new DOMParser().parseFromString(part.math, "application/xml").documentElement, true);
    const made = element("button", { type: "button", className: "badge", textContent: `${part.mark + 1}` });
    made.setAttribute("aria-label", `mark ${part.mark + 1} on the figure`);
    const light = (on) => document.querySelectorAll(`[data-mark="${part.mark}"]`).forEach((node) => node.classList.toggle("lit", on));
    for (const [event, on] of [["pointerenter", true], ["focus", true], ["pointerleave", false], ["blur", false]]) made.addEventListener(event, () => light(on));
    return made;
  });
}
