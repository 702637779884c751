"""LeNet-5 against convolutions in plain loops and in XLA, its distances against whole kernels, and its training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import ndimage

jax = pytest.importorskip("jax")
pytest.importorskip("sklearn")
xarray = pytest.importorskip("xarray")

from jax import lax  # noqa: E402
from jax import numpy as jnp  # noqa: E402

from lazyrich._check import InvalidInput  # noqa: E402
from lazyrich.papers.data import images  # noqa: E402
from lazyrich.papers.experiment import experiment as preset  # noqa: E402
from lazyrich.papers.kunin2024.experiments import lenet  # noqa: E402

pytestmark = pytest.mark.timeout(240)

SHAPES = [(6, 1, 5, 5), (16, 6, 5, 5), (120, 400), (84, 120), (10, 84)]
TINY = lenet.Settings(
    0, images="digits", samples=64, batch=64, rate=0.01, kernel_samples=5, kernel_rows=3, optimiser="sgd"
)


def random_layers(rng):
    """Weights (out, channels, rows, columns) or (out, in), and biases that are not zero."""
    return [
        (rng.normal(size=shape) * (2 / np.prod(shape[1:])) ** 0.5, 0.1 * rng.normal(size=shape[0])) for shape in SHAPES
    ]


def as_network(layers, dtype=np.float32):
    """The same, as the library orders it: a patch goes by row, column and channel."""
    rows = [W.transpose(0, 2, 3, 1).reshape(len(W), -1) if W.ndim == 4 else W for W, _ in layers]
    return tuple(lenet.Layer(W.astype(dtype), b.astype(dtype)) for W, (_, b) in zip(rows, layers, strict=True))


def as_vector(layers):
    return np.concatenate([part.ravel() for layer in as_network(layers, np.float64) for part in layer])


def by_loops(layers, image):
    """What each layer computes of one image (28, 28), position by position."""
    x, found = np.pad(image, 2)[None], []
    for W, b in layers[:2]:
        side = x.shape[1] - 4
        z = np.empty((len(W), side, side))
        for i in range(side):
            for j in range(side):
                z[:, i, j] = np.einsum("ocuv,cuv->o", W, x[:, i : i + 5, j : j + 5]) + b
        found.append(z)
        x = np.empty((len(W), side // 2, side // 2))
        for i in range(side // 2):
            for j in range(side // 2):
                x[:, i, j] = np.maximum(z[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2], 0).max(axis=(1, 2))
    x = x.ravel()
    for W, b in layers[2:]:
        found.append(W @ x + b)
        x = np.maximum(found[-1], 0)
    return found


def by_xla(layers, x):
    """Outputs (count, 10) of images (count, 28, 28, 1) by XLA's own convolutions and pooling."""
    x = jnp.pad(x[..., 0], ((0, 0), (2, 2), (2, 2)))[:, None]
    for W, b in layers[:2]:
        x = jax.nn.relu(lax.conv(x, W, (1, 1), "VALID") + b[:, None, None])
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    x = x.reshape(len(x), -1)
    for W, b in layers[2:-1]:
        x = jax.nn.relu(x @ W.T + b)
    return x @ layers[-1][0].T + layers[-1][1]


def from_network(network):
    """Layers of the library in the order of the functions above."""
    weights = [np.asarray(W, np.float64) for W, _ in network]
    return [
        (
            W.reshape(shape[0], *shape[2:], shape[1]).transpose(0, 3, 1, 2) if len(shape) == 4 else W,
            np.asarray(b, float),
        )
        for W, (_, b), shape in zip(weights, network, SHAPES, strict=True)
    ]


def started(seed, alpha):
    return lenet.initial_network(jax.random.fold_in(jax.random.key(seed), 0), alpha)


def test_forward_agrees_with_loops(rng):
    layers, x = random_layers(rng), rng.normal(size=(2, 28, 28))
    found = lenet.preactivations(as_network(layers), x[..., None].astype(np.float32))
    for n in range(2):
        for mine, wanted in zip(found, by_loops(layers, x[n]), strict=True):
            np.testing.assert_allclose(mine[..., n], wanted, atol=2e-5 * np.abs(wanted).max())


@pytest.mark.compiles
def test_alpha_leaves_the_function_as_it_is(rng):
    x = rng.normal(size=(3, 28, 28, 1)).astype(np.float32)
    even, outputs = started(4, 1.0), jax.jit(lambda network: lenet.preactivations(network, x)[-1])
    for alpha in (0.1, 7.0):
        scaled = started(4, alpha)
        np.testing.assert_allclose(scaled[0].weight * alpha, even[0].weight, rtol=1e-6)
        np.testing.assert_allclose(scaled[-1].weight / alpha, even[-1].weight, rtol=1e-6)
        wanted = np.asarray(outputs(even))
        np.testing.assert_allclose(outputs(scaled), wanted, atol=1e-5 * np.abs(wanted).max())
    assert all(not b.any() for _, b in even)
    for W, _ in even:  # He: variance 2/fan-in, here within five standard errors
        assert float((W**2).mean()) * W.shape[1] / 2 == pytest.approx(1, abs=5 * (2 / W.size) ** 0.5)


@pytest.mark.compiles
def test_distances_against_whole_kernels_and_loops(rng):
    start, away = random_layers(rng), random_layers(rng)
    moved = [(W + 0.3 * dW, b + 0.3 * db) for (W, b), (dW, db) in zip(start, away, strict=True)]
    x = rng.normal(size=(4, 28, 28, 1)).astype(np.float32)
    ticks = []
    vectors = np.stack([as_vector(layers) for layers in (start, moved, away)])
    found = lenet.movement(vectors.astype(np.float32), x, 3, ticks.append)

    kernels, switches, jacobian = [], [], jax.jit(jax.jacrev(by_xla))
    for layers in (start, moved, away):
        with jax.enable_x64(True):
            slopes = jacobian(layers, x.astype(np.float64))
            J = np.concatenate([np.asarray(part).reshape(40, -1) for layer in slopes for part in layer], axis=1)
        assert J.shape == (40, 61_706)
        kernels.append(J @ J.T / np.linalg.norm(J @ J.T))
        seen = [by_loops(layers, image[..., 0])[:-1] for image in x]
        switches.append(np.concatenate([z.ravel() > 0 for one in seen for z in one]))
    wanted = [np.sum((K - kernels[0]) ** 2) / 2 for K in kernels]
    assert 0.01 < wanted[1] < wanted[2]
    np.testing.assert_allclose(found["kernel_distance"], wanted, rtol=1e-4)
    np.testing.assert_allclose(
        found["hamming_distance"], [np.mean(s != switches[0]) for s in switches], atol=2 / 26_032
    )
    np.testing.assert_allclose(found["parameter_distance"], np.linalg.norm(vectors - vectors[0], axis=1), rtol=1e-5)
    assert sum(ticks) == pytest.approx(1)


def test_small_digits_are_drawn_larger():
    drawn, small = lenet._images("digits", 10), images("digits")
    assert drawn.train_x.shape == (10, 28, 28, 1) and drawn.test_x.shape == (len(small.test_y), 28, 28, 1)
    assert drawn.train_x.mean() == pytest.approx(0, abs=1e-5) and drawn.train_x.std() == pytest.approx(1, abs=1e-5)
    place = (np.arange(28) + 0.5) * 8 / 28 - 0.5
    grid = np.meshgrid(place, place, indexing="ij")
    wanted = np.stack(
        [ndimage.map_coordinates(one[..., 0], grid, order=1, mode="nearest") for one in small.train_x[:10]]
    )
    wanted = (wanted - wanted.mean()) / wanted.std()
    np.testing.assert_allclose(drawn.train_x[..., 0], wanted, atol=1e-5)


@pytest.fixture(scope="module")
def one_step():
    """One batch that holds all images: one step of gradient descent, of two networks."""
    ticks = []
    cells = [replace(TINY, alpha=2.0), replace(TINY, rate=0.02)]
    return cells, lenet.train(cells, (0, 1), ticks.append), ticks


@pytest.mark.compiles
def test_a_step_is_the_mean_gradient_of_the_cross_entropy(one_step):
    cells, outcomes, ticks = one_step
    data = lenet._images("digits", TINY.samples)

    @jax.jit
    @jax.value_and_grad
    def slope_of(layers):
        logs = jax.nn.log_softmax(by_xla(layers, data.train_x.astype(np.float64)))
        return -logs[jnp.arange(len(data.train_y)), data.train_y].mean()

    for cell, outcome in zip(cells, outcomes, strict=True):
        layers = from_network(started(cell.seed, cell.alpha))
        with jax.enable_x64(True):
            value, slopes = slope_of(layers)
            length = np.sqrt(sum(float((part**2).sum()) for layer in slopes for part in layer))
        assert outcome.values["train_loss"][0] == pytest.approx(float(value), rel=1e-5)
        np.testing.assert_allclose(outcome.values["parameter_distance"], [0, cell.rate * length], rtol=1e-4)
        assert outcome.cause == "" and set(outcome.values) == set(lenet.variables(cell))
    assert sum(ticks) == pytest.approx(2)


@pytest.mark.slow
def test_networks_that_train_together_go_the_same_way(one_step, monkeypatch):
    """As on a GPU, where many small products at once are fast."""
    cells, alone, _ = one_step
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    for mine, wanted in zip(lenet.train(cells, (0, 1), lambda done: None), alone, strict=True):
        for name, value in wanted.values.items():
            np.testing.assert_allclose(mine.values[name], value, rtol=2e-3, atol=1e-6, err_msg=name)


@pytest.mark.slow  # the figure of the quick preset is tested too
def test_quick_preset():
    quick = preset("lenet", "quick")
    cells = [quick.cell(place) for place in np.ndindex(*quick.shape)]
    outcomes = lenet.train([*cells, replace(cells[0], rate=1e9)], quick.at, lambda done: None)
    again = lenet.train(cells[:1], quick.at, lambda done: None)[0]
    *good, diverged = [outcome.values for outcome in outcomes]
    assert [outcome.cause for outcome in outcomes[:-1]] == ["", "", ""]
    assert "diverged by epoch 1" in outcomes[-1].cause
    for name in lenet.variables(cells[0]):
        assert all(np.isfinite(values[name]).all() for values in good)
        assert np.isnan(diverged[name][1:]).all() and np.isfinite(diverged[name][0])
        np.testing.assert_array_equal(again.values[name], good[0][name])
    for name in ("kernel_distance", "hamming_distance", "parameter_distance"):
        assert all(values[name][0] == 0 and values[name][2] > 0 for values in good)
    starts = [values["train_loss"][0] for values in good]
    np.testing.assert_allclose(starts, starts[0], rtol=1e-5)
    assert all(values["train_loss"][2] < starts[0] for values in good)


@pytest.mark.parametrize("size", ["paper", "laptop"])
def test_other_presets_can_be_read(size):
    experiment = preset("lenet", size)
    assert len(experiment.axes["alpha"]) >= 3 and len(experiment.axes["seed"]) >= 2
    if size == "paper":
        cell = experiment.cell((0, 0))
        assert (cell.samples, cell.batch, cell.rate, cell.kernel_samples) == (60_000, 512, 1e-4, 6_000)
        assert experiment.at[-1] == 500 and len(experiment.axes["seed"]) == 8


def recorded(distances):
    """A store of two seeds and as many α, at two epochs; the last axis of `distances` is α."""
    values = np.stack([np.zeros_like(distances), distances], axis=-1)
    dims = ("seed", "alpha", "epoch")
    names = ("kernel_distance", "hamming_distance", "parameter_distance", "test_accuracy")
    alphas = 10.0 ** np.arange(distances.shape[1])
    return xarray.Dataset(
        {name: (dims, values) for name in names}, coords={"seed": [0, 1], "alpha": alphas, "epoch": [0, 30]}
    )


def test_report_says_whether_the_distances_go_by_alpha():
    told = lenet.report(recorded(np.array([[0.1, 0.4, 0.5], [0.3, 0.2, 0.9]])))
    assert [row["kernel distance"] for row in told.rows] == pytest.approx([0.2, 0.3, 0.7])
    assert told.numbers["hamming_distance_alpha_10"] == pytest.approx(0.3)
    assert told.numbers["kernel_distance_ordered"] == 1
    assert "After 30 epochs the kernel distance grows with α, from 0.2 (α = 1) to 0.7 (α = 100)" in told.sentence

    other = lenet.report(recorded(np.array([[0.5, 0.4], [0.5, np.nan]])))
    assert other.numbers["kernel_distance_ordered"] == 0
    assert "does not grow with α throughout: 0.5 (α = 1), 0.4 (α = 10)" in other.sentence
    assert "1 of 4 networks are not there" in other.sentence


def test_report_without_anything_to_compare():
    full = recorded(np.array([[0.5, 0.4], [0.5, 0.6]]))
    assert lenet.report(full.isel(alpha=0)) == lenet.report(full.isel(alpha=[0]))
    nothing = lenet.report(full * np.nan)
    assert nothing.numbers == {} and nothing.sentence.startswith("There are no two α with results")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"alpha": 0.0}, "alpha must be above 0, and it is 0"),
        ({"optimiser": "sdg"}, r"optimiser must be one of 'sgd', 'adam', and it is 'sdg' \(did you mean 'sgd'\?\)"),
        ({"images": "cifar10"}, "images must be one of 'mnist', 'fashion-mnist', 'digits', and it is 'cifar10'"),
        ({"kernel_samples": 65}, "kernel_samples must be at most 64, and it is 65"),
        ({"batch": 100}, "batch must be at most 64, and it is 100"),
        ({"kernel_rows": 0}, "kernel_rows must be at least 1, and it is 0"),
    ],
)
def test_settings_say_what_is_wrong(change, said):
    with pytest.raises(InvalidInput, match=said):
        replace(TINY, **change)


def test_more_samples_than_there_are():
    with pytest.raises(InvalidInput, match="samples must be at most 1,500, as digits has them, and it is 2,000"):
        lenet.train([replace(TINY, samples=2_000)], (0, 1), lambda done: None)
