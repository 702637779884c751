// The state of the view on the page: what the controls say, and where the cursor is. Its address holds whatever
// differs from the defaults, as name=value with JSON values, behind the #: it never leaves the browser.

/** Choices that only the page knows: the cursor (a share of the time shown), the axes, and the step of which story. */
export const PAGE_DEFAULTS = { cursor: 1, logLoss: false, logTime: false, story: "", step: 0 };

export class Store {
  constructor(defaults) {
    this.defaults = defaults;
    this.state = { ...defaults };
    this.page = { ...PAGE_DEFAULTS };
    this.admit = (state) => state; // a page may not have every state
    this.listeners = [];
    this.later = null;
  }

  /** `listener(changes)` is called after every change, with the names that changed. */
  onChange(listener) {
    this.listeners.push(listener);
  }

  set(changes, { silent = false } = {}) {
    for (const [name, value] of Object.entries(changes)) {
      if (name in this.page) this.page[name] = value;
      else if (name in this.state) this.state[name] = value;
    }
    this.state = this.admit(this.state);
    clearTimeout(this.later);
    this.later = setTimeout(() => this.write(), 250); // browsers limit the rate
    if (!silent) for (const listener of this.listeners) listener(Object.keys(changes));
  }

  /** Into the address. Other choices are a step that the Back button undoes; another time or axis is none. */
  write() {
    const now = JSON.stringify(this.state);
    try {
      if (now === this.written) history.replaceState(null, "", this.address());
      else history.pushState(null, "", this.address());
    } catch {
      // in a frame without an address of its own
    }
    this.written = now;
  }

  /** Everything to its default but these; the axes stay as they are. */
  reset(changes = {}) {
    this.set({ ...this.defaults, cursor: 1, ...changes });
  }

  address() {
    const changed = new URLSearchParams();
    for (const [all, defaults] of [[this.state, this.defaults], [this.page, PAGE_DEFAULTS]]) {
      for (const [name, value] of Object.entries(all)) {
        if (JSON.stringify(value) !== JSON.stringify(defaults[name])) changed.set(name, JSON.stringify(value));
      }
    }
    const text = changed.toString();
    return text ? `#${text}` : location.pathname;
  }

  /** From an address; what cannot be read is left out, and the server checks the rest. */
  restore(hash) {
    const changes = { ...this.defaults, ...PAGE_DEFAULTS };
    for (const [name, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
      if (!(name in changes)) continue;
      try {
        const value = JSON.parse(text);
        if (typeof value === typeof changes[name] && Array.isArray(value) === Array.isArray(changes[name])) changes[name] = value;
      } catch {
        // not written by us
      }
    }
    changes.cursor = Math.min(1, Math.max(0, changes.cursor)) || 0;
    this.set(changes);
    this.written = JSON.stringify(this.state);
  }
}
