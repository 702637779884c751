// A page without a server: what it would say lies in the page itself, computed ahead for some values of the sliders.
// Between two of them nothing is made up: the nearest that there is counts, and the sliders go from one to the next.

const FAR = 1000; // a choice that differs, against one that lies apart
const SHIFT = 9; // bits of a single-precision number that were left out

/** Rises with a value as its slider does. */
const PLACE = { scale: Math.log10, nudge: (v) => Math.log10(v + 1e-9), lam: (v) => Math.asinh(20 * v), seed: (v) => v / 100 };

/** What `recording.py` has packed: text → its JSON, whose arrays are read when they are asked for. */
export async function unpacked(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const size = new DataView(bytes.buffer).getUint32(0, true);
  const content = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  const planes = bytes.subarray(4 + size);
  const count = planes.length / 3;
  const whole = (i) => ((planes[i] | (planes[count + i] << 8) | (planes[2 * count + i] << 16)) << 8) >> 8;
  return { ...content, numbers: (arrays) => read(arrays, whole) };
}

/** Arrays as a message of the server has them; each row was packed as what it adds to the one before. */
function read(listed, whole) {
  const arrays = {};
  for (const [name, shape, unit, start] of listed) {
    const width = shape.slice(1).reduce((a, b) => a * b, 1);
    const values = new Int32Array(shape[0] * width);
    for (let i = 0; i < values.length; i += 1) values[i] = whole(start + i) + (i < width ? 0 : values[i - width]);
    const floats = unit === null ? new Float32Array(values.map((v) => v << SHIFT).buffer) : Float32Array.from(values, (v) => unit * v);
    arrays[name] = { shape, values: floats };
  }
  return arrays;
}

export class Recording {
  constructor(content, receive) {
    Object.assign(this, { content, receive, id: 0, waiting: null, since: 0, last: null });
    const { defaults } = content.hello;
    this.states = content.views.map(({ state }) => ({ ...defaults, ...state }));
    const names = Object.keys(PLACE).filter((name) => new Set(this.states.map((state) => state[name])).size > 1);
    content.hello.controls = content.hello.controls
      .filter(({ name }) => names.includes(name))
      .map((control) => ({ ...control, kind: "recorded", values: (state) => this.values(control.name, state) }));
  }

  /** Those of one choice that there are, all others being as they are. */
  values(name, state) {
    const others = this.states.filter((one) => apart(one, state, name) === 0);
    return [...new Set(others.map((one) => one[name]))].sort((a, b) => a - b);
  }

  /** The nearest state that there is. */
  nearest(state) {
    const distances = this.states.map((one) => apart(one, state));
    return this.states[distances.indexOf(Math.min(...distances))];
  }

  /** As a server answers, but for descent; the picture of the phases comes with all else. */
  ask(state, phase, since = performance.now()) {
    const place = this.states.findIndex((one) => apart(one, state) === 0);
    if (phase && place === this.last) return;
    Object.assign(this, { id: this.id + 1, since, last: place });
    const { id, content } = this;
    queueMicrotask(() => {
      const { view, captions, weights, phase: picture } = content.views[place];
      const send = ({ header, arrays }, more = {}) => this.receive({ ...header, id }, { ...content.numbers(arrays), ...more });
      const layers = content.numbers(weights.arrays);
      send(view, weights.header.layers ? products(layers, weights.header.layers) : {});
      this.receive({ ...captions, id }, {});
      this.receive({ ...weights.header, id }, layers);
      this.receive({ ...picture.header, id }, content.numbers(content.pictures[picture.header.key] ?? []));
    });
  }
}

/** How far two states are from each other, but for one choice. */
function apart(one, other, but = "") {
  let sum = 0;
  for (const name in one) {
    if (name === but || one[name] === other[name]) continue;
    if (name in PLACE) sum += Math.abs(PLACE[name](one[name]) - PLACE[name](other[name]));
    else if (JSON.stringify(one[name]) !== JSON.stringify(other[name])) sum += FAR;
  }
  return sum;
}

/** What follows from the layers: the function, and QQᵀ of two layers or W1ᵀW1 of others. */
function products(arrays, count) {
  const layers = Array.from({ length: count }, (_, l) => arrays[`W${l + 1}`]);
  const first = layers[0];
  const [frames, , inputs] = first.shape;
  let whole = first;
  for (const layer of layers.slice(1)) whole = multiplied(layer, whole);
  if (count !== 2) return { function: whole, inner: multiplied(turned(first), first) };
  const outputs = layers[1].shape[1];
  const Q = { shape: [frames, inputs + outputs, first.shape[1]], values: new Float32Array(frames * (inputs + outputs) * first.shape[1]) };
  const across = turned(first);
  const [upper, lower] = [inputs * first.shape[1], outputs * first.shape[1]];
  for (let t = 0; t < frames; t += 1) {
    Q.values.set(across.values.subarray(t * upper, (t + 1) * upper), t * (upper + lower));
    Q.values.set(layers[1].values.subarray(t * lower, (t + 1) * lower), t * (upper + lower) + upper);
  }
  return { function: whole, gram: multiplied(Q, turned(Q)) };
}

function multiplied(A, B) {
  const [frames, rows, inner] = A.shape;
  const columns = B.shape[2];
  const values = new Float32Array(frames * rows * columns);
  for (let t = 0; t < frames; t += 1) {
    for (let i = 0; i < rows; i += 1) {
      for (let j = 0; j < columns; j += 1) {
        let sum = 0;
        for (let k = 0; k < inner; k += 1) sum += A.values[(t * rows + i) * inner + k] * B.values[(t * inner + k) * columns + j];
        values[(t * rows + i) * columns + j] = sum;
      }
    }
  }
  return { shape: [frames, rows, columns], values };
}

function turned({ shape: [frames, rows, columns], values }) {
  const made = new Float32Array(values.length);
  for (let t = 0; t < frames; t += 1) {
    for (let i = 0; i < rows; i += 1) {
      for (let j = 0; j < columns; j += 1) made[(t * columns + j) * rows + i] = values[(t * rows + i) * columns + j];
    }
  }
  return { shape: [frames, columns, rows], values: made };
}
