"""How far the tangent kernel of a convolutional network moves, against where it starts (Kunin et al. 2024, Fig. 5A).

LeNet-5 with ReLU and max pooling learns handwritten digits. From one He initialisation,

    first layer ÷ α,   last layer × α,

which leaves the function as it is, since biases start at zero and ReLU and max pooling are homogeneous. (Or, `through`
"rates", what would be divided learns at α² times the rate, what would be multiplied at 1/α² of it, and distances are
those of the scaled network that has learned the same.) With a large α
(upstream) the first layer learns faster than the rest, and the paper shows that kernel and activation
patterns then move further from the start; with a small one they stay closer. Recorded over training:

- the distance of the tangent kernel from the start, S(0, t) of `tangent`, over all ten outputs;
- the Hamming distance: the share of all hidden activations (those after each ReLU, before pooling: 6,508 per image)
  that are zero at one of the two times only;
- the parameter distance, the L2 norm of the difference of all parameters;

the first two on a subsample of the training images (in the paper 10 % of MNIST, 6,000 images). A kernel is made block
by block: with r images in a block (`kernel_rows`) some 7 r MB of Jacobians are held, however many images there are.

The paper trains for 500 epochs at a rate of 1e-4 with batches of 512, and averages over 8 runs. What it leaves open:

- *The optimiser.* Here plain gradient descent on the cross-entropy ("sgd"). Its 58,500 steps make a time of 5.9 in
  gradient flow, in which LeNet-5 learns MNIST: over the same time with 7,488 images it came to a loss of 0.07 to 0.14
  and 94 to 95 % test accuracy, for all α. And it is the setting of the theory: α sets how fast each layer learns,
  while the steps of Adam do not depend on the size of a gradient. "adam" comes as far in 900 steps at this rate, with
  the same order of the distances.
- *The values of α.* 0.1, 0.3, 1, 3 and 10 all learn at this rate. From 0.3 down the kernel distance hardly falls any
  more, the Hamming distance does.
- *The brightness of the images.* Standardised, see `_images`; that matters for the Hamming distance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from lazyrich import _check, _engines
from lazyrich._typing import Array, Float
from lazyrich.laziness.tangent import jax_jacobian, kernel_changes
from lazyrich.papers.base.figure import Dataset
from lazyrich.papers.base.kind import Kind, Outcome, Report
from lazyrich.papers.base.types import JaxArray, Tick, Tree
from lazyrich.papers.data import Images, enough_images
from lazyrich.papers.kunin2024.experiments import loop
from lazyrich.sweeps.grid import Variable

ABOUT = "How far tangent kernel, activation patterns and parameters of LeNet-5 move, for first layer ÷ α and last × α."
UNIT = "epoch"

SIDE = 28  # of an image
_CLASSES = 10
_PATCH = 5
_LAYERS = ((6, 25), (16, 150), (120, 400), (84, 120), (_CLASSES, 84))  # (out, in); the first two go over patches
_CONVOLUTIONS = 2
_PARAMETERS = sum(out * (inputs + 1) for out, inputs in _LAYERS)
_HIDDEN = 6 * 28**2 + 16 * 10**2 + 120 + 84  # activations of an image
_WEIGHTS, _ORDER, _SUBSAMPLE = range(3)  # streams of random numbers of one seed
_LOOKED_AT = 500  # images at a time
_STEP_COST = 2e6  # of one image, in multiplications of a large matrix product: progress goes by that


@dataclass(frozen=True)
class Settings:
    """One network. The defaults are the published values."""

    seed: int
    alpha: float = 1.0  # the first layer is divided by it at the start, the last one multiplied
    images: str = "mnist"
    samples: int = 60_000  # images to train on
    optimiser: str = "sgd"
    rate: float = 1e-4
    batch: int = 512
    kernel_samples: int = 6_000  # of them, on which kernels and activations are compared
    kernel_rows: int = 100  # images in a block
    through: str = "scales"  # what α does, see `loop`

    def __post_init__(self) -> None:
        _check.count("seed", self.seed, least=0, most=2**31 - 1)
        for name in ("alpha", "rate"):
            _check.positive(name, getattr(self, name))
        _check.choice("images", self.images, ("mnist", "fashion-mnist", "digits"))
        _check.choice("optimiser", self.optimiser, ("sgd", "adam"))
        _check.choice("through", self.through, loop.THROUGH)
        _check.count("samples", self.samples)
        for name in ("batch", "kernel_samples"):
            _check.count(name, getattr(self, name), most=self.samples)
        _check.count("kernel_rows", self.kernel_rows)


def variables(settings: Settings) -> dict[str, Variable]:
    """What is recorded."""
    return {
        "train_loss": Variable((), (), "cross-entropy on the training images", "nat"),
        "train_accuracy": Variable((), (), "share of the training images classified correctly", "1"),
        "test_accuracy": Variable((), (), "share of the test images classified correctly", "1"),
        "kernel_distance": Variable((), (), "distance of the tangent kernel from the start", "1"),
        "hamming_distance": Variable((), (), "share of hidden activations switched since the start", "1"),
        "parameter_distance": Variable((), (), "distance of the parameters from the start", "1"),
    }


class Layer(NamedTuple):
    """A matrix (out, in) and what is added. Over patches, the entries of a row go by row, column and channel."""

    weight: JaxArray
    bias: JaxArray


def initial_network(key: JaxArray, alpha: JaxArray) -> tuple[Layer, ...]:
    """He's initialisation (normal, variance 2/fan-in; the last layer too), with first layer ÷ α and last layer × α."""
    import jax

    drawn = _as_network(jax.random.normal(key, (_PARAMETERS,)))
    return scaled([Layer(W * (2 / W.shape[1]) ** 0.5, 0 * b) for W, b in drawn], alpha)


def scaled(network: Sequence[Layer], alpha: JaxArray) -> tuple[Layer, ...]:
    """The same function with first layer ÷ α and last layer × α, and so with all biases but the last ÷ α.

    It learns as the network itself does where what is divided has α² times the rate, or α times by Adam.
    """
    first, *middle, last = network
    divided = [first._replace(weight=first.weight / alpha), *middle]
    divided = [layer._replace(bias=layer.bias / alpha) for layer in divided]
    return *divided, last._replace(weight=last.weight * alpha)


def _as_network(vector: JaxArray) -> tuple[Layer, ...]:
    """The layers of a vector of all parameters."""
    layers, begin = [], 0
    for out, inputs in _LAYERS:
        middle = begin + out * inputs
        layers.append(Layer(vector[begin:middle].reshape(out, inputs), vector[middle : middle + out]))
        begin = middle + out
    return tuple(layers)


def preactivations(network: Sequence[Layer], images: JaxArray) -> list[JaxArray]:
    """What each layer computes of images (count, 28, 28, 1), before ReLU and pooling; at last the outputs (10, count).

    Images are along the last axis, and convolutions are products with patches: twice as fast on the CPU as XLA's own,
    whose gradients are slow there.
    """
    import jax
    from jax import numpy as jnp

    x, found = jnp.pad(images, ((0, 0), (2, 2), (2, 2), (0, 0))).transpose(3, 1, 2, 0), []
    for weight, bias in network[:_CONVOLUTIONS]:
        patches = _patches(x)
        z = (weight @ patches.reshape(weight.shape[1], -1)).reshape(-1, *patches.shape[1:]) + bias[:, None, None, None]
        found.append(z)
        x = jax.nn.relu(_pooled(z))  # the same as pooling after ReLU, and less work
    x = x.reshape(-1, x.shape[-1])
    for weight, bias in network[_CONVOLUTIONS:]:
        found.append(weight @ x + bias[:, None])
        x = jax.nn.relu(found[-1])
    return found


def _patches(x: JaxArray) -> JaxArray:
    """(channels, rows, columns, count) → (25 channels, rows − 4, columns − 4, count): cut along columns, then rows."""
    from jax import numpy as jnp

    rows, columns = (n - _PATCH + 1 for n in x.shape[1:3])
    x = jnp.stack([x[:, :, j : j + columns] for j in range(_PATCH)])
    x = jnp.stack([x[:, :, i : i + rows] for i in range(_PATCH)])
    return x.reshape(-1, *x.shape[3:])


def _pooled(x: JaxArray) -> JaxArray:
    """The largest of each square of 2 × 2."""
    channels, rows, columns, count = x.shape
    return x.reshape(channels, rows // 2, 2, columns // 2, 2, count).max(axis=(2, 4))


class Member(NamedTuple):
    """What differs between networks."""

    seed: JaxArray
    alpha: JaxArray
    rate: JaxArray


class State(NamedTuple):
    """A network in training."""

    network: tuple[Layer, ...]
    moments: Tree  # of the optimiser
    order: JaxArray  # of the training images, in this epoch


def check_data(settings: Settings) -> None:
    """The images must be there, and as many as are to be learned."""
    enough_images(settings.images, settings.samples)


def train(cells: Sequence[Settings], at: tuple[int, ...], tick: Tick) -> list[Outcome]:
    """The networks of a block: first they train, then their records are compared with their initialisations."""
    alike = partial(replace, seed=0, alpha=1.0, rate=1.0)
    return loop.in_groups(cells, alike, lambda common, cells: _train_together(common, cells, at, tick))


def _train_together(common: Settings, cells: list[Settings], at: tuple[int, ...], tick: Tick) -> list[Outcome]:
    """On the CPU one after the other: products of many small matrices at once are slow there, by a factor of two."""
    jax = _engines.load("jax", "an experiment")
    data = _images(common.images, common.samples)
    members = Member(
        np.array([cell.seed for cell in cells], np.int32),
        np.array([cell.alpha for cell in cells], np.float32),
        np.array([cell.rate for cell in cells], np.float32),
    )
    learning = _share_of_learning(common, at)
    with jax.default_matmul_precision("float32"):  # a GPU would round the factors to ten bits
        outcomes = loop.train(
            _program(common.optimiser, common.batch, common.through),
            data,
            members,
            at,
            lambda done: tick(learning * done),
            together=jax.default_backend() != "cpu",
            pace=common.samples // common.batch,
            unit=UNIT,
        )
        return [
            _with_movement(outcome, cell, data, lambda done: tick((1 - learning) * done))
            for outcome, cell in zip(outcomes, cells, strict=True)
        ]


@cache
def _program(optimiser: str, batch: int, through: str) -> loop.Program:
    """How one network starts, learns and is looked at."""
    import jax
    from jax import numpy as jnp
    from jax.flatten_util import ravel_pytree

    optax = _engines.load("optax", "an experiment")
    direction = optax.scale_by_adam() if optimiser == "adam" else optax.identity()

    def stream(member: Member, number: int) -> JaxArray:
        return jax.random.fold_in(jax.random.key(member.seed), number)

    def scores(network: Tree, x: JaxArray, y: JaxArray) -> tuple[JaxArray, JaxArray]:
        """Summed over the images; a label of −1 counts for nothing."""
        outputs = preactivations(network, x)[-1]
        loss = -(jax.nn.log_softmax(outputs, axis=0) * jax.nn.one_hot(y, _CLASSES, axis=0)).sum()
        return loss, (outputs.argmax(axis=0) == y).sum()

    def means(network: Tree, x: JaxArray, y: JaxArray) -> JaxArray:
        """Over any number of images, some at a time."""
        missing = -len(y) % _LOOKED_AT
        x = jnp.pad(x, ((0, missing), (0, 0), (0, 0), (0, 0))).reshape(-1, _LOOKED_AT, *x.shape[1:])
        labels = jnp.pad(y, (0, missing), constant_values=-1).reshape(-1, _LOOKED_AT)
        return [part.sum() / len(y) for part in jax.lax.map(lambda some: scores(network, *some), (x, labels))]

    def init(data: Images, member: Member) -> State:
        network = initial_network(stream(member, _WEIGHTS), member.alpha if through == "scales" else 1.0)
        return State(network, direction.init(network), jnp.arange(len(data.train_y)))

    def step(data: Images, member: Member, state: State, i: JaxArray) -> State:
        order, chosen = loop.next_batch(stream(member, _ORDER), state.order, i, batch)
        x, y = data.train_x[chosen], data.train_y[chosen]
        gradients = jax.grad(lambda network: scores(network, x, y)[0] / batch)(state.network)
        update, moments = direction.update(gradients, state.moments)
        if through == "rates":
            update = scaled(update, member.alpha ** (-1 if optimiser == "adam" else -2))
        return State(jax.tree.map(lambda w, u: w - member.rate * u, state.network, update), moments, order)

    def measure(data: Images, member: Member, state: State) -> dict[str, JaxArray]:
        placed = state.network if through == "scales" else scaled(state.network, member.alpha)
        train_loss, train_accuracy = means(state.network, data.train_x, data.train_y)
        _, test_accuracy = means(state.network, data.test_x, data.test_y)
        return {
            "train_loss": train_loss,
            "train_accuracy": train_accuracy,
            "test_accuracy": test_accuracy,
            "parameters": ravel_pytree(placed)[0],
        }

    return loop.Program(init, step, measure)


def _with_movement(outcome: Outcome, cell: Settings, data: Images, tick: Tick) -> Outcome:
    """Distances from the start in place of the parameters."""
    parameters = outcome.values.pop("parameters")
    there = int(np.isfinite(parameters).all(axis=1).sum())
    chosen = np.random.default_rng([cell.seed, _SUBSAMPLE]).choice(cell.samples, cell.kernel_samples, replace=False)
    moved = movement(parameters[: max(there, 1)], data.train_x[np.sort(chosen)], cell.kernel_rows, tick)
    for name, values in moved.items():
        outcome.values[name] = np.full(len(parameters), np.nan)
        outcome.values[name][:there] = values[:there]
    return outcome


def movement(
    parameters: Float[Array, "T parameters"],
    images: Float[Array, "count 28 28 1"],
    rows: int,
    tick: Tick = lambda done: None,
) -> dict[str, Float[Array, " T"]]:
    """How far networks have come from the first of them, on these images, `rows` at a time.

    `parameters` are those of LeNet-5, 61,706 of each, layer by layer, weights (out, in) before biases.
    """
    jax = _engines.load("jax", "an experiment")
    states, images = jax.device_put(([_as_network(vector) for vector in parameters], images))
    parts = [slice(first, first + rows) for first in range(0, len(images), rows)]
    jacobian = jax_jacobian(_outputs, states, images)

    def announced(t: int, some: slice) -> Tree:
        tick(1 / (len(states) * len(parts) ** 2))  # each is asked for with each
        return jacobian(t, some)

    switched = [sum(int(_switched()(states[0], state, images[some])) for some in parts) for state in states]
    return {
        "kernel_distance": kernel_changes(announced, len(states), len(images), rows=rows).distance,
        "hamming_distance": np.array(switched) / (len(images) * _HIDDEN),
        "parameter_distance": np.linalg.norm(np.subtract(parameters, parameters[0], dtype=np.float64), axis=1),
    }


def _outputs(network: Tree, image: JaxArray) -> JaxArray:
    return preactivations(network, image[None])[-1]


@cache
def _switched() -> Callable[..., Any]:
    """How many hidden activations are zero in one network only."""
    import jax

    def count(one: Tree, other: Tree, images: JaxArray) -> JaxArray:
        both = zip(preactivations(one, images)[:-1], preactivations(other, images)[:-1], strict=True)
        return sum(((a > 0) != (b > 0)).sum() for a, b in both)

    return jax.jit(count)


@cache
def _images(name: str, samples: int) -> Images:
    """The images that the network sees, 28 × 28 each: smaller ones are drawn larger, by linear interpolation.

    Brightness is in units of its standard deviation, from its mean. With 0 for the background instead, all of it would
    start on the edge of ReLU, since biases start at 0 too, and the first small bias would switch half of it.
    """
    data = enough_images(name, samples)
    train_x, test_x = _drawn(data.train_x[:samples]), _drawn(data.test_x)
    mean, deviation = train_x.mean(dtype=np.float64), train_x.std(dtype=np.float64)
    train_x, test_x = (((x - mean) / deviation).astype(np.float32) for x in (train_x, test_x))
    return Images(train_x, data.train_y[:samples], test_x, data.test_y)


def _drawn(x: Array) -> Array:
    side = x.shape[1]
    if side == SIDE:
        return x
    centres = (np.arange(SIDE) + 0.5) * side / SIDE - 0.5  # of the new pixels, in units of the old ones
    weights = np.stack([np.interp(centres, np.arange(side), one) for one in np.eye(side)], axis=1)
    return np.einsum("ri,cj,nijk->nrck", weights, weights, x, optimize=True).astype(np.float32)


def _share_of_learning(settings: Settings, at: tuple[int, ...]) -> float:
    """The part of a cell's work that is training, about; the other part is kernels."""
    learning = at[-1] * settings.samples * _STEP_COST
    kernels = len(at) * (settings.kernel_samples * _CLASSES) ** 2 * _PARAMETERS / 2
    return learning / (learning + kernels)


def report(data: Dataset) -> Report:
    """Distances and accuracy at the last record, by α, as means over seeds; and whether the distances go by α."""
    names = ("kernel_distance", "hamming_distance", "parameter_distance", "test_accuracy")
    last = data[list(names)].isel({UNIT: -1})
    if "alpha" not in last.dims or last.sizes["alpha"] < 2:
        return Report([], "There is one α, and no other to compare it with.", {})
    means = last.sortby("alpha").mean([dim for dim in last.dims if dim != "alpha"])  # of those that are there
    means = means.dropna("alpha", subset=["kernel_distance"])
    if means.sizes["alpha"] < 2:
        return Report([], "There are no two α with results to compare: not trained yet, or diverged.", {})
    alphas: list[float] = means["alpha"].values.tolist()
    values: dict[str, list[float]] = {name: means[name].values.tolist() for name in names}
    rows = [
        {"alpha": alpha, **{name.replace("_", " "): values[name][i] for name in names}}
        for i, alpha in enumerate(alphas)
    ]
    numbers = {f"{name}_alpha_{a:g}": values[name][i] for name in names for i, a in enumerate(alphas)}
    numbers |= {f"{name}_ordered": float(_grows(values[name])) for name in names[:2]}
    missing, size = int(last["kernel_distance"].isnull().sum()), last["kernel_distance"].size
    lengths = values["parameter_distance"]
    sentence = (
        f"After {_epochs(int(data[UNIT].values[-1]))} the kernel distance {_in_words(alphas, values[names[0]])},"
        f" and the Hamming distance {_in_words(alphas, values[names[1]])};"
        f" the parameter distance lies between {min(lengths):.3g} and {max(lengths):.3g}."
    )
    if missing:
        sentence += f" {missing:,} of {size:,} networks are not there: not trained yet, or diverged."
    return Report(rows, sentence, numbers)


def _epochs(count: int) -> str:
    return f"{count:,} epoch{'s' * (count != 1)}"


def _grows(values: list[float]) -> bool:
    return all(one < other for one, other in pairwise(values))


def _in_words(alphas: list[float], values: list[float]) -> str:
    if _grows(values):
        return f"grows with α, from {values[0]:.3g} (α = {alphas[0]:g}) to {values[-1]:.3g} (α = {alphas[-1]:g})"
    shown = ", ".join(f"{value:.3g} (α = {alpha:g})" for alpha, value in zip(alphas, values, strict=True))
    return f"does not grow with α throughout: {shown}"


KIND = Kind(ABOUT, UNIT, Settings, variables, train, report, images=attrgetter("images"), check_data=check_data)
