"""How many samples of a random hierarchy an MLP needs, against where it starts (Kunin et al. 2024, Fig. 5c).

The task is the Random Hierarchy Model (`kunin2024.random_hierarchy`): L 3, 8 classes, m 4, s 2, v 8, which has
131,072 inputs, each of them 8 symbols as 64 zeros and ones. The network is an MLP without biases, three hidden layers
of width 64, in the parametrisation of the code that the paper used (that of Cagnetta et al.): weights are standard
normal at the start, h = relu(x W / √fan-in) at each hidden layer, and x W / fan-in at the readout. Then

    first layer × 1/α,   readout × α,

which leaves the function as it is (or, `through` "rates", first rate × α² and last rate ÷ α²): a large α is upstream,
where the first layer learns faster than the rest, a small one downstream. Training is by stochastic gradient descent on
the cross-entropy: momentum 0.9, batches of 128, 250 epochs, and a rate of 0.1 × width = 6.4 that follows a cosine from
epoch to epoch and comes to zero at 80 % of the epochs. The scheduler of the original code rises again after that; the
paper says "down to 80 %", and we stay at zero. So nothing changes after epoch 200, and a record at 200 is the end.

Rules, samples and weights follow from the seed, and are the same for every α but for the scaling. The order in which
an epoch goes through the samples is the same for all seeds too, since the samples themselves are in random order: it
is drawn once for all networks that train together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lazyrich import InvalidInput, _check, _engines
from lazyrich._typing import Array
from lazyrich.papers.base.figure import Dataset
from lazyrich.papers.base.kind import Kind, Outcome, Report
from lazyrich.papers.base.types import JaxArray, Rows, Tick, Tree
from lazyrich.papers.kunin2024.experiments import loop
from lazyrich.papers.kunin2024.random_hierarchy import RandomHierarchy, random_hierarchy
from lazyrich.sweeps.grid import Variable

ABOUT = "Samples that an MLP needs to learn a random hierarchy, from upstream and downstream initialisations."
UNIT = "epoch"

#: The test accuracy whose price in samples is read off. Any number between chance (1/8) and 1 serves; here the curves
#: are steep, and a network that fits its samples without finding the rules is well below.
TARGET = 0.7

_FALLS_FOR = 0.8  # of the epochs
_RULES, _SAMPLES, _WEIGHTS, _ORDER = range(4)  # streams of random numbers
_LOOKED_AT = 4096  # samples at a time


@dataclass(frozen=True)
class Settings:
    """One network: where it starts, what it learns from, and how."""

    seed: int
    alpha: float = 1.0
    points: int = 16_384  # training samples
    test: int = 20_000  # others to test on, or as many as there are
    L: int = 3
    classes: int = 8
    m: int = 4
    s: int = 2
    v: int = 8
    width: int = 64
    hidden: int = 3  # layers
    rate: float = 0.1  # times the width
    momentum: float = 0.9
    batch: int = 128
    epochs: int = 250
    through: str = "scales"  # what α does, see `loop`

    def __post_init__(self) -> None:
        _check.count("seed", self.seed, least=0, most=2**31 - 1)
        _check.choice("through", self.through, loop.THROUGH)
        for name in ("alpha", "rate"):
            _check.positive(name, getattr(self, name))
        if not 0 <= _check.number("momentum", self.momentum) < 1:
            raise InvalidInput(f"momentum must lie in [0, 1), and it is {self.momentum:g}.")
        for name in ("points", "test", "L", "classes", "m", "s", "v", "width", "hidden", "batch", "epochs"):
            _check.count(name, getattr(self, name), most=10**7)
        if self.points % self.batch:
            raise InvalidInput(
                f"points must be a multiple of batch ({self.batch}), so that an epoch has them all, and it is"
                f" {self.points}."
            )
        if self.points >= (total := _hierarchy(self).total):
            raise InvalidInput(
                f"points must be below the {total:,} inputs of the hierarchy, so that some are left to test on, and it"
                f" is {self.points:,}."
            )


class Member(NamedTuple):
    """What a network learns from, as whole numbers: one-hots are made of them when they are needed."""

    seed: JaxArray
    alpha: JaxArray
    tokens: JaxArray  # (points, s^L)
    labels: JaxArray
    test_tokens: JaxArray
    test_labels: JaxArray


def variables(settings: Settings) -> dict[str, Variable]:
    """What is recorded."""
    return {
        "train_accuracy": Variable((), (), "share of the training samples classified correctly", "1"),
        "train_loss": Variable((), (), "cross-entropy on the training samples", "nat"),
        "test_accuracy": Variable((), (), "share of the held-out samples classified correctly", "1"),
    }


def end_of(settings: Settings) -> int:
    """The epoch from which the rate is zero."""
    return int(_FALLS_FOR * settings.epochs)


def train(cells: Sequence[Settings], at: tuple[int, ...], tick: Tick) -> list[Outcome]:
    """The networks of a block; those that differ in seed and α alone are trained together."""
    jax = _engines.load("jax", "an experiment")

    def of_group(common: Settings, cells: list[Settings]) -> list[Outcome]:
        members = jax.tree.map(lambda *leaves: np.stack(leaves), *map(member, cells))
        return loop.train(program(common), None, members, at, tick, unit=UNIT)

    return loop.in_groups(cells, lambda cell: replace(cell, seed=0, alpha=1.0), of_group)


def member(settings: Settings) -> Member:
    """What one network is given."""
    return Member(np.uint32(settings.seed), np.float32(settings.alpha), *_samples(replace(settings, alpha=1.0)))


@lru_cache(maxsize=64)
def _samples(settings: Settings) -> tuple[Array, Array, Array, Array]:
    """Symbols and labels to train on, and others to test on."""
    hierarchy = _hierarchy(settings)
    test = min(settings.test, hierarchy.total - settings.points)
    indices = hierarchy.sample(np.random.default_rng([settings.seed, _SAMPLES]), test + settings.points)
    small = np.min_scalar_type(max(settings.v, settings.classes))
    tokens, labels = hierarchy.inputs(indices).astype(small), hierarchy.labels(indices).astype(small)
    return tokens[test:], labels[test:], tokens[:test], labels[:test]


@cache
def program(settings: Settings) -> loop.Program:
    """The network and its training, for any seed and α. A step of the loop is an epoch."""
    jax = _engines.load("jax", "an experiment")
    optax = _engines.load("optax", "an experiment")
    jnp = jax.numpy
    sizes = (settings.s**settings.L * settings.v, *(settings.width,) * settings.hidden, settings.classes)
    shapes = list(pairwise(sizes))
    ends = np.cumsum([a * b for a, b in shapes])[:-1]
    falling = optax.cosine_decay_schedule(settings.rate * settings.width, _FALLS_FOR * settings.epochs)
    momentum = optax.trace(settings.momentum)

    def init(_: JaxArray, member: Member) -> Tree:
        key = jax.random.fold_in(jax.random.key(member.seed), _WEIGHTS)
        drawn = jax.random.normal(key, (sum(a * b for a, b in shapes),))  # in one: a draw takes long to compile
        weights = [part.reshape(shape) for part, shape in zip(jnp.split(drawn, ends), shapes, strict=True)]
        if settings.through == "scales":
            weights[0], weights[-1] = weights[0] / member.alpha, weights[-1] * member.alpha
        return weights, momentum.init(weights)

    def outputs(weights: Tree, tokens: JaxArray) -> JaxArray:
        times = partial(jnp.matmul, precision="highest")  # float32 on a GPU too, where the default is less
        x = jax.nn.one_hot(tokens, settings.v).reshape(*tokens.shape[:-1], sizes[0])
        for W in weights[:-1]:
            x = jax.nn.relu(times(x, W) / np.sqrt(W.shape[0]))
        return times(x, weights[-1]) / settings.width

    def losses(weights: Tree, tokens: JaxArray, labels: JaxArray) -> tuple[JaxArray, JaxArray]:
        logits = outputs(weights, tokens)
        loss = optax.softmax_cross_entropy(logits, jax.nn.one_hot(labels, settings.classes))
        return loss, logits.argmax(axis=-1) == labels

    def step(_: JaxArray, member: Member, state: Tree, epoch: JaxArray) -> Tree:
        order = jax.random.permutation(jax.random.fold_in(jax.random.key(_ORDER), epoch), settings.points)
        order, rates = order.reshape(-1, settings.batch), [falling(epoch)] * len(shapes)
        if settings.through == "rates":
            rates[0], rates[-1] = rates[0] * member.alpha**2, rates[-1] / member.alpha**2

        def of_batch(state: Tree, batch: JaxArray) -> Tree:
            weights, velocity = state
            gradients = jax.grad(lambda weights: losses(weights, *batch)[0].mean())(weights)
            gradients, velocity = momentum.update(gradients, velocity)
            moved = [W - rate * slope for W, rate, slope in zip(weights, rates, gradients, strict=True)]
            return (moved, velocity), None

        return jax.lax.scan(of_batch, state, (member.tokens[order], member.labels[order]))[0]

    def measure(_: JaxArray, member: Member, state: Tree) -> dict[str, JaxArray]:
        def seen(*samples: JaxArray) -> tuple[JaxArray, JaxArray]:
            return jax.lax.map(lambda sample: losses(state[0], *sample), samples, batch_size=_LOOKED_AT)

        loss, right = seen(member.tokens, member.labels)
        _, right_in_test = seen(member.test_tokens, member.test_labels)
        return {"train_accuracy": right.mean(), "train_loss": loss.mean(), "test_accuracy": right_in_test.mean()}

    return loop.Program(init, step, measure)


def report(data: Dataset) -> Report:
    """Test accuracy by α and number of points, mean over seeds (and axes of one's own), and the points to `TARGET`."""
    accuracy = data["test_accuracy"].isel({UNIT: -1})
    if not {"alpha", "points"} <= set(accuracy.dims):
        return Report([], "There is no sample complexity to compare, since alpha and points are not both axes.", {})
    accuracy = accuracy.sortby(["alpha", "points"]).transpose("alpha", "points", ...)
    alphas, points = accuracy["alpha"].values.tolist(), accuracy["points"].values.tolist()
    networks = accuracy.values.reshape(len(alphas), len(points), -1)
    there = np.isfinite(networks)
    means = np.where(there, networks, 0).sum(axis=2) / np.where(there.any(axis=2), there.sum(axis=2), np.nan)
    needed = [Needed.of(points, row) for row in means]
    rows: Rows = []
    for alpha, row, need in zip(alphas, means, needed, strict=True):
        seen = {f"{n:,} points": float(value) for n, value in zip(points, row, strict=True)}
        rows.append({"alpha": alpha, **seen, f"points to {TARGET:.0%}": need.in_a_table})
    numbers = {f"complexity_alpha_{alpha:g}": need.exact for alpha, need in zip(alphas, needed, strict=True)}
    sentence, ratios = _compared(alphas, needed)
    if missing := there.size - int(there.sum()):
        sentence += f" {missing:,} of {there.size:,} networks have no final accuracy: not trained yet, or diverged."
    return Report(rows, sentence, numbers | ratios)


class Needed(NamedTuple):
    """How many points are needed: at least and at most, since a curve may lie above or below the target all along."""

    least: float
    most: float

    @classmethod
    def of(cls, points: list[int], accuracy: Array) -> Needed:
        """Where the accuracy first passes the target, between two numbers of points on a logarithmic scale."""
        known = [(n, float(a)) for n, a in zip(points, accuracy, strict=True) if np.isfinite(a)]
        above = next((k for k, (_, a) in enumerate(known) if a >= TARGET), None)
        if above is None:
            return cls(known[-1][0] if known else 0.0, np.inf)
        if above == 0:
            return cls(0.0, known[0][0])
        (n, a), (more, better) = known[above - 1], known[above]
        passed = n * (more / n) ** ((TARGET - a) / (better - a))
        return cls(passed, passed)

    @property
    def exact(self) -> float:
        return self.least if self.least == self.most else np.nan

    @property
    def in_a_table(self) -> str:
        return str(self) if self.most < np.inf else "not reached" if self.least else "unknown"

    def __str__(self) -> str:
        if self.most == np.inf:
            return f"more than {self.least:,.0f}" if self.least else "an unknown number of"
        return f"{self.least:,.0f}" if self.least else f"at most {self.most:,.0f}"


def _compared(alphas: list[float], needed: list[Needed]) -> tuple[str, dict[str, float]]:
    """The largest α against the smallest, in words and numbers."""
    if len(alphas) < 2:
        return "There is one α, and no other to compare it with.", {}
    downstream, upstream = needed[0], needed[-1]
    least = downstream.least / upstream.most
    most = downstream.most / upstream.least if upstream.least else np.inf
    known = least == most
    ratios = {"ratio": least} if known else {"ratio_at_least": least, "ratio_at_most": most}
    if least > 1:
        verdict = f"the larger α needs fewer, by a factor of {'' if known else 'at least '}{least:.2f}"
    elif most <= 1:
        verdict = "the larger α does not need fewer"
    else:
        verdict = "which of them needs fewer cannot be told from this"
    sentence = (
        f"To {TARGET:.0%} test accuracy {_start(alphas[-1])} takes {upstream} points, {_start(alphas[0])} {downstream}:"
        f" {verdict}."
    )
    return sentence, ratios


def _start(alpha: float) -> str:
    kind = "an upstream" if alpha > 1 else "a downstream" if alpha < 1 else "the plain"
    return f"{kind} start (α = {alpha:g})"


def _hierarchy(settings: Settings) -> RandomHierarchy:
    return _drawn(settings.seed, L=settings.L, classes=settings.classes, m=settings.m, s=settings.s, v=settings.v)


@lru_cache(maxsize=64)
def _drawn(seed: int, **shape: int) -> RandomHierarchy:
    return random_hierarchy(np.random.default_rng([seed, _RULES]), **shape)


KIND = Kind(ABOUT, UNIT, Settings, variables, train, report, end_of)
