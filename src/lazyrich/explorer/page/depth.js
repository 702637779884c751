// More layers, or fewer: the weights are rescaled so that the plateau before the first mode lasts as long as before, and
// nobody waits for what cannot be drawn. (The same weights in one layer more would wait fifty times as long.) Of many
// layers only those aligned with the task have a closed form, so balanced weights become aligned ones.

const PER_LAYER = ["zero_balanced", "lambda_balanced", "gaussian", "orthogonal"]; // `scale` is of each layer
const BALANCED = ["zero_balanced", "lambda_balanced"];
const TYPICAL = 5; // strength of a mode over scale^L, of random weights as wide as the tasks here
const [LEAST, MOST] = [1e-6, 10];

/** Time until a mode of unit pull has grown from a0, over L balanced layers. */
function wait(a0, L) {
  return L === 2 ? -Math.log(a0) / 2 : (a0 ** (2 / L - 1) - 1) / (L - 2);
}

function strengthFor(time, L) {
  return L === 2 ? Math.exp(-2 * time) : (1 + (L - 2) * time) ** (1 / (2 / L - 1));
}

/** The changes that go with another number of layers. */
export function withDepth(state, depth) {
  const from = state.depth;
  const start = depth > 2 && BALANCED.includes(state.start) ? "aligned" : state.start;
  const perLayer = (name) => PER_LAYER.includes(name);
  if (from < 2 || depth < 2 || (!perLayer(start) && start !== "aligned")) return { depth, start };
  const a0 = perLayer(state.start) ? TYPICAL * state.scale ** from : state.scale;
  if (a0 >= 1) return { depth, start }; // there is no plateau
  const after = strengthFor(wait(a0, from), depth);
  const scale = perLayer(start) ? (after / TYPICAL) ** (1 / depth) : after;
  return { depth, start, scale: +Math.min(MOST, Math.max(LEAST, scale)).toPrecision(3) };
}
