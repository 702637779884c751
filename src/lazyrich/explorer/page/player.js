// Plays: moves the cursor on, as far as may be seen.

const LASTS = 6; // seconds from start to end

export class Player {
  /** `seen()` is the share of time up to which it plays. */
  constructor(button, store, seen) {
    Object.assign(this, { button, store, seen, frame: null });
    button.addEventListener("click", () => this.play(!this.playing));
  }

  get playing() {
    return this.frame !== null;
  }

  play(on) {
    cancelAnimationFrame(this.frame);
    this.frame = null;
    this.button.setAttribute("aria-pressed", String(on));
    this.button.setAttribute("aria-label", on ? "Pause" : "Play");
    this.button.textContent = on ? "❚❚" : "▶";
    if (!on) return;
    let before = performance.now();
    if (this.store.page.cursor >= this.seen()) this.store.set({ cursor: 0 });
    const step = (now) => {
      const cursor = Math.min(this.seen(), this.store.page.cursor + (now - before) / (1000 * LASTS));
      before = now;
      this.store.set({ cursor });
      if (cursor < this.seen()) this.frame = requestAnimationFrame(step);
      else this.play(false);
    };
    this.frame = requestAnimationFrame(step);
  }
}
