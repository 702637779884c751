"""How smooth the first filters of a small ResNet become, against their size at the start (Kunin et al. 2024, Fig. 5b).

The network is that of the DAWN benchmark for CIFAR-10 (`resnet.py`) with first kernels of 15 × 15, and no weight decay.
Training is that of the benchmark: stochastic gradient descent with Nesterov momentum 0.9 on the mean cross-entropy of
batches of 512, a rate that rises in a straight line to 0.4 within 5 epochs and falls back to 0 at epoch 24, on images
normalised colour by colour, cropped at random after a reflection of 4 pixels at each border, flipped left to right,
and with a hole of 8 × 8. After the standard initialisation the first filters are divided by α; or, `through` "rates",
they learn at α² times the rate of the others.

Batch norm follows the first layer, so that α does not change what the network computes at the start (but for the 1e-5
beside the variance), and the layer has no scale to learn. What α changes is speed: a gradient is α times larger where
filters are α times smaller, so they turn α² times faster. Large filters hardly turn and stay the noise that they were.
Very small ones are thrown by the first steps to a length that the rate sets, so that at some α nothing more is gained.

The paper contradicts itself about the sign. Its text divides by α, so that smaller filters have α > 1; its caption
calls α < 1 the small initialisation, which learns smoother filters. Here α divides, as in the text, and `report` speaks
of filters that start smaller: on the embedded images they do end smoother, however the Laplacian is read.

Choices that the paper leaves open: of all convolutions, the first alone has large kernels and is divided by α. Tests
use running averages of mean and variance, 0.9 old + 0.1 new as in the benchmark; they begin with those of the first
batch, so that the record at epoch 0 says what the network does. Losses and accuracies are those of the images as they
are, neither cropped nor flipped nor cut. Numbers are float32, where the benchmark has float16. The α and the number of
seeds are ours.

CIFAR-10 is read from its files. The embedded images are patches of two photographs, of which it is to be told which
way up they are: a task that needs edges. They must not be flipped: a quarter turn to the left would become one to the
right.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from lazyrich import InvalidInput, _check, _engines
from lazyrich.papers.base.figure import Dataset
from lazyrich.papers.base.kind import Kind, Outcome, Report
from lazyrich.papers.base.types import JaxArray, Rows, Tick, Tree
from lazyrich.papers.data import Images, enough_images
from lazyrich.papers.kunin2024.experiments import loop, resnet
from lazyrich.sweeps.grid import Variable

ABOUT = "Smoothness of a ResNet's first filters on images, against their size at the start."
UNIT = "epoch"

#: The Laplacian of the paper, as printed: its entries sum to −1, so that a constant filter does not count as smooth.
#: With 3 in the centre they sum to 0; on the embedded images the order of the α was the same.
LAPLACIAN = np.array([[-0.25, -0.5, -0.25], [-0.5, 2.0, -0.5], [-0.25, -0.5, -0.25]])

_SETS = ("cifar10", "photographs")
_SIDE, _COLOURS = 32, 3  # of their images
_KEPT = 0.9  # of the running averages, at each step
_LOOKED_AT = 500  # images at a time, when accuracies are measured
_WEIGHTS, _ORDER, _CHANGES = range(3)  # streams of random numbers of a seed


@dataclass(frozen=True)
class Settings:
    """One network: where it starts, what it learns from, and how."""

    seed: int
    alpha: float = 1.0  # divides the first filters
    images: str = "cifar10"
    samples: int = 50_000  # of them, to train on
    channels: Any = (64, 128, 256, 512)  # of prep, layer1, layer2, layer3; checked below
    kernel: int = 15  # rows and columns of the first filters
    stride: int = 1  # of the first convolution
    epochs: int = 24
    rising: float = 5.0  # epochs until the rate is highest
    rate: float = 0.4
    momentum: float = 0.9
    batch: int = 512
    crop: int = 4  # pixels reflected at each border before a random crop
    flip: bool = True
    cutout: int = 8  # rows and columns of the hole
    through: str = "scales"  # what α does, see `loop`

    def __post_init__(self) -> None:
        _check.count("seed", self.seed, least=0, most=2**31 - 1)
        for name in ("alpha", "rising", "rate"):
            _check.positive(name, getattr(self, name))
        if not 0 <= _check.number("momentum", self.momentum) < 1:
            raise InvalidInput(f"momentum must lie in [0, 1), and it is {self.momentum:g}.")
        _check.choice("images", self.images, _SETS)
        _check.choice("through", self.through, loop.THROUGH)
        for name in ("samples", "epochs", "batch"):
            _check.count(name, getattr(self, name))
        for name in ("crop", "cutout"):
            _check.count(name, getattr(self, name), least=0, most=_SIDE - 1)
        _check.flag("flip", self.flip)
        if not isinstance(self.channels, list | tuple) or len(self.channels) != 4:
            came = _check.shown(self.channels)
            raise InvalidInput(f"channels must hold four numbers, such as (64, 128, 256, 512), and it is {came}.")
        channels = tuple(_check.count("each of channels", n, most=2**14) for n in self.channels)
        object.__setattr__(self, "channels", channels)  # a list where it comes from a file
        if _check.count("kernel", self.kernel, least=3, most=_SIDE - 1) % 2 == 0:
            raise InvalidInput(f"kernel must be odd, and it is {self.kernel}.")
        if _check.count("stride", self.stride) not in (1, 2, 4):
            raise InvalidInput(f"stride must be 1, 2 or 4, so that the images can be halved, and it is {self.stride}.")
        if self.rising >= self.epochs:
            raise InvalidInput(f"rising must be below epochs ({self.epochs}), and it is {self.rising:g}.")
        if self.batch > self.samples:
            raise InvalidInput(f"batch must be at most samples ({self.samples:,}), and it is {self.batch:,}.")


class State(NamedTuple):
    """A network in training."""

    weights: Tree
    running: Tree  # mean and variance by layer
    optimiser: Tree
    order: JaxArray  # of the images in this epoch


def variables(settings: Settings) -> dict[str, Variable]:
    """What is recorded."""
    shape = (settings.channels[0], _COLOURS, settings.kernel, settings.kernel)
    return {
        "train_loss": Variable((), (), "cross-entropy on the training images", "nat"),
        "train_accuracy": Variable((), (), "share of the training images classified correctly", "1"),
        "test_accuracy": Variable((), (), "share of the test images classified correctly", "1"),
        "smoothness": Variable((), (), "normalised Laplacian of the first filters, small where smooth", "1"),
        "filters": Variable(("channel", "colour", "row", "column"), shape, "weights of the first layer", "1"),
    }


def end_of(settings: Settings) -> int:
    """The epoch at which the rate comes to zero."""
    return settings.epochs


def check_data(settings: Settings) -> None:
    """The images must be there, and as many as are to be learned."""
    enough_images(settings.images, settings.samples)


def train(cells: Sequence[Settings], at: tuple[int, ...], tick: Tick) -> list[Outcome]:
    """The networks of a block, one after the other: a single one keeps a core, or a GPU, busy."""

    def of_group(common: Settings, cells: list[Settings]) -> list[Outcome]:
        data = _images(common)
        members = {
            "seed": np.array([cell.seed for cell in cells], np.uint32),
            "alpha": np.array([cell.alpha for cell in cells], np.float32),
        }
        batches, classes = common.samples // common.batch, int(data.train_y.max()) + 1
        made = _program(common, classes)
        outcomes = loop.train(made, data, members, at, tick, together=False, pace=batches, unit=UNIT)
        for outcome in outcomes:
            outcome.values["smoothness"] = smoothness(outcome.values["filters"]).mean((1, 2))
        return outcomes

    return loop.in_groups(cells, lambda cell: replace(cell, seed=0, alpha=1.0), of_group)


def smoothness(filters: JaxArray, border: str = "valid") -> JaxArray:
    """‖(w / ‖w‖) ∗ Δ‖² of each filter (…, rows, columns): small where it is smooth; nan where it is zero.

    The convolution stays inside of the filter ("valid"), since what would be beyond its border is no part of it;
    "same" continues it by zeros, and counts the step at the border. On the embedded images the order of the α was the
    same with both.

    >>> one_pixel = np.zeros((5, 5))
    >>> one_pixel[2, 2] = 7.0
    >>> float(smoothness(one_pixel))
    5.25
    """
    w = np.asarray(filters, np.float64)
    if w.ndim < 2 or min(w.shape[-2:]) < 3:
        raise InvalidInput(f"filters must have at least 3 rows and 3 columns, and their shape is {w.shape}.")
    edge = 1 if _check.choice("border", border, ("valid", "same")) == "same" else 0
    padded = np.pad(w, [(0, 0)] * (w.ndim - 2) + [(edge, edge)] * 2)
    rows, columns = padded.shape[-2] - 2, padded.shape[-1] - 2
    shifted = [
        LAPLACIAN[i, j] * padded[..., i : i + rows, j : j + columns] for i in range(3) for j in range(3)
    ]  # the kernel is symmetric: turned round, as a convolution wants it, it is the same
    with np.errstate(invalid="ignore"):
        return np.square(sum(shifted)).sum((-2, -1)) / np.square(w).sum((-2, -1))


def rate_at(settings: Settings, epoch: JaxArray) -> JaxArray:
    """The rate after so many epochs, or parts of one: up in a straight line, and down to zero, where it stays."""
    import jax.numpy as jnp

    up, down = epoch / settings.rising, (settings.epochs - epoch) / (settings.epochs - settings.rising)
    return settings.rate * jnp.maximum(jnp.minimum(up, down), 0)


def augmented(key: JaxArray, images: JaxArray, settings: Settings) -> JaxArray:
    """Images at random: cropped out of their reflection at the borders, flipped left to right, with a hole of zeros."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    n, rows, columns, colours = images.shape
    edge, size = settings.crop, settings.cutout
    numbers_of_choices = jnp.array([2 * edge + 1, 2 * edge + 1, 2, rows - size + 1, columns - size + 1])
    choices = (numbers_of_choices * jax.random.uniform(key, (n, 5))).astype(int)  # one draw: each takes long to compile
    if edge:
        padded = jnp.pad(images, ((0, 0), (edge, edge), (edge, edge), (0, 0)), mode="reflect")
        images = jax.vmap(lambda image, corner: lax.dynamic_slice(image, (*corner, 0), (rows, columns, colours)))(
            padded, choices[:, :2]
        )
    if settings.flip:
        images = jnp.where(choices[:, 2, None, None, None] == 1, images[:, :, ::-1], images)
    if size:
        down, along = jnp.arange(rows) - choices[:, 3, None], jnp.arange(columns) - choices[:, 4, None]
        hole = ((down >= 0) & (down < size))[:, :, None] & ((along >= 0) & (along < size))[:, None, :]
        images = jnp.where(hole[..., None], 0.0, images)
    return images


def _images(settings: Settings) -> Images:
    """Normalised colour by colour as the whole training set has them; as many to train on as wanted, all to test on."""
    train_x, train_y, test_x, test_y = enough_images(settings.images, settings.samples)
    mean = train_x.mean((0, 1, 2), dtype=np.float64).astype(np.float32)
    deviation = np.sqrt(np.square(train_x - mean).mean((0, 1, 2), dtype=np.float64)).astype(np.float32)
    train_x, test_x = ((x - mean) / deviation for x in (train_x[: settings.samples], test_x))
    return Images(train_x, train_y[: settings.samples], test_x, test_y)


@cache
def _program(settings: Settings, classes: int) -> loop.Program:
    """The network and its training, for any seed and α."""
    jax = _engines.load("jax", "an experiment")
    optax = _engines.load("optax", "an experiment")
    jnp, stride = jax.numpy, settings.stride
    batches = settings.samples // settings.batch
    optimiser = optax.sgd(lambda step: rate_at(settings, step / batches), settings.momentum, nesterov=True)

    def stream(member: Tree, number: int) -> JaxArray:
        return jax.random.fold_in(jax.random.key(member["seed"]), number)

    def cross_entropy(logits: JaxArray, labels: JaxArray) -> JaxArray:
        return optax.softmax_cross_entropy(logits, jax.nn.one_hot(labels, classes))

    def init(data: Images, member: Tree) -> State:
        weights = resnet.initial_weights(
            stream(member, _WEIGHTS), settings.channels, settings.kernel, _COLOURS, classes
        )
        if settings.through == "scales":
            weights["prep"]["filters"] = weights["prep"]["filters"] / member["alpha"]
        _, running = resnet.forward(weights, data.train_x[: settings.batch], stride)
        return State(weights, running, optimiser.init(weights), jnp.arange(settings.samples))

    def step(data: Images, member: Tree, state: State, i: JaxArray) -> State:
        order, batch = loop.next_batch(stream(member, _ORDER), state.order, i, settings.batch)
        images = augmented(jax.random.fold_in(stream(member, _CHANGES), i), data.train_x[batch], settings)

        def loss(weights: Tree) -> JaxArray:
            logits, moments = resnet.forward(weights, images, stride)
            return cross_entropy(logits, data.train_y[batch]).mean(), moments

        gradients, moments = jax.grad(loss, has_aux=True)(state.weights)
        changes, inner = optimiser.update(gradients, state.optimiser)
        if settings.through == "rates":
            changes["prep"]["filters"] = changes["prep"]["filters"] * member["alpha"] ** 2
        running = jax.tree.map(lambda old, new: _KEPT * old + (1 - _KEPT) * new, state.running, moments)
        return State(optax.apply_updates(state.weights, changes), running, inner, order)

    def measure(data: Images, member: Tree, state: State) -> dict[str, JaxArray]:
        def looked_at(pair: Tree) -> JaxArray:
            logits, _ = resnet.forward(state.weights, pair[0][None], stride, state.running)
            return cross_entropy(logits[0], pair[1]), logits[0].argmax() == pair[1]

        losses, right = jax.lax.map(looked_at, (data.train_x, data.train_y), batch_size=_LOOKED_AT)
        _, test_right = jax.lax.map(looked_at, (data.test_x, data.test_y), batch_size=_LOOKED_AT)
        filters = state.weights["prep"]["filters"].transpose(3, 2, 0, 1)
        accuracies = {"train_accuracy": right.mean(), "test_accuracy": test_right.mean()}
        return {"train_loss": losses.mean(), **accuracies, "filters": filters}

    return loop.Program(init, step, measure)


def report(data: Dataset) -> Report:
    """Smoothness and accuracies by α at the last record, means over the networks that came so far."""
    if "alpha" not in data.dims:
        return Report([], "There are no filters to compare, since alpha is not an axis.", {})
    data = data.sortby("alpha").transpose("alpha", ...)
    columns = {"smoothness_at_start": data["smoothness"].isel({UNIT: 0})}
    columns |= {name: data[name].isel({UNIT: -1}) for name in ("smoothness", "train_accuracy", "test_accuracy")}
    networks = {name: column.values.reshape(data.sizes["alpha"], -1) for name, column in columns.items()}
    ended = np.isfinite(networks["smoothness"])
    rows: Rows = [
        {"alpha": alpha, "networks": int(there.sum())}
        | {name: float(values[i, there].mean()) if there.any() else np.nan for name, values in networks.items()}
        for i, (alpha, there) in enumerate(zip(data["alpha"].values.tolist(), ended, strict=True))
    ]
    numbers = {
        f"{name}_alpha_{row['alpha']:g}": row[name]
        for row in rows
        for name in ("smoothness", "train_accuracy", "test_accuracy")
    }
    sentence = _sentence([row for row in rows if row["networks"]])
    if missing := int((~ended).sum()):
        sentence += f" {missing:,} of {ended.size:,} networks have no final filters: not trained yet, or diverged."
    return Report(rows, sentence, numbers)


def _sentence(rows: Rows) -> str:
    """Do filters that start smaller end smoother? α divides them, so the last of the rows start smallest."""
    if len(rows) < 2:
        return "Nothing can be said about the filters yet: it takes networks at two values of α."
    ends = [row["smoothness"] for row in rows]
    if ends[-1] >= ends[0]:
        verdict = "Filters that start smaller do not end smoother here"
    else:
        ordered = all(larger > smaller for larger, smaller in itertools.pairwise(ends))
        verdict = "Filters that start smaller end smoother" + (
            "" if ordered else ", though not from each α to the next"
        )
    listed = ", ".join(f"{row['smoothness']:.3g} for filters ÷ {row['alpha']:g}" for row in rows)
    start, accuracies = rows[0]["smoothness_at_start"], [row["test_accuracy"] for row in rows]
    return (
        f"{verdict}: the normalised Laplacian goes from {start:.3g} at the start to {listed}; "
        f"test accuracies lie between {min(accuracies):.1%} and {max(accuracies):.1%}."
    )


KIND = Kind(ABOUT, UNIT, Settings, variables, train, report, end_of, images=attrgetter("images"), check_data=check_data)
