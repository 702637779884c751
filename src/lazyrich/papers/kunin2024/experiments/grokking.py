"""Grokking: a transformer fits its training pairs soon, and the rule behind them much later (Kunin et al., Fig. 5 D).

One layer learns x ∘ y = x·y mod p from half of all pairs, p = 97. Two manipulations, of which the paper says that an
unbalanced rich initialisation groks fastest: the embeddings are divided by α at the start (a LayerNorm follows, so that
the function stays as it is and smaller embeddings move faster; or, `through` "rates", they learn at α times the rate
of the rest), and the logits are multiplied by τ, with the rate
divided by τ². Recorded: when training and validation accuracy first reach 99 %.

The settings are those of the code that the authors name (teddykoker/grokking), with one layer instead of two:

- The sequence is x, ∘, y, =, with 0 ≤ x < p and 0 < y < p, and the answer is read at "=". The authors call the task
  division; what the code computes is the product, which is division read the other way (x·y = z says z/y = x).
- The block puts LayerNorm *before the residual*: h ← LN(h); h ← h + attention(h); h ← h + MLP(LN(h)).
- Initialisations are PyTorch's; Adam with β = (0.9, 0.98) and a linear warm-up over 10 updates; no weight decay.
- What is left of an epoch after its last whole batch waits for the next order (9 batches of 512, not 10).

With one layer the answer needs the last position's query, residual and MLP only, and "=" is the same in every sample.
So the query is one vector, and keys and values are tables over numbers, one at x's position and one at y's: the same
function as the whole causal transformer, at about a quarter of the arithmetic.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from lazyrich import InvalidInput, _check, _engines
from lazyrich._typing import Array
from lazyrich.papers.base.figure import Dataset
from lazyrich.papers.base.kind import Kind, Outcome, Report
from lazyrich.papers.base.types import JaxArray, Rows, Tick, Tree
from lazyrich.papers.kunin2024.experiments import loop
from lazyrich.sweeps.grid import Variable

ABOUT = "How many steps a transformer takes to grok modular arithmetic, for embeddings ÷ α and logits × τ."
UNIT = "step"

REACHED = 0.99  # the accuracy from which a set of pairs counts as learned
_GOAL = f"{100 * REACHED:g} %"
_BETAS = (0.9, 0.98)
_WARM_UP = 10  # updates
_WIDEN = 4  # hidden units of the MLP, in units of dim
_EPS = 1e-5  # of LayerNorm
_DATA, _WEIGHTS, _ORDER = range(3)  # streams of random numbers of one seed
_PARTS = ("train", "validation")
_UNSEEN = "Whether smaller embeddings grok sooner is not seen"


@dataclass(frozen=True)
class Settings:
    """One cell. The defaults are the published values; α and τ are 1 where nothing is manipulated."""

    seed: int
    alpha: float = 1.0  # the embeddings are divided by it at the start
    tau: float = 1.0  # multiplies the logits; the rate is divided by its square
    p: int = 97
    dim: int = 128
    heads: int = 4
    train_fraction: float = 0.5  # of the p (p − 1) pairs
    batch: int = 512
    rate: float = 1e-3
    weight_decay: float = 0.0  # decoupled, as in AdamW
    every: int = 10  # steps between two looks at both accuracies; each costs as much as six to eight steps
    through: str = "scales"  # what α does, see `loop`

    def __post_init__(self) -> None:
        _check.count("seed", self.seed, least=0, most=2**31 - 1)
        _check.choice("through", self.through, loop.THROUGH)
        for name in ("alpha", "tau", "rate"):
            _check.positive(name, getattr(self, name))
        _check.positive("weight_decay", self.weight_decay, or_zero=True)
        _check.count("p", self.p, least=3, most=1000)  # all pairs are held
        for name in ("dim", "heads", "every"):
            _check.count(name, getattr(self, name))
        if self.dim % self.heads:
            raise InvalidInput(f"dim must be a multiple of heads ({self.heads}), and it is {self.dim}.")
        if not 0 < _check.number("train_fraction", self.train_fraction) < 1 or not 0 < self.samples < self.all_pairs:
            raise InvalidInput(
                f"train_fraction must leave some of the {self.all_pairs:,} pairs on both sides,"
                f" and it is {self.train_fraction:g}."
            )
        _check.count("batch", self.batch, most=self.samples)

    @property
    def all_pairs(self) -> int:
        """Pairs (x, y) that there are."""
        return self.p * (self.p - 1)

    @property
    def samples(self) -> int:
        """Pairs to train on."""
        return round(self.train_fraction * self.all_pairs)


def variables(settings: Settings) -> dict[str, Variable]:
    """What is recorded at each step: accuracy and loss on both sets of pairs, and when each accuracy reached 99 %."""
    found = {}
    for part, words in zip(_PARTS, ("the training pairs", "the other pairs"), strict=True):
        found[f"{part}_accuracy"] = Variable((), (), f"accuracy on {words}", "")
        found[f"{part}_loss"] = Variable((), (), f"cross-entropy on {words}", "")
        found[f"steps_to_{part}"] = Variable((), (), f"first step with {_GOAL} accuracy on {words}", "steps")
    return found


def pairs(p: int, seed: int) -> Array:
    """All pairs x, y with 0 ≤ x < p and 0 < y < p, (p (p − 1), 2), in the order of the seed.

    >>> found = pairs(5, seed=0)
    >>> found.shape, len({tuple(pair) for pair in found.tolist()})
    ((20, 2), 20)
    """
    every = np.stack(np.meshgrid(np.arange(p), np.arange(1, p), indexing="ij"), axis=-1).reshape(-1, 2)
    return np.random.default_rng([seed, _DATA]).permutation(every.astype(np.int32))


class Affine(NamedTuple):
    """A matrix (in, out) or the scale of a LayerNorm, and what is added."""

    weight: JaxArray
    bias: JaxArray


class Transformer(NamedTuple):
    """The parameters. The fifth position of the authors' table is never seen, and is not here."""

    tokens: JaxArray  # (p + 2, dim): the numbers, "=" and "∘"
    positions: JaxArray  # (4, dim)
    norms: tuple[Affine, Affine, Affine]  # before the attention, before the MLP, before the head
    project: Affine  # to queries, keys and values, (dim, 3 dim)
    mix: Affine  # of the heads
    widen: Affine
    narrow: Affine
    head: JaxArray  # (dim, p + 2)


def initial_network(p: int, dim: int, alpha: float, seed: int) -> Transformer:
    """PyTorch's initialisation, with the embeddings divided by α. (Drawn here: to compile the draws takes seconds.)"""
    rng = np.random.default_rng([seed, _WEIGHTS])

    def normal(*shape: int) -> Array:
        return (rng.standard_normal(shape) / alpha).astype(np.float32)

    def uniform(bound: float, *shape: int) -> Array:
        return rng.uniform(-bound, bound, shape).astype(np.float32)

    def linear(n: int, m: int) -> Affine:
        return Affine(uniform(n**-0.5, n, m), uniform(n**-0.5, m))

    nothing = np.zeros(dim, np.float32)
    kept = Affine(np.ones(dim, np.float32), np.zeros(dim, np.float32))
    return Transformer(
        tokens=normal(p + 2, dim),
        positions=normal(4, dim),
        norms=(kept, kept, kept),
        project=Affine(uniform((6 / (4 * dim)) ** 0.5, dim, 3 * dim), np.tile(nothing, 3)),  # Xavier, of all three
        mix=Affine(uniform(dim**-0.5, dim, dim), nothing),
        widen=linear(dim, _WIDEN * dim),
        narrow=linear(_WIDEN * dim, dim),
        head=uniform(dim**-0.5, dim, p + 2),
    )


def logits(network: Transformer, samples: JaxArray, heads: int) -> JaxArray:
    """The answers (samples, p + 2) to pairs (samples, 2), read at "=" of x ∘ y =."""
    import jax
    from jax import numpy as jnp

    p, dim = network.tokens.shape[0] - 2, network.tokens.shape[1]
    x, y = jax.nn.one_hot(samples[:, 0], p), jax.nn.one_hot(samples[:, 1], p)
    numbers, equals, operation = network.tokens[:p], network.tokens[p], network.tokens[p + 1]
    first, second, third, fourth = network.positions
    seen = jnp.vstack([numbers + first, operation + second, numbers + third, equals + fourth])  # what can be where
    seen = _normalised(seen, network.norms[0])

    query, key, value = jnp.split(seen @ network.project.weight + network.project.bias, 3, axis=1)
    key = key.reshape(-1, heads, dim // heads)
    scores = jnp.einsum("hd,rhd->rh", query[-1].reshape(heads, -1), key) / (dim // heads) ** 0.5

    def at_each_position(table: JaxArray) -> JaxArray:
        """Rows of a table over what can be where → (4, samples, …)."""
        operation, equals = (jnp.broadcast_to(row, (len(samples), *row.shape)) for row in (table[p], table[-1]))
        return jnp.stack([x @ table[:p], operation, y @ table[p + 1 : -1], equals])

    attention = jax.nn.softmax(at_each_position(scores), axis=0)
    attended = attention[..., None] * at_each_position(value).reshape(4, -1, heads, dim // heads)
    h = seen[-1] + attended.sum(axis=0).reshape(-1, dim) @ network.mix.weight + network.mix.bias
    wide = _normalised(h, network.norms[1]) @ network.widen.weight + network.widen.bias
    h = h + jax.nn.gelu(wide, approximate=False) @ network.narrow.weight + network.narrow.bias
    return _normalised(h, network.norms[2]) @ network.head


def _normalised(h: JaxArray, norm: Affine) -> JaxArray:
    """LayerNorm."""
    from jax import lax

    centred = h - h.mean(axis=-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(axis=-1, keepdims=True) + _EPS) * norm.weight + norm.bias


class Member(NamedTuple):
    """What differs between the networks that train together."""

    seed: JaxArray
    tau: JaxArray
    rate: JaxArray
    weight_decay: JaxArray
    faster: JaxArray  # the embeddings than the rest
    network: Transformer  # at the start
    pairs: JaxArray  # those to train on first


class State(NamedTuple):
    """A network in training. Steps are whole numbers, −1 until they have come."""

    network: Transformer
    moments: Tree  # of Adam
    order: JaxArray  # of the training pairs, in this epoch
    reached: JaxArray  # (2,): the first step at which the accuracy on training pairs, and on the others, was 99 %


def train(cells: Sequence[Settings], at: tuple[int, ...], tick: Tick) -> list[Outcome]:
    """Train the cells of a block, those of the same shapes together."""
    jax = _engines.load("jax", "an experiment")

    def of_group(alike: tuple[int, ...], cells: list[Settings]) -> list[Outcome]:
        members = jax.tree.map(lambda *leaves: np.stack(leaves), *map(_member, cells))
        with jax.default_matmul_precision("float32"):  # a GPU would round the factors to ten bits
            outcomes = loop.train(_program(*alike[:-1]), None, members, at, tick)
        return [_with_records(outcome, at) for outcome in outcomes]

    return loop.in_groups(cells, _alike, of_group)


def _alike(cell: Settings) -> tuple[int, ...]:
    """What cells that train together share: what a program is made for, and the size of the network."""
    return cell.p, cell.heads, cell.samples, cell.batch, cell.every, cell.dim


def _with_records(outcome: Outcome, at: tuple[int, ...]) -> Outcome:
    """Records are looks too, and may come before the next look, or after the last one."""
    for part in _PARTS:
        steps, learned = outcome.values[f"steps_to_{part}"], outcome.values[f"{part}_accuracy"] >= REACHED
        if learned.any():
            first = int(learned.argmax())
            later = np.isfinite(outcome.values["train_accuracy"][first:])
            steps[first:] = np.where(later, np.fmin(steps[first:], at[first]), np.nan)
    return outcome


def _member(cell: Settings) -> Member:
    tau, rate, weight_decay = map(np.float32, (cell.tau, cell.rate, cell.weight_decay))
    scale, faster = (cell.alpha, 1.0) if cell.through == "scales" else (1.0, cell.alpha)
    network, speed = initial_network(cell.p, cell.dim, scale, cell.seed), np.float32(faster)
    return Member(np.int32(cell.seed), tau, rate, weight_decay, speed, network, pairs(cell.p, cell.seed))


@cache
def _program(p: int, heads: int, samples: int, batch: int, every: int) -> loop.Program:
    """How one network starts, learns and is looked at."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    optax = _engines.load("optax", "an experiment")
    adam = optax.scale_by_adam(*_BETAS)

    def judged(network: Transformer, pairs: JaxArray, tau: JaxArray) -> tuple[JaxArray, JaxArray]:
        """The cross-entropy of each answer, and whether it is right."""
        answers, labels = tau * logits(network, pairs, heads), pairs[:, 0] * pairs[:, 1] % p
        losses = -(jax.nn.log_softmax(answers) * jax.nn.one_hot(labels, p + 2)).sum(axis=1)
        return losses, answers.argmax(axis=1) == labels

    def on_both(each: JaxArray) -> JaxArray:
        """The mean over training pairs and over the others."""
        return jnp.stack([each[:samples].mean(), each[samples:].mean()])

    def init(shared: None, member: Member) -> State:
        return State(member.network, adam.init(member.network), jnp.arange(samples), jnp.full(2, -1))

    def step(shared: None, member: Member, state: State, i: JaxArray) -> State:
        key = jax.random.fold_in(jax.random.key(member.seed), _ORDER)
        order, chosen = loop.next_batch(key, state.order, i, batch)

        def loss(network: Transformer) -> JaxArray:
            return judged(network, member.pairs[chosen], member.tau)[0].mean()

        update, moments = adam.update(jax.grad(loss)(state.network), state.moments)
        rate = member.rate / member.tau**2 * jnp.minimum(i / _WARM_UP, 1)
        tokens, positions = update.tokens * member.faster, update.positions * member.faster
        update = update._replace(tokens=tokens, positions=positions)  # their weights decay as the others do
        network = jax.tree.map(lambda w, u: w - rate * (u + member.weight_decay * w), state.network, update)

        def looked() -> JaxArray:
            now = on_both(judged(network, member.pairs, member.tau)[1]) >= REACHED
            return jnp.where((state.reached < 0) & now, i + 1, state.reached)

        return State(network, moments, order, lax.cond((i + 1) % every == 0, looked, lambda: state.reached))

    def measure(shared: None, member: Member, state: State) -> dict[str, JaxArray]:
        losses, right = judged(state.network, member.pairs, member.tau)
        steps = jnp.where(state.reached < 0, jnp.nan, state.reached)
        found = {"loss": on_both(losses), "accuracy": on_both(right)}
        by_set = {f"{part}_{name}": both[k] for name, both in found.items() for k, part in enumerate(_PARTS)}
        return by_set | {f"steps_to_{part}": steps[k] for k, part in enumerate(_PARTS)}

    return loop.Program(init, step, measure, done=lambda state: (state.reached >= 0).all())


def report(data: Dataset) -> Report:
    """Steps to learn both sets of pairs, over (τ, α), and whether smaller embeddings grok sooner.

    Given is the step by which half of the seeds had got there, "more than N" where fewer did within the N steps of
    the record. Cells that have not been trained yet count for nothing.
    """
    data = data[["train_accuracy", *(f"steps_to_{part}" for part in _PARTS)]].compute()
    last = int(data[UNIT].max())
    axes = [axis for axis in ("tau", "alpha") if axis in data.dims]
    rows: Rows = []
    for place in itertools.product(*(range(data.sizes[axis]) for axis in axes)):
        cell = data.isel(dict(zip(axes, place, strict=True)))
        trained = np.ravel(cell["train_accuracy"].isel({UNIT: 0}).notnull())
        row: dict[str, JaxArray] = {axis: float(cell[axis]) for axis in axes} | {"seeds": int(trained.sum())}
        for part in _PARTS:
            steps = np.ravel(cell[f"steps_to_{part}"].max(UNIT))[trained]
            row |= {f"steps_to_{part}": _by_half(steps), f"reached_{part}": int(np.isfinite(steps).sum())}
        rows.append(row)
    numbers = {
        f"{name}[{', '.join(f'{axis}={row[axis]:g}' for axis in axes)}]": row[name]
        for row in rows
        for name in ("steps_to_train", "steps_to_validation", "reached_validation", "seeds")
        if np.isfinite(row[name])
    }
    sentence = _sentence(rows, last)
    if missing := int(data["train_accuracy"].isel({UNIT: 0}).isnull().sum()):
        sentence += f" {missing:,} of {data['train_accuracy'].isel({UNIT: 0}).size:,} networks are not there yet."
    for row in rows:
        row |= {f"steps_to_{part}": _words(row[f"steps_to_{part}"], last) for part in _PARTS}
    return Report(rows, sentence, numbers)


def _by_half(steps: Array) -> float:
    """When half of the seeds had got there: the median, the lower one of two; infinite where fewer did."""
    return float(np.sort(np.nan_to_num(steps, nan=np.inf))[(len(steps) - 1) // 2]) if len(steps) else np.nan


def _words(steps: float, last: int) -> str:
    return "" if np.isnan(steps) else f"{steps:,.0f}" if np.isfinite(steps) else f"more than {last:,}"


def _sentence(rows: Rows, last: int) -> str:
    """Do smaller embeddings grok sooner? In full for the τ nearest to 1 that can tell, in a word for the others."""
    by_tau: dict[float, Rows] = {}
    for row in rows:
        if row["seeds"] and "alpha" in row:
            by_tau.setdefault(row.get("tau", 1.0), []).append(row)
    seen = {tau: sorted(group, key=lambda row: row["alpha"]) for tau, group in by_tau.items() if len(group) > 1}
    if not seen:
        return "Nothing can be said about the embeddings yet: it takes networks at two values of α."
    verdicts = {tau: _verdict([row["steps_to_validation"] for row in group]) for tau, group in seen.items()}
    tau = min(seen, key=lambda tau: (verdicts[tau] == _UNSEEN, abs(tau - 1)))
    listed = ", ".join(
        f"{_words(row['steps_to_validation'], last)} at α = {row['alpha']:g}"
        + (f" ({n} of {row['seeds']} seeds)" if (n := row["reached_validation"]) < row["seeds"] else "")
        for row in seen[tau]
    )
    before = ", ".join(_words(row["steps_to_train"], last) for row in seen[tau])
    where = f" (τ = {tau:g})" if "tau" in seen[tau][0] else ""
    sentence = (
        f"{verdicts[tau]}{where}. Steps to {_GOAL} of the validation pairs: {listed}; of the training pairs: {before}."
    )
    for verdict in dict.fromkeys(verdicts.values()):
        others = [f"{other:g}" for other in seen if verdicts[other] == verdict and other != tau]
        if others:
            sentence += f" τ = {', '.join(others)}: {'the same' if verdict == verdicts[tau] else verdict.lower()}."
    return sentence


def _verdict(steps: list[float]) -> str:
    """In a word, from the steps at growing α."""
    if np.isinf(steps[0]) and np.isinf(steps[-1]):
        return _UNSEEN
    if steps[-1] >= steps[0]:
        return "Smaller embeddings do not grok sooner here"
    ordered = all(later <= sooner for sooner, later in itertools.pairwise(steps))
    return "Smaller embeddings grok sooner" + ("" if ordered else ", though not from each α to the next")


KIND = Kind(ABOUT, UNIT, Settings, variables, train, report)
