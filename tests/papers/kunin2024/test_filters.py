"""The filters of a small ResNet: the network against plain loops and PyTorch, its training, and the smoothness."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from lazyrich._check import InvalidInput
from lazyrich.papers.data import Images
from lazyrich.papers.experiment import experiment as preset
from lazyrich.papers.kunin2024.experiments import filters, resnet
from lazyrich.papers.kunin2024.experiments.filters import (
    Settings,
    augmented,
    rate_at,
    report,
    smoothness,
    train,
    variables,
)

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.timeout(240)

CHANNELS, KERNEL, CLASSES = (2, 3, 2, 4), 5, 3
forward = jax.jit(resnet.forward, static_argnums=2)
initial_weights = jax.jit(resnet.initial_weights, static_argnums=(1, 2, 3, 4))
augment = jax.jit(augmented, static_argnums=2)


def convolved(x, w, stride):
    """(n, rows, columns, in) and (k, k, in, out), pixel by pixel."""
    n, rows, columns, _ = x.shape
    k = w.shape[0]
    padded = np.pad(x, ((0, 0), (k // 2, k // 2), (k // 2, k // 2), (0, 0)))
    out = np.zeros((n, rows // stride, columns // stride, w.shape[-1]))
    for i in range(rows // stride):
        for j in range(columns // stride):
            patch = padded[:, i * stride : i * stride + k, j * stride : j * stride + k]
            out[:, i, j] = np.tensordot(patch, w, axes=3)
    return out


def normalised(x, layer, moments=None):
    """Batch norm and ReLU, channel by channel; and the moments."""
    out, seen = np.empty_like(x), []
    for c in range(x.shape[-1]):
        values = x[..., c]
        mean, variance = (values.mean(), ((values - values.mean()) ** 2).mean()) if moments is None else moments[c]
        seen.append((mean, variance))
        z = (values - mean) / math.sqrt(variance + 1e-5) * layer["scale"][c] + layer["shift"][c]
        out[..., c] = np.where(z > 0, z, 0)
    return out, seen


def pooled(x):
    n, rows, columns, channels = x.shape
    out = np.empty((n, rows // 2, columns // 2, channels))
    for i in range(rows // 2):
        for j in range(columns // 2):
            out[:, i, j] = x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].max(axis=(1, 2))
    return out


def plain_network(weights, x, stride, moments=None):
    """The layers one after the other; `moments` by layer where they are given."""
    seen = {}

    def layer(name, x, stride=1):
        y = convolved(x, weights[name]["filters"], stride)
        y, seen[name] = normalised(y, weights[name], None if moments is None else moments[name])
        return y

    x = layer("prep", x, stride)
    x = pooled(layer("layer1", x))
    x = x + layer("layer1 residual 2", layer("layer1 residual 1", x))
    x = pooled(layer("layer2", x))
    x = pooled(layer("layer3", x))
    x = x + layer("layer3 residual 2", layer("layer3 residual 1", x))
    return 0.125 * x.max(axis=(1, 2)) @ weights["linear"], seen


def some_weights(rng):
    """Drawn by the library, with batch norms that are not the identity."""
    weights = jax.tree.map(np.array, initial_weights(jax.random.key(3), CHANNELS, KERNEL, 3, CLASSES))
    for name, *_ in resnet.LAYERS:
        for part, middle in (("scale", 1.0), ("shift", 0.0)):
            shape = weights[name][part].shape
            weights[name][part] = (middle + 0.3 * rng.normal(size=shape)).astype(np.float32)
    return weights


@pytest.mark.parametrize("stride", [1, 2])
def test_the_network_is_its_layers_one_after_the_other(rng, stride):
    weights, x = some_weights(rng), rng.normal(size=(6, 8 * stride, 8 * stride, 3)).astype(np.float32)
    logits, moments = forward(weights, x, stride)
    expected, seen = plain_network(weights, x.astype(float), stride)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)
    for name, *_ in resnet.LAYERS:
        np.testing.assert_allclose(np.transpose(moments[name]), seen[name], rtol=1e-4, atol=1e-5)


def test_a_test_uses_the_moments_that_are_given(rng):
    weights, x = some_weights(rng), rng.normal(size=(3, 8, 8, 3)).astype(np.float32)
    running = {
        name: (rng.normal(size=n).astype(np.float32), rng.uniform(0.5, 2, n).astype(np.float32))
        for name, n in ((name, len(weights[name]["scale"])) for name, *_ in resnet.LAYERS)
    }
    logits, kept = forward(weights, x, 1, running)
    expected, _ = plain_network(weights, x.astype(float), 1, {name: np.transpose(running[name]) for name in running})
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)
    one_by_one = np.concatenate([forward(weights, x[i : i + 1], 1, running)[0] for i in range(3)])
    np.testing.assert_allclose(one_by_one, logits, rtol=1e-4, atol=1e-6)
    assert all(np.array_equal(kept[name], running[name]) for name in running)


@pytest.mark.parametrize(("stride", "k"), [(1, 3), (1, 5), (2, 3), (2, 5), (4, 3), (4, 7)])
def test_gradients_of_a_convolution_are_those_of_its_sums(rng, stride, k):
    """A convolution is linear in both arguments: its gradient is the adjoint, ⟨s, C(x, w)⟩ = ⟨∂x, x⟩ = ⟨∂w, w⟩."""
    x, w = rng.normal(size=(2, 8, 8, 3)), rng.normal(size=(k, k, 3, 2))
    slopes, dx, dw = (
        rng.normal(size=(2, 8 // stride, 8 // stride, 2)),
        rng.normal(size=x.shape),
        rng.normal(size=w.shape),
    )
    x, w, slopes, dx, dw = (a.astype(np.float32) for a in (x, w, slopes, dx, dw))
    value, back = jax.vjp(resnet.convolution(stride), x, w)
    np.testing.assert_allclose(value, convolved(x, w, stride), rtol=1e-4, atol=1e-4)
    of_x, of_w = back(slopes)
    assert np.sum(of_x * dx) == pytest.approx(np.sum(slopes * convolved(dx, w, stride)), rel=1e-4, abs=1e-3)
    assert np.sum(of_w * dw) == pytest.approx(np.sum(slopes * convolved(x, dw, stride)), rel=1e-4, abs=1e-3)


def test_the_network_and_its_gradient_are_those_of_pytorch(rng):
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    weights, x = some_weights(rng), rng.normal(size=(5, 16, 16, 3)).astype(np.float32)
    labels = np.array([0, 2, 1, 1, 0])
    theirs = jax.tree.map(lambda value: torch.tensor(value, requires_grad=True), weights)

    def layer(name, x, stride=1):
        kernel = theirs[name]["filters"].permute(3, 2, 0, 1)
        y = functional.conv2d(x, kernel, stride=stride, padding=kernel.shape[-1] // 2)
        scale, shift = theirs[name]["scale"], theirs[name]["shift"]
        return functional.relu(functional.batch_norm(y, None, None, scale, shift, training=True))

    y = functional.max_pool2d(layer("layer1", layer("prep", torch.tensor(x).permute(0, 3, 1, 2), 2)), 2)
    y = y + layer("layer1 residual 2", layer("layer1 residual 1", y))
    y = functional.max_pool2d(layer("layer3", functional.max_pool2d(layer("layer2", y), 2)), 2)
    y = y + layer("layer3 residual 2", layer("layer3 residual 1", y))
    expected = 0.125 * y.amax((2, 3)) @ theirs["linear"]
    np.testing.assert_allclose(forward(weights, x, 2)[0], expected.detach().numpy(), rtol=1e-4, atol=1e-5)

    functional.cross_entropy(expected, torch.tensor(labels)).backward()
    slopes = jax.jit(jax.grad(lambda weights: entropy(resnet.forward(weights, x, 2)[0], labels)))(weights)
    for ours, parameter in zip(jax.tree.leaves(slopes), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(ours, parameter.grad.numpy(), rtol=1e-3, atol=1e-5)


def entropy(logits, labels):
    """Mean cross-entropy."""
    return -jax.numpy.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1).mean()


@pytest.mark.compiles
def test_steps_have_momentum_and_running_averages(rng):
    """Nesterov's: v ← m v + g, w ← w − rate (g + m v); the rate of a step is that before it, so the first has none."""
    settings = tiny(samples=16, batch=8, channels=CHANNELS, kernel=KERNEL, stride=2, epochs=2, rising=1.0)
    program = filters._program(settings, CLASSES)
    images = rng.normal(size=(16, 16, 16, 3)).astype(np.float32)
    data = Images(images, rng.integers(CLASSES, size=16).astype(np.int32), images[:1], np.zeros(1, np.int32))
    member = {"seed": np.uint32(5), "alpha": np.float32(0.5)}
    step = jax.jit(program.step)
    loss = lambda weights, x, y: (lambda made: (entropy(made[0], y), made[1]))(resnet.forward(weights, x, 2))
    slopes_of = jax.jit(jax.grad(loss, has_aux=True))

    state = jax.jit(program.init)(data, member)
    weights, running = jax.tree.map(np.array, (state.weights, state.running))
    velocity = jax.tree.map(np.zeros_like, weights)
    for i, rate in enumerate([0.0, 0.2, 0.4]):
        state = step(data, member, state, i)
        batch = np.asarray(state.order)[8 * (i % 2) :][:8]
        slopes, moments = jax.tree.map(np.array, slopes_of(weights, images[batch], data.train_y[batch]))
        velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, slopes)
        weights = jax.tree.map(lambda w, g, v, rate=rate: w - rate * (g + 0.9 * v), weights, slopes, velocity)
        running = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, running, moments)
        for ours, expected in zip(jax.tree.leaves(state[:2]), jax.tree.leaves((weights, running)), strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-4)
    assert sorted(np.asarray(state.order).tolist()) == list(range(16))


def test_weights_start_as_in_pytorch():
    weights = jax.tree.map(np.array, initial_weights(jax.random.key(0), (64, 8, 8, 16), 15, 3, 10))
    for values, inputs in ((weights["prep"]["filters"], 3 * 15**2), (weights["layer3"]["filters"], 8 * 3**2)):
        bound = inputs**-0.5
        assert 0.99 * bound < np.abs(values).max() <= bound
        assert np.var(values) == pytest.approx(bound**2 / 3, rel=0.1)
    assert weights["linear"].shape == (16, 10) and np.abs(weights["linear"]).max() <= 16**-0.5
    assert [weights[name]["filters"].shape[2:] for name, *_ in resnet.LAYERS] == [
        (3, 64), (64, 8), (8, 8), (8, 8), (8, 8), (8, 16), (16, 16), (16, 16)
    ]  # fmt: skip


def test_smoothness_is_the_squared_norm_of_the_convolution(rng):
    w = rng.normal(size=(2, 3, 6, 7))
    laplacian = [[-0.25, -0.5, -0.25], [-0.5, 2, -0.5], [-0.25, -0.5, -0.25]]
    for border, extra in (("valid", 0), ("same", 1)):
        for i, j in np.ndindex(2, 3):
            filt = np.pad(w[i, j] / np.sqrt((w[i, j] ** 2).sum()), extra)
            total = 0.0
            for row in range(filt.shape[0] - 2):
                for column in range(filt.shape[1] - 2):
                    total += sum(laplacian[a][b] * filt[row + a, column + b] for a in range(3) for b in range(3)) ** 2
            assert smoothness(w, border)[i, j] == pytest.approx(total, rel=1e-12)


def test_smoothness_by_hand():
    pixel = np.zeros((15, 15))
    pixel[7, 7] = -3.0
    assert smoothness(pixel) == pytest.approx(2**2 + 4 * 0.5**2 + 4 * 0.25**2)  # the kernel itself
    constant = np.ones((15, 15))
    assert smoothness(constant) == pytest.approx(13**2 / 15**2)  # −1 everywhere, since the printed entries sum to it
    assert smoothness(constant) < smoothness(pixel)
    assert smoothness(1e-6 * pixel) == pytest.approx(smoothness(pixel))
    assert np.isnan(smoothness(np.zeros((5, 5))))


def test_smoothness_asks_for_filters():
    with pytest.raises(InvalidInput, match="filters must have at least 3 rows"):
        smoothness(np.ones((4, 2)))
    with pytest.raises(InvalidInput, match="border must be one of"):
        smoothness(np.ones((4, 4)), "full")


def tiny(**changes):
    return replace(Settings(seed=0, images="photographs", crop=0, flip=False, cutout=0), **changes)


def test_crops_are_windows_of_the_reflected_image(rng):
    images = rng.normal(size=(40, 6, 6, 2)).astype(np.float32)
    cropped = np.asarray(augment(jax.random.key(0), images, tiny(crop=2)))
    seen = set()
    for image, crop in zip(images, cropped, strict=True):
        padded = np.pad(image, ((2, 2), (2, 2), (0, 0)), mode="reflect")
        places = [(i, j) for i, j in np.ndindex(5, 5) if np.array_equal(padded[i : i + 6, j : j + 6], crop)]
        assert len(places) == 1
        seen.update(places)
    assert {i for i, _ in seen} == {j for _, j in seen} == set(range(5))


def test_flips_are_left_to_right(rng):
    images = rng.normal(size=(40, 4, 6, 2)).astype(np.float32)
    flipped = np.asarray(augment(jax.random.key(0), images, tiny(flip=True)))
    same = [np.array_equal(a, b) for a, b in zip(flipped, images, strict=True)]
    turned = [np.array_equal(a, b[:, ::-1]) for a, b in zip(flipped, images, strict=True)]
    assert all(a != b for a, b in zip(same, turned, strict=True))
    assert 10 < sum(turned) < 30


def test_holes_are_squares_of_zeros():
    images = np.ones((60, 6, 7, 2), np.float32)
    holes = np.asarray(augment(jax.random.key(0), images, tiny(cutout=3))) == 0
    corners = set()
    for hole in holes:
        rows, columns = hole.any(axis=(1, 2)).nonzero()[0], hole.any(axis=(0, 2)).nonzero()[0]
        assert hole.sum() == 3 * 3 * 2 and np.ptp(rows) == np.ptp(columns) == 2
        corners.add((rows[0], columns[0]))
    assert {i for i, _ in corners} == set(range(4)) and {j for _, j in corners} == set(range(5))


def test_without_changes_images_stay_as_they_are(rng):
    images = rng.normal(size=(3, 6, 6, 2)).astype(np.float32)
    assert np.array_equal(augment(jax.random.key(0), images, tiny()), images)


def test_the_rate_goes_up_and_down():
    published = Settings(seed=0)
    expected = {0: 0, 2.5: 0.2, 5: 0.4, 14.5: 0.2, 24: 0, 30: 0}
    for epoch, rate in expected.items():
        assert float(rate_at(published, epoch)) == pytest.approx(rate, abs=1e-7)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": -1}, "seed must be at least 0, and it is -1."),
        ({"alpha": 0.0}, "alpha must be above 0, and it is 0."),
        ({"images": "digits"}, "images must be one of 'cifar10', 'photographs', and it is 'digits'"),
        ({"channels": (64, 128)}, "channels must hold four numbers, such as"),
        ({"channels": (64, 128, 0, 1)}, "each of channels must be at least 1, and it is 0."),
        ({"kernel": 14}, "kernel must be odd, and it is 14."),
        ({"stride": 3}, "stride must be 1, 2 or 4, so that the images can be halved, and it is 3."),
        ({"momentum": 1.0}, "momentum must lie in [0, 1), and it is 1."),
        ({"rising": 24.0}, "rising must be below epochs (24), and it is 24."),
        ({"batch": 60_000}, "batch must be at most samples (50,000), and it is 60,000."),
        ({"cutout": 32}, "cutout must be at most 31, and it is 32."),
    ],
)
def test_settings_that_cannot_be_used(changes, message):
    with pytest.raises(InvalidInput) as caught:
        Settings(**{"seed": 0} | changes)
    assert message in str(caught.value)


def test_more_images_than_there_are():
    with pytest.raises(InvalidInput, match=r"samples must be at most 6,000, as photographs has them, and it is 7,000"):
        train([tiny(samples=7000, channels=(1, 1, 1, 1), stride=4, batch=10)], (0,), lambda cells: None)


def test_images_are_normalised_colour_by_colour():
    data = filters._images(tiny(samples=6000))
    np.testing.assert_allclose(data.train_x.mean((0, 1, 2), dtype=float), 0, atol=1e-5)
    np.testing.assert_allclose(data.train_x.std((0, 1, 2), dtype=float), 1, atol=1e-5)
    fewer = filters._images(tiny(samples=512))
    assert np.array_equal(fewer.train_x, data.train_x[:512]) and np.array_equal(fewer.test_x, data.test_x)


@pytest.fixture(scope="module")
def quick():
    """The quick preset's block of networks, and what the progress bar was told. (Its figure is tested too.)"""
    experiment = preset("filters", "quick")
    cells, told = [experiment.cell(place) for place in experiment.places(experiment.block_at(0))], []
    return cells, train(cells, experiment.at, told.append), told


@pytest.mark.slow
def test_the_quick_preset_trains(quick):
    cells, outcomes, told = quick
    assert sum(told) == pytest.approx(len(cells))
    for cell, outcome in zip(cells, outcomes, strict=True):
        assert outcome.cause == ""
        assert {name: value.shape[1:] for name, value in outcome.values.items()} == {
            name: variable.shape for name, variable in variables(cell).items()
        }
        assert all(np.isfinite(value).all() for value in outcome.values.values())
        kernels = outcome.values["filters"]
        np.testing.assert_allclose(
            outcome.values["smoothness"], [smoothness(kernel).mean() for kernel in kernels], rtol=1e-6
        )


@pytest.mark.slow
def test_alpha_divides_the_filters_and_leaves_the_function(quick):
    """What follows the first layer is the same, up to the 1e-5 beside the variance of large enough filters."""
    cells, outcomes, _ = quick
    assert [cell.alpha for cell in cells] == [0.1, 1.0, 10.0]
    first, *others = [{name: value[0] for name, value in outcome.values.items()} for outcome in outcomes]
    for cell, other in zip(cells[1:], others, strict=True):
        np.testing.assert_allclose(other["filters"] * cell.alpha, first["filters"] * cells[0].alpha, rtol=1e-5)
        assert other["train_loss"] == pytest.approx(first["train_loss"], abs=1e-3)
        assert other["smoothness"] == pytest.approx(first["smoothness"], rel=1e-5)


@pytest.mark.slow
def test_smaller_filters_turn_further(quick):
    """And become smoother even in two short epochs: α divides them."""
    ends = [outcome.values["smoothness"][-1] for outcome in quick[1]]
    assert ends[0] > ends[1] > ends[2]
    unit = [outcome.values["filters"] / np.linalg.norm(outcome.values["filters"], axis=(-2, -1), keepdims=True)
            for outcome in quick[1]]  # fmt: skip
    overlaps = [float((filt[0] * filt[-1]).sum(axis=(-2, -1)).mean()) for filt in unit]
    assert overlaps[0] > 0.9 > overlaps[1] > overlaps[2]


@pytest.mark.slow
def test_a_cell_is_the_same_in_any_company(quick):
    cells, outcomes, _ = quick
    (alone,) = train(cells[1:2], preset("filters", "quick").at, lambda done: None)
    for name, value in alone.values.items():
        assert np.array_equal(value, outcomes[1].values[name]), name


def as_dataset(smooth, test_accuracy=0.5):
    """Records (seed, alpha, epoch) of one's own making."""
    xarray = pytest.importorskip("xarray")
    smooth = np.asarray(smooth, float)
    where = ("seed", "alpha", "epoch")
    accuracy = np.where(np.isfinite(smooth), test_accuracy, np.nan)
    coordinates = {"alpha": [10.0, 0.1, 1.0][: smooth.shape[1]], "epoch": [0, 4]}
    parts = {"smoothness": smooth, "train_accuracy": accuracy, "test_accuracy": accuracy, "train_loss": accuracy}
    return xarray.Dataset({name: (where, value) for name, value in parts.items()}, coordinates)


def test_a_report_says_which_filters_are_smoother():
    found = report(as_dataset([[[4, 1], [4, 3], [4, 2]], [[4, 2], [4, 4], [4, 2.5]]]))
    assert [row["alpha"] for row in found.rows] == [0.1, 1.0, 10.0]
    assert [row["smoothness"] for row in found.rows] == [3.5, 2.25, 1.5]
    assert [row["networks"] for row in found.rows] == [2, 2, 2]
    assert found.numbers["smoothness_alpha_10"] == 1.5 and found.numbers["test_accuracy_alpha_0.1"] == 0.5
    assert found.sentence == (
        "Filters that start smaller end smoother: the normalised Laplacian goes from 4 at the start to 3.5 for filters"
        " ÷ 0.1, 2.25 for filters ÷ 1, 1.5 for filters ÷ 10; test accuracies lie between 50.0% and 50.0%."
    )


def test_a_report_says_so_where_they_are_not():
    assert report(as_dataset([[[4, 3], [4, 2], [4, 1]]])).sentence.startswith(
        "Filters that start smaller do not end smoother here: "
    )
    assert "smoother, though not from each α to the next: " in report(as_dataset([[[4, 1], [4, 2], [4, 3]]])).sentence


def test_a_report_on_what_is_there_so_far():
    nan = np.nan
    found = report(as_dataset([[[4, 1], [4, 3], [nan, nan]], [[4, nan], [4, 3], [nan, nan]]]))
    assert [row["networks"] for row in found.rows] == [2, 0, 1]
    assert np.isnan(found.rows[1]["smoothness"])
    assert found.sentence.endswith("3 of 6 networks have no final filters: not trained yet, or diverged.")
    assert report(as_dataset([[[4, 1]]])).sentence.startswith("Nothing can be said about the filters yet")
    alone = as_dataset([[[4, 1]]]).isel(alpha=0)
    assert report(alone).sentence == "There are no filters to compare, since alpha is not an axis."


@pytest.mark.parametrize("size", ["paper", "laptop", "quick"])
def test_presets_are_experiments(size):
    experiment = preset("filters", size)
    assert experiment.unit == filters.UNIT and experiment.blocks >= (1 if size == "quick" else 2)
    assert experiment.at[-1] == experiment.cell((0, 0)).epochs
    if size == "paper":
        assert experiment.cell((0, 2)) == Settings(seed=0)  # all defaults are the published values
