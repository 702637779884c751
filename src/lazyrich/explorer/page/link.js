// The connection to the server: the latest request counts. A new request is sent as soon as the last one's picture is on
// the screen, or after a moment without it; what was asked in between is forgotten. (Sent earlier, while a picture is
// being drawn, requests would give more pictures a second, but each of them older.)

const PATIENCE = 150; // ms for a picture, before the next request is sent all the same
const LATER = 1013; // why a connection is closed: there is no room
const AGAIN = [250, 500, 1000, 2000, 4000]; // ms before the server is called again

export class Link {
  constructor(receive, lost) {
    Object.assign(this, { receive, lost, id: 0, waiting: null, sentAt: 0, pending: false, timer: null, tries: 0 });
    this.open();
  }

  open() {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    this.socket = new WebSocket(`${scheme}://${location.host}/live`);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => {
      this.tries = 0;
      this.pending = false;
      this.lost(false);
      this.flush();
    };
    this.socket.onmessage = ({ data }) => {
      const { header, arrays } = decode(data);
      this.receive(header, arrays);
      if (header.id === this.id || header.id === null) {
        if (header.kind === "view") onScreen(() => this.answered(header.id));
        if (header.kind === "error") this.answered(header.id ?? this.id);
      }
    };
    this.socket.onclose = ({ code }) => {
      if (code === LATER && this.tries === 0) { // another page has our place: until the next request
        this.last = null;
        this.parked = true;
        return;
      }
      this.lost(true);
      this.waiting ??= this.last;
      setTimeout(() => this.open(), AGAIN[Math.min(this.tries++, AGAIN.length - 1)]);
    };
  }

  /** Asks for a picture of this state; `since` is when the user asked. */
  ask(state, phase, since = performance.now()) {
    if (this.parked) this.open();
    this.parked = false;
    this.waiting = { state: { ...state }, phase, since };
    this.flush();
  }

  answered(id) {
    if (id === this.id) this.pending = false;
    this.flush();
  }

  flush() {
    clearTimeout(this.timer);
    if (!this.waiting || this.socket.readyState !== WebSocket.OPEN) return;
    const age = performance.now() - this.sentAt;
    if (this.pending && age < PATIENCE) {
      this.timer = setTimeout(() => this.flush(), PATIENCE - age);
      return;
    }
    this.last = this.waiting;
    this.waiting = null;
    this.id += 1;
    this.since = this.last.since;
    this.pending = true;
    this.sentAt = performance.now();
    this.socket.send(JSON.stringify({ id: this.id, state: this.last.state, phase: this.last.phase }));
  }
}

/** Calls back after the browser has painted what was just drawn. */
export function onScreen(call) {
  requestAnimationFrame(() => setTimeout(call));
}

/** A message of wire.py: a JSON header, and float32 arrays read where they lie. */
function decode(buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  const arrays = {};
  let place = 4 + size;
  for (const [name, shape] of header.arrays) {
    const count = shape.reduce((a, b) => a * b, 1);
    arrays[name] = { shape, values: new Float32Array(buffer, place, count) };
    place += 4 * count;
  }
  return { header, arrays };
}
