"""Grokking: the shortened transformer is the whole one, Adam does what it should, and the report is honest."""

from __future__ import annotations

import dataclasses
import itertools
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy.special import erf

import lazyrich.papers.kunin2024.experiments
from lazyrich._check import InvalidInput
from lazyrich.papers.kunin2024.experiments import grokking
from lazyrich.papers.kunin2024.experiments.grokking import (
    Affine,
    Settings,
    Transformer,
    initial_network,
    logits,
    pairs,
    report,
    train,
    variables,
)

pytestmark = pytest.mark.timeout(300)

PARTS = ("train", "validation")
SMALL = {"p": 5, "dim": 4, "heads": 2, "batch": 10, "every": 1}


# --- The data ---------------------------------------------------------------------------------------------------------


def test_every_pair_is_there_once():
    found = [tuple(pair) for pair in pairs(7, seed=3).tolist()]
    assert sorted(found) == [(x, y) for x in range(7) for y in range(1, 7)]


def test_the_order_of_the_pairs_follows_from_the_seed():
    assert np.array_equal(pairs(7, seed=1), pairs(7, seed=1))
    assert not np.array_equal(pairs(7, seed=1), pairs(7, seed=2))


def test_the_published_split_is_in_halves():
    assert Settings(seed=0).samples == 97 * 96 // 2
    assert len(pairs(97, seed=0)) == 97 * 96


# --- The network, in NumPy: every position, every query, under a causal mask -----------------------------------------


def layer_norm(h, norm):
    return (h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 1e-5) * norm.weight + norm.bias


def whole_transformer(network, samples, heads):
    """Answers at the last of four positions, after all four went through the block."""
    p, dim = len(network.tokens) - 2, network.tokens.shape[1]
    x, y = samples.T
    sequence = np.stack([x, np.full_like(x, p + 1), y, np.full_like(x, p)], axis=1)
    h = layer_norm(network.tokens[sequence] + network.positions, network.norms[0])
    projected = h @ network.project.weight + network.project.bias
    attended = np.zeros_like(h)
    for k in range(heads):
        mine = slice(k * dim // heads, (k + 1) * dim // heads)
        query, key, value = (projected[..., part * dim : (part + 1) * dim][..., mine] for part in range(3))
        scores = query @ key.swapaxes(1, 2) / np.sqrt(dim // heads)
        scores[:, *np.triu_indices(4, 1)] = -np.inf
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        attended[..., mine] = weights / weights.sum(axis=-1, keepdims=True) @ value
    h = h + attended @ network.mix.weight + network.mix.bias
    wide = layer_norm(h, network.norms[1]) @ network.widen.weight + network.widen.bias
    h = h + wide * (1 + erf(wide / np.sqrt(2))) / 2 @ network.narrow.weight + network.narrow.bias
    return (layer_norm(h, network.norms[2]) @ network.head)[:, -1]


def judged(network, samples, heads, tau):
    """Mean cross-entropy, and the share of right answers."""
    answers = tau * whole_transformer(network, samples, heads)
    labels = [x * y % (len(network.tokens) - 2) for x, y in samples.tolist()]
    losses = np.log(np.exp(answers).sum(axis=1)) - answers[range(len(samples)), labels]
    return losses.mean(), np.mean([np.argmax(row) == label for row, label in zip(answers, labels, strict=True)])


def shortened(network, samples, heads):
    """What the library computes."""
    import jax

    return np.asarray(jax.jit(logits, static_argnums=2)(network, samples, heads))


def any_network(rng, p, dim):
    """Nothing zero, nothing one: a bias that goes missing is seen."""
    matrix = lambda *shape: rng.normal(size=shape).astype(np.float32)
    affine = lambda n, m: Affine(matrix(n, m), matrix(m))
    norms = tuple(Affine(matrix(dim), matrix(dim)) for _ in range(3))
    return Transformer(
        matrix(p + 2, dim), matrix(4, dim), norms, affine(dim, 3 * dim), affine(dim, dim),
        affine(dim, 4 * dim), affine(4 * dim, dim), matrix(dim, p + 2),
    )  # fmt: skip


def test_the_last_position_is_that_of_the_whole_causal_transformer(rng):
    network, samples = any_network(rng, p=7, dim=12), pairs(7, seed=0)
    expected = whole_transformer(network, samples, heads=3)
    assert np.allclose(shortened(network, samples, 3), expected, atol=2e-5 * np.abs(expected).max(), rtol=0)


def test_the_transformer_is_that_of_pytorch(rng):
    torch = pytest.importorskip("torch")
    p, dim, heads = 7, 12, 3
    network, samples = any_network(rng, p, dim), pairs(7, seed=0)
    attention, gelu = torch.nn.MultiheadAttention(dim, heads), torch.nn.GELU()
    linear = lambda pair: torch.nn.Linear(*pair.weight.shape)
    widen, narrow = linear(network.widen), linear(network.narrow)
    norms = [torch.nn.LayerNorm(dim) for _ in range(3)]
    with torch.no_grad():
        for module, given in ((widen, network.widen), (narrow, network.narrow), (attention.out_proj, network.mix)):
            module.weight.copy_(torch.tensor(given.weight.T))
            module.bias.copy_(torch.tensor(given.bias))
        for norm, given in zip(norms, network.norms, strict=True):
            norm.weight.copy_(torch.tensor(given.weight))
            norm.bias.copy_(torch.tensor(given.bias))
        attention.in_proj_weight.copy_(torch.tensor(network.project.weight.T))
        attention.in_proj_bias.copy_(torch.tensor(network.project.bias))
        x, y = torch.tensor(samples.T, dtype=torch.long)
        sequence = torch.stack([x, torch.full_like(x, p + 1), y, torch.full_like(x, p)])
        h = torch.tensor(network.tokens)[sequence] + torch.tensor(network.positions)[:, None]
        h = norms[0](h)
        mask = torch.triu(torch.full((4, 4), -torch.inf), diagonal=1)
        h = h + attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        h = h + narrow(gelu(widen(norms[1](h))))
        expected = (norms[2](h) @ torch.tensor(network.head))[-1].numpy()
    assert np.allclose(shortened(network, samples, heads), expected, atol=2e-5 * np.abs(expected).max(), rtol=0)


# --- The start --------------------------------------------------------------------------------------------------------


def spread(values):
    """Of uniform numbers on ±b: the largest is close to b, and the deviation is b/√3."""
    return np.abs(values).max(), values.std() * np.sqrt(3)


def test_the_start_is_that_of_pytorch():
    network = initial_network(97, 128, 1.0, seed=0)
    for values, bound in (
        (network.project.weight, np.sqrt(6 / (4 * 128))),
        (network.mix.weight, 128**-0.5),
        (network.widen.weight, 128**-0.5),
        (network.narrow.weight, 512**-0.5),
        (network.head, 128**-0.5),
    ):
        assert spread(values) == pytest.approx((bound, bound), rel=0.02)
    assert spread(network.widen.bias) == pytest.approx((128**-0.5, 128**-0.5), rel=0.1)
    assert spread(network.narrow.bias) == pytest.approx((512**-0.5, 512**-0.5), rel=0.15)
    assert network.tokens.std() == pytest.approx(1, rel=0.02)
    assert not network.project.bias.any() and not network.mix.bias.any()
    shapes = [leaf.shape for leaf in (network.tokens, network.positions, network.head)]
    assert shapes == [(99, 128), (4, 128), (128, 99)]


def test_alpha_divides_the_embeddings_and_nothing_else():
    one, ten = initial_network(7, 8, 1.0, seed=0), initial_network(7, 8, 10.0, seed=0)
    assert np.allclose(one.tokens, 10 * ten.tokens) and np.allclose(one.positions, 10 * ten.positions)
    assert all(np.array_equal(a, b) for a, b in zip(leaves(one[2:]), leaves(ten[2:]), strict=True))


def test_alpha_leaves_the_function_at_the_start():
    """But for LayerNorm's ε = 1e-5, which is added to the variance, of about 2/α²."""
    samples = pairs(11, seed=0)
    without, mine = (shortened(initial_network(11, 16, alpha, seed=0), samples, 4) for alpha in (1e-3, 3.0))
    smallest = initial_network(11, 16, 3.0, seed=0)
    variance = (smallest.tokens[:, None] + smallest.positions).var(axis=-1).min()
    assert np.abs(mine - without).max() <= 3 * 1e-5 / variance * np.abs(without).max()
    assert np.abs(mine - without).max() > 0


# --- Learning ---------------------------------------------------------------------------------------------------------


def leaves(tree):
    return [tree] if isinstance(tree, np.ndarray) else [leaf for part in tree for leaf in leaves(part)]


def in_double(tree):
    if isinstance(tree, np.ndarray):
        return tree.astype(float)
    parts = [in_double(part) for part in tree]
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)


def slopes_by_differences(loss, weights, h=1e-5):
    slopes = [np.zeros_like(w) for w in weights]
    for w, slope in zip(weights, slopes, strict=True):
        for place in np.ndindex(w.shape):
            kept = w[place]
            w[place] = kept + h
            up = loss()
            w[place] = kept - h
            slope[place] = (up - loss()) / (2 * h)
            w[place] = kept
    return slopes


def adam_by_hand(network, samples, cell, steps):
    """AdamW with the warm-up; changes the network, and says so after each step."""
    weights = leaves(network)
    first, second = ([np.zeros_like(w) for w in weights] for _ in range(2))
    for i in range(steps):
        slopes = slopes_by_differences(lambda: judged(network, samples, cell.heads, cell.tau)[0], weights)
        rate = cell.rate / cell.tau**2 * min(i / 10, 1)
        for w, slope, m, v in zip(weights, slopes, first, second, strict=True):
            m += 0.1 * (slope - m)
            v += 0.02 * (slope**2 - v)
            w *= 1 - rate * cell.weight_decay
            w -= rate * m / (1 - 0.9 ** (i + 1)) / (np.sqrt(v / (1 - 0.98 ** (i + 1))) + 1e-8)
        yield i + 1


@pytest.mark.compiles
def test_training_is_adam_with_a_warm_up_on_the_scaled_logits():
    """All training pairs in one batch, so that their order does not matter. The first update has rate zero."""
    cell = Settings(seed=1, alpha=3.0, tau=0.5, rate=0.01, weight_decay=0.5, **SMALL)
    at = (0, 1, 2, 4, 12)
    (outcome,) = train([cell], at, lambda done: None)
    network, parts = in_double(initial_network(5, 4, 3.0, seed=1)), np.split(pairs(5, seed=1), 2)
    expected = []
    for step in itertools.chain([0], adam_by_hand(network, parts[0], cell, at[-1])):
        if step in at:
            expected.append([judged(network, part, 2, 0.5) for part in parts])
    expected = np.array(expected)  # (steps, parts, loss and accuracy)
    assert np.array_equal(expected[0], expected[1]) and np.abs(expected[-1] - expected[0])[:, 0].min() > 0.02
    for part, name in enumerate(PARTS):
        assert np.allclose(outcome.values[f"{name}_loss"], expected[:, part, 0], atol=1e-5, rtol=0)
        assert np.allclose(outcome.values[f"{name}_accuracy"], expected[:, part, 1])
    assert outcome.cause == ""


@pytest.fixture(scope="module")
def block():
    """Two networks that train together, and between them one of another shape: cells, outcomes, work told of."""
    settings = {"p": 5, "dim": 16, "heads": 2, "batch": 9, "rate": 0.01, "train_fraction": 0.95, "every": 3}
    cells = [Settings(seed=9, **settings), Settings(seed=1, **SMALL), Settings(seed=12, **settings)]
    done = []
    return cells, train(cells, tuple(range(121)), done.append), sum(done)


@pytest.mark.compiles
def test_steps_are_the_first_with_99_percent(block):
    """Looked at every third step and at records, here all; nan until then; what is unlearned later counts (seed 12)."""
    outcomes = block[1][::2]
    for outcome in outcomes:
        for part in PARTS:
            steps, right = outcome.values[f"steps_to_{part}"], outcome.values[f"{part}_accuracy"] >= 0.99
            came = next((step for step in range(1, 121) if right[step]), 121)
            assert np.isnan(steps[:came]).all() and (steps[came:] == came).all()
    assert outcomes[1].values["validation_accuracy"][-1] == 0
    assert np.isfinite(outcomes[1].values["steps_to_validation"][-1])


@pytest.mark.slow
def test_between_records_every_third_step_is_looked_at(block):
    (sparse,) = train(block[0][:1], (0, 120), lambda done: None)
    for part in PARTS:
        right = block[1][0].values[f"{part}_accuracy"] >= 0.99
        assert sparse.values[f"steps_to_{part}"][-1] == next(step for step in range(3, 121, 3) if right[step])


@pytest.mark.slow
def test_cells_of_several_shapes_share_a_block(block):
    """Each comes back in its place, with the numbers that it gives alone."""
    cells, outcomes, done = block
    assert done == pytest.approx(len(cells))
    (alone,) = train(cells[1:2], (0, 5), lambda done: None)
    for name, values in alone.values.items():
        assert np.array_equal(outcomes[1].values[name][[0, 5]], values, equal_nan=True)
    assert set(alone.values) == set(variables(cells[1]))
    for outcome, cell in zip(outcomes, cells, strict=True):
        first = pairs(5, cell.seed)[: cell.samples]
        network = initial_network(5, cell.dim, 1.0, cell.seed)
        assert outcome.values["train_loss"][0] == pytest.approx(judged(network, first, 2, 1.0)[0], abs=1e-5)


def test_training_ends_when_both_sets_are_learned():
    program = grokking._program(5, 2, 10, 10, 1)
    ends = lambda *reached: bool(program.done(grokking.State(None, None, None, np.array(reached))))
    assert ends(3, 7) and not ends(3, -1) and not ends(-1, 7)


@pytest.mark.slow  # the figure of the quick preset is tested too
def test_the_quick_preset_learns_its_training_pairs():
    file = Path(lazyrich.papers.kunin2024.experiments.__file__).parent / "presets" / "grokking-quick.toml"
    preset = tomllib.loads(file.read_text())
    cells = [Settings(seed=0, alpha=alpha, **preset["settings"]) for alpha in preset["axes"]["alpha"]]
    runs = [train(cells, tuple(preset["at"]), lambda done: None) for _ in range(2)]
    for outcome, again in zip(*runs, strict=True):
        assert outcome.values["train_accuracy"][-1] > 0.5 > outcome.values["train_accuracy"][0]
        for name, values in outcome.values.items():
            assert np.array_equal(values, again.values[name], equal_nan=True)


def test_the_presets_have_cells_that_can_be_trained():
    for name in ("paper", "laptop", "quick"):
        file = Path(lazyrich.papers.kunin2024.experiments.__file__).parent / "presets" / f"grokking-{name}.toml"
        preset = tomllib.loads(file.read_text())
        assert preset["experiment"] == "grokking"
        Settings(seed=0, **preset["settings"])
        if name == "paper":
            assert preset["settings"].items() <= dataclasses.asdict(Settings(seed=0)).items()


# --- Bad settings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"seed": -1}, "seed must be at least 0, and it is -1."),
        ({"alpha": 0.0}, "alpha must be above 0, and it is 0."),
        ({"tau": -1.0}, "tau must be above 0, and it is -1."),
        ({"p": 2}, "p must be at least 3, and it is 2."),
        ({"p": 1001}, "p must be at most 1,000, and it is 1,001."),
        ({"heads": 3}, "dim must be a multiple of heads (3), and it is 128."),
        ({"train_fraction": 1.0}, "train_fraction must leave some of the 9,312 pairs on both sides, and it is 1."),
        ({"train_fraction": 1e-5}, "train_fraction must leave some of the 9,312 pairs on both sides, and it is 1e-05."),
        ({"batch": 5000}, "batch must be at most 4,656, and it is 5,000."),
        ({"weight_decay": -0.1}, "weight_decay must be at least 0, and it is -0.1."),
        ({"every": 0}, "every must be at least 1, and it is 0."),
    ],
)
def test_bad_settings_are_said_in_one_sentence(wrong, message):
    with pytest.raises(InvalidInput) as caught:
        Settings(**({"seed": 0} | wrong))
    assert str(caught.value) == message


# --- The report -------------------------------------------------------------------------------------------------------


def store(validation, last=30_000):
    """A record of (τ, seed, α): steps to validation as given, None for a cell that has not been trained."""
    xarray = pytest.importorskip("xarray")
    taus, seeds, alphas = len(validation), len(validation[0]), len(validation[0][0])
    trained = np.array([[[cell is not None for cell in row] for row in rows] for rows in validation])
    when = np.array(
        [[[np.nan if cell is None else cell for cell in row] for row in rows] for rows in validation], float
    )
    steps = np.array([0, 1000, last])
    held = np.where(steps >= when[..., None], when[..., None], np.nan)
    accuracy = np.where(trained[..., None], np.where(steps >= when[..., None], 1.0, 0.1), np.nan)
    train = np.where(steps >= 300, 300.0, np.nan) * np.where(trained, 1, np.nan)[..., None]
    dims = ("tau", "seed", "alpha", "step")
    return xarray.Dataset(
        {
            "train_accuracy": (dims, accuracy),
            "steps_to_train": (dims, train),
            "steps_to_validation": (dims, held),
        },
        coords={"tau": [0.5, 1.0][-taus:], "seed": range(seeds), "alpha": [0.1, 1.0, 10.0][:alphas], "step": steps},
    )


NEVER = np.nan


def test_the_report_gives_medians_and_says_what_was_not_reached():
    found = report(store([[[9000, 5000, 900], [NEVER, 6000, 800], [NEVER, NEVER, 700]]]))
    assert [row["steps_to_validation"] for row in found.rows] == ["more than 30,000", "6,000", "800"]
    assert [row["reached_validation"] for row in found.rows] == [1, 2, 3]
    assert {row["steps_to_train"] for row in found.rows} == {"300"} and {row["seeds"] for row in found.rows} == {3}
    assert found.sentence == (
        "Smaller embeddings grok sooner (τ = 1). Steps to 99 % of the validation pairs: more than 30,000 at α = 0.1"
        " (1 of 3 seeds), 6,000 at α = 1 (2 of 3 seeds), 800 at α = 10; of the training pairs: 300, 300, 300."
    )
    assert found.numbers["steps_to_validation[tau=1, alpha=10]"] == 800
    assert found.numbers["reached_validation[tau=1, alpha=0.1]"] == 1
    assert "steps_to_validation[tau=1, alpha=0.1]" not in found.numbers


@pytest.mark.parametrize(
    "steps, verdict",
    [
        ([[1000, 2000, 1500]], "Smaller embeddings do not grok sooner here (τ = 1)"),
        ([[2000, 3000, 1500]], "Smaller embeddings grok sooner, though not from each α to the next (τ = 1)"),
        ([[NEVER, 3000, NEVER]], "Whether smaller embeddings grok sooner is not seen (τ = 1)"),
        ([[None, None, 100]], "Nothing can be said about the embeddings yet"),
    ],
)
def test_the_sentence_is_honest(steps, verdict):
    assert report(store([steps])).sentence.startswith(verdict)


def test_the_sentence_is_about_the_tau_nearest_to_one_that_can_tell():
    other = [[100, 200, 300]]
    assert "sooner (τ = 1)" in report(store([other, [[300, 200, 100]]])).sentence
    assert "τ = 0.5: smaller embeddings do not grok sooner here." in report(store([other, [[300, 200, 100]]])).sentence
    found = report(store([other, [[None, None, None]]]))
    assert found.sentence.startswith("Smaller embeddings do not grok sooner here (τ = 0.5).")
    assert [row["seeds"] for row in found.rows] == [1, 1, 1, 0, 0, 0]
    assert [row["steps_to_validation"] for row in found.rows][3:] == ["", "", ""]
