"""Training on the random hierarchy: against gradients, momentum and schedule written out in NumPy, and PyTorch's."""

from __future__ import annotations

import tomllib
from dataclasses import fields, replace
from importlib.resources import files
from itertools import product

import numpy as np
import pytest

from lazyrich._check import InvalidInput
from lazyrich.papers.kunin2024.experiments import rhm

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.timeout(120)

SMALL = rhm.Settings(seed=0, points=64, test=100, L=2, classes=4, m=4, v=4, width=16, hidden=2, batch=16, epochs=5)


def one_hot(tokens, v):
    ones = np.zeros((len(tokens), len(tokens[0]) * v))
    for row, line in enumerate(tokens):
        for place, symbol in enumerate(line):
            ones[row, place * v + int(symbol)] = 1
    return ones


def logits_by_hand(weights, X):
    layers = [X]
    for W in weights[:-1]:
        layers.append(np.maximum(layers[-1] @ W / len(W) ** 0.5, 0))
    return layers, layers[-1] @ weights[-1] / len(weights[-1])


def loss_and_slopes(weights, X, labels):
    """Mean cross-entropy, and its derivative by each layer, from the readout back."""
    layers, logits = logits_by_hand(weights, X)
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    loss = -np.mean(np.log(shares[np.arange(len(X)), labels]))
    error = (shares - np.eye(logits.shape[1])[labels]) / len(X)
    scales = [len(W) ** 0.5 for W in weights[:-1]] + [len(weights[-1])]
    slopes = []
    for h, W, scale in reversed(list(zip(layers, weights, scales, strict=True))):
        slopes.append(h.T @ error / scale)
        error = (error @ W.T / scale) * (h > 0)
    return loss, slopes[::-1]


def batches_of(settings, epoch):
    order = jax.random.permutation(jax.random.fold_in(jax.random.key(rhm._ORDER), epoch), settings.points)
    return np.asarray(order).reshape(-1, settings.batch)


def trained_by_hand(weights, member, settings, epochs):
    X, labels = one_hot(member.tokens, settings.v), member.labels.astype(int)
    weights, velocity = [np.asarray(W, float) for W in weights], [0.0] * len(weights)
    for epoch in range(epochs):
        falls = 0.8 * settings.epochs
        rate = 0.1 * settings.width * (1 + np.cos(np.pi * epoch / falls)) / 2 if epoch < falls else 0.0
        for batch in batches_of(settings, epoch):
            _, slopes = loss_and_slopes(weights, X[batch], labels[batch])
            velocity = [0.9 * v + g for v, g in zip(velocity, slopes, strict=True)]
            weights = [W - rate * v for W, v in zip(weights, velocity, strict=True)]
    return weights


def trained(settings, epochs):
    program, member = rhm.program(replace(settings, seed=0, alpha=1.0)), rhm.member(settings)
    state = start = program.init(None, member)
    step = jax.jit(program.step)
    for epoch in range(epochs):
        state = step(None, member, state, epoch)
    return member, start[0], state[0]


def preset(name):
    return tomllib.loads((files("lazyrich.papers.kunin2024.experiments") / "presets" / f"rhm-{name}.toml").read_text())


def cells_of(content):
    axes = {k: list(range(a["range"])) if isinstance(a, dict) else a for k, a in content["axes"].items()}
    return [
        rhm.Settings(**content["settings"], **dict(zip(axes, cell, strict=True))) for cell in product(*axes.values())
    ]


class TestTraining:
    @pytest.mark.compiles
    @pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
    @pytest.mark.parametrize("double", [True, False])
    def test_against_numpy(self, alpha, double):
        settings = replace(SMALL, seed=3, alpha=alpha)
        with jax.enable_x64(double):
            member, start, end = trained(settings, 5)
            by_hand = trained_by_hand(start, member, settings, 5)
        for W, expected, before in zip(end, by_hand, start, strict=True):
            moved, error = (np.linalg.norm(expected - np.asarray(other, float)) for other in (before, W))
            assert moved > 0.01
            assert error < (1e-10 * moved if double else 1e-5 * np.linalg.norm(expected))

    def test_against_pytorch(self):
        """Its momentum and its cosine are those of the original code."""
        torch = pytest.importorskip("torch")
        member, start, end = trained(SMALL, 4)
        X, labels = torch.tensor(one_hot(member.tokens, 4)), torch.tensor(member.labels.astype(int))
        weights = [torch.tensor(np.asarray(W, float), requires_grad=True) for W in start]
        optimiser = torch.optim.SGD(weights, lr=0.1 * SMALL.width, momentum=0.9)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=SMALL.epochs * 0.8)
        for epoch in range(4):
            for batch in torch.tensor(batches_of(SMALL, epoch)):
                h = X[batch]
                for W in weights[:-1]:
                    h = (h @ W / len(W) ** 0.5).relu()
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(h @ weights[-1] / len(weights[-1]), labels[batch]).backward()
                optimiser.step()
            schedule.step()
        for W, theirs in zip(end, weights, strict=True):
            np.testing.assert_allclose(W, theirs.detach(), rtol=1e-4, atol=1e-5)

    @pytest.mark.compiles
    def test_nothing_changes_after_four_fifths_of_the_epochs(self):
        (outcome,) = rhm.train([SMALL], (0, 3, 4, 5), lambda cells: None)
        start, third, fourth, fifth = outcome.values["train_loss"]
        assert start > third > fourth == fifth

    @pytest.mark.compiles
    def test_what_is_measured(self):
        (outcome,) = rhm.train([SMALL], (0, 5), lambda cells: None)
        member, start, end = trained(SMALL, 5)
        for k, weights in enumerate((start, end)):
            weights = [np.asarray(W, float) for W in weights]
            for name, tokens, labels in (("train", *member[2:4]), ("test", *member[4:6])):
                _, logits = logits_by_hand(weights, one_hot(tokens, 4))
                assert outcome.values[f"{name}_accuracy"][k] == pytest.approx(np.mean(logits.argmax(axis=1) == labels))
            loss, _ = loss_and_slopes(weights, one_hot(member.tokens, 4), member.labels.astype(int))
            assert outcome.values["train_loss"][k] == pytest.approx(loss, rel=1e-5)
        assert set(outcome.values) == set(rhm.variables(SMALL))

    def test_one_that_diverges_does_not_stop_the_others(self):
        cells = [SMALL, replace(SMALL, alpha=1e-15)]
        fine, lost = rhm.train(cells, (0, 2), lambda cells: None)
        assert fine.cause == "" and np.isfinite(fine.values["train_loss"]).all()
        assert lost.cause.startswith("diverged by epoch 2")
        assert np.isfinite(lost.values["train_loss"]).tolist() == [True, False]


class TestStart:
    @pytest.mark.parametrize("alpha", [0.03, 10.0])
    def test_alpha_leaves_the_function_unchanged(self, alpha):
        program = rhm.program(SMALL)
        member = rhm.member(SMALL)
        scaled, _ = program.init(None, rhm.member(replace(SMALL, alpha=alpha)))
        plain, _ = program.init(None, member)
        np.testing.assert_allclose(scaled[0] * np.float32(alpha), plain[0], rtol=1e-6)
        np.testing.assert_allclose(scaled[-1] / np.float32(alpha), plain[-1], rtol=1e-6)
        np.testing.assert_array_equal(scaled[1], plain[1])
        _, logits = logits_by_hand([np.asarray(W, float) for W in scaled], one_hot(member.tokens, 4))
        _, expected = logits_by_hand([np.asarray(W, float) for W in plain], one_hot(member.tokens, 4))
        np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-7)

    def test_weights_are_standard_normal(self):
        settings = rhm.Settings(seed=1)
        weights, velocity = rhm.program(replace(settings, seed=0)).init(None, rhm.member(settings))
        assert [W.shape for W in weights] == [(64, 64)] * 3 + [(64, 8)]
        for W in weights:
            assert abs(float(W.mean())) < 4 / W.size**0.5
            assert abs(float((W**2).mean()) - 1) < 4 * (2 / W.size) ** 0.5
        assert all((leaf == 0).all() for leaf in jax.tree.leaves(velocity))

    def test_same_seed_same_samples_for_every_alpha(self):
        first, second, other = (rhm.member(replace(SMALL, seed=s, alpha=a)) for s, a in ((0, 0.1), (0, 10.0), (1, 0.1)))
        assert all((a == b).all() for a, b in zip(first[2:], second[2:], strict=True))
        assert (first.tokens != other.tokens).any() and (first.alpha, second.alpha) == (np.float32(0.1), 10)

    @pytest.mark.parametrize(("points", "test"), [(64, 100), (192, 64)])
    def test_samples_are_held_out(self, points, test):
        settings = replace(SMALL, points=points)
        member = rhm.member(settings)
        rules = rhm._hierarchy(settings)
        labels, train = rules.parse(member.tokens)
        test_labels, held_out = rules.parse(member.test_tokens)
        assert (len(train), len(held_out)) == (points, test)
        assert len({*train.tolist(), *held_out.tolist()}) == points + test
        assert (labels == member.labels).all() and (test_labels == member.test_labels).all()


class TestBlocks:
    def test_cells_come_back_in_their_order(self):
        """Two numbers of points in one block, mixed: two groups."""
        given = ((0, 64, 1.0), (0, 32, 1.0), (1, 64, 10.0), (1, 32, 10.0))
        cells = [replace(SMALL, seed=seed, points=points, alpha=alpha) for seed, points, alpha in given]
        together = rhm.train(cells, (0, 2), lambda cells: None)
        for cell, outcome in list(zip(cells, together, strict=True))[::2]:
            (alone,) = rhm.train([cell], (0, 2), lambda cells: None)
            for name, value in outcome.values.items():
                np.testing.assert_allclose(value, alone.values[name], rtol=1e-4)
        losses = [outcome.values["train_loss"][-1] for outcome in together]
        assert len(set(losses)) == 4

    @pytest.mark.compiles
    def test_quick_preset(self):
        content = preset("quick")
        cells, at, work = cells_of(content), tuple(content["at"]), []
        outcomes = rhm.train(cells, at, work.append)
        assert sum(work) == pytest.approx(len(cells)) and len(outcomes) == len(cells)
        assert not any(outcome.cause for outcome in outcomes)
        for outcome in outcomes:
            assert all(value.shape == (len(at),) for value in outcome.values.values())
            assert outcome.values["train_loss"][-1] < outcome.values["train_loss"][0] / 2
        many = [o.values["test_accuracy"][-1] for o, cell in zip(outcomes, cells, strict=True) if cell.points == 128]
        few = [o.values["test_accuracy"][-1] for o, cell in zip(outcomes, cells, strict=True) if cell.points == 32]
        assert np.mean(many) > 0.8 and np.mean(many) > np.mean(few) + 0.1

    def test_same_settings_same_bits(self):
        (first,), (second,) = (rhm.train([SMALL], (0, 5), lambda cells: None) for _ in range(2))
        assert all((first.values[name] == second.values[name]).all() for name in first.values)

    @pytest.mark.parametrize("name", ["paper", "laptop", "quick"])
    def test_presets_are_complete(self, name):
        content = preset(name)
        cells = cells_of(content)
        assert content["experiment"] == "rhm"
        assert content["at"][0] == 0 and content["at"][-1] == 0.8 * cells[0].epochs
        if name != "quick":  # the published model and network, and nothing but seed, points and alpha changed
            ours = {field.name for field in fields(rhm.Settings)} - {"seed", "points", "alpha"}
            assert {(part, getattr(cell, part)) for cell in cells for part in ours} == {
                (part, getattr(rhm.Settings(seed=0), part)) for part in ours
            }
        if name == "paper":
            assert {cell.alpha for cell in cells} == {0.03, 0.1, 0.3, 1, 3, 10} and len({c.seed for c in cells}) == 6
            points = sorted({cell.points for cell in cells})
            assert points[0] / 131_072 == pytest.approx(0.01, rel=0.05) and points[-1] == 131_072 // 2


class TestReport:
    @staticmethod
    def data(accuracy, points=(1000, 2000, 4000), alphas=(0.1, 1.0, 10.0)):
        """accuracy: (alpha, points), the same for two seeds but for ± 0.05, and chance at the start."""
        xarray = pytest.importorskip("xarray")
        last = np.asarray(accuracy, float)[None] + np.array([-0.05, 0.05])[:, None, None]
        values = np.stack([np.full_like(last, 1 / 8), last], axis=-1)
        dims = ("seed", "alpha", "points", "epoch")
        coords = {"seed": [0, 1], "alpha": list(alphas), "points": list(points), "epoch": [0, 200]}
        return xarray.Dataset({"test_accuracy": (dims, values)}, coords)

    def test_effect(self):
        rows, sentence, numbers = rhm.report(self.data([[0.2, 0.5, 0.9], [0.2, 0.6, 0.9], [0.3, 0.8, 0.9]]))
        assert [row["alpha"] for row in rows] == [0.1, 1.0, 10.0]
        assert rows[2]["2,000 points"] == pytest.approx(0.8)
        assert numbers["complexity_alpha_10"] == pytest.approx(1000 * 2**0.8)  # 0.7 is 4/5 of the way
        assert numbers["complexity_alpha_0.1"] == pytest.approx(2000 * 2**0.5)
        assert numbers["ratio"] == pytest.approx(2**0.7)
        assert rows[0]["points to 70%"] == "2,828"
        assert sentence == (
            "To 70% test accuracy an upstream start (α = 10) takes 1,741 points, a downstream start (α = 0.1) 2,828:"
            " the larger α needs fewer, by a factor of 1.62."
        )

    def test_order_of_the_axes_does_not_matter(self):
        data = self.data([[0.2, 0.5, 0.9], [0.2, 0.6, 0.9], [0.3, 0.8, 0.9]])
        turned = data.isel(alpha=[2, 0, 1], points=[1, 2, 0]).transpose("points", "alpha", "epoch", "seed")
        assert rhm.report(turned) == rhm.report(data)

    def test_no_effect(self):
        _, sentence, numbers = rhm.report(self.data([[0.3, 0.8, 0.9], [0.2, 0.6, 0.9], [0.2, 0.5, 0.9]]))
        assert numbers["ratio"] == pytest.approx(2**-0.7)
        assert sentence.endswith(": the larger α does not need fewer.")

    def test_not_reached(self):
        rows, sentence, numbers = rhm.report(self.data([[0.2, 0.3, 0.5], [0.2, 0.6, 0.9], [0.3, 0.8, 0.9]]))
        assert rows[0]["points to 70%"] == "not reached" and np.isnan(numbers["complexity_alpha_0.1"])
        assert numbers["ratio_at_least"] == pytest.approx(4 / 2**0.8) and "ratio" not in numbers
        assert "(α = 0.1) more than 4,000: the larger α needs fewer, by a factor of at least 2.30." in sentence

    def test_passed_from_the_first(self):
        rows, sentence, numbers = rhm.report(self.data([[0.2, 0.5, 0.9], [0.2, 0.6, 0.9], [0.8, 0.9, 0.9]]))
        assert rows[2]["points to 70%"] == "at most 1,000" and np.isnan(numbers["complexity_alpha_10"])
        assert numbers["ratio_at_least"] == pytest.approx(2 * 2**0.5)
        assert "takes at most 1,000 points" in sentence and "at least 2.83" in sentence

    def test_cannot_be_told(self):
        _, sentence, _ = rhm.report(self.data([[0.2, 0.3, 0.5], [0.2, 0.6, 0.9], [0.3, 0.4, 0.5]]))
        assert sentence.endswith("which of them needs fewer cannot be told from this.")

    def test_incomplete(self):
        data = self.data([[0.2, 0.5, 0.9], [0.2, 0.6, 0.9], [0.3, 0.8, 0.9]])
        data["test_accuracy"][0, 0, 1, 1] = np.nan  # one seed is there still, 0.05 above the mean
        data["test_accuracy"][:, 2, 1, 1] = np.nan
        rows, sentence, numbers = rhm.report(data)
        assert rows[0]["2,000 points"] == pytest.approx(0.55) and np.isnan(rows[2]["2,000 points"])
        assert numbers["complexity_alpha_10"] == pytest.approx(1000 * 4 ** (0.4 / 0.6))
        assert sentence.endswith("3 of 18 networks have no final accuracy: not trained yet, or diverged.")

    def test_nothing_yet(self):
        rows, sentence, _ = rhm.report(self.data(np.full((3, 3), np.nan)))
        assert "cannot be told" in sentence and "18 of 18" in sentence and len(rows) == 3

    def test_without_the_axes(self):
        data = self.data([[0.2, 0.5, 0.9], [0.2, 0.6, 0.9], [0.3, 0.8, 0.9]])
        assert rhm.report(data.isel(points=0, drop=True)).sentence.startswith("There is no sample complexity")
        assert rhm.report(data.isel(alpha=[0])).sentence == "There is one α, and no other to compare it with."


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"seed": -1}, "seed must be at least 0, and it is -1"),
        ({"alpha": 0.0}, "alpha must be above 0, and it is 0"),
        ({"points": 100}, r"points must be a multiple of batch \(128\), so that an epoch has them all, and it is 100"),
        ({"points": 131_072}, "points must be below the 131,072 inputs of the hierarchy.* and it is 131,072"),
        ({"test": 0}, "test must be at least 1, and it is 0"),
        ({"m": 9}, r"m · classes must be at most v\^s = 64"),
        ({"momentum": 1.0}, r"momentum must lie in \[0, 1\), and it is 1"),
        ({"width": 0}, "width must be at least 1, and it is 0"),
        ({"hidden": 1.5}, "hidden must be a whole number, and it is 1.5"),
        ({"rate": -0.1}, "rate must be above 0, and it is -0.1"),
        ({"epochs": 0}, "epochs must be at least 1, and it is 0"),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_settings_that_cannot_be(wrong, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        rhm.Settings(**{"seed": 0} | wrong)
