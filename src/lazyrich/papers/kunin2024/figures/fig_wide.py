"""Kunin et al. 2024, section 4: wide linear networks in function space, their mirror flow, and regimes by shape.

The paper states Theorems 2, 3, 6 and 11 without a figure; tasks and sizes here are ours. Starts are isotropic,
W2ᵀW2 − W1W1ᵀ = δI, and have the same function for all δ.
"""

import numpy as np

from lazyrich import Problem, Task, Trajectory, _check, bias, flow, solve
from lazyrich._progress import progress
from lazyrich._typing import Array
from lazyrich.inits import lambda_balanced
from lazyrich.landscape.regime import regime
from lazyrich.landscape.regime_prediction import predict_regime
from lazyrich.observables import kernel_distance
from lazyrich.observables.singular import singular_modes
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.kunin2024.figures._shared import SOURCES, as_text
from lazyrich.papers.kunin2024.wide import hyperbolic_entropy
from lazyrich.plot import style

TITLE = "Wide linear networks: the flow of the function, its potential, and regimes by shape"
ABOUT = (
    "Above, a 3-3-3 network on correlated inputs: the flow of W alone (Theorem 3) and the mirror flow of its "
    "singular values are dotted over the integrated flow of the weights; C is the potential of that mirror flow, "
    "from ℓ1-like for small |δ| to ℓ2-like for large. "
    "Below, kernel distance on white inputs for networks that narrow, keep their width or widen: exact solutions "
    "dotted over the flow, with the regime named before training. "
    "Balanced networks are rich whatever their shape; a funnel is lazy upstream and rich with delay downstream, "
    "an inverted funnel the other way round, a square one lazy on both sides."
)
CALLS = (
    "lr.inits.lambda_balanced",
    "lr.bias.function_space_flow",
    "lr.observables.singular_modes",
    "lr.observables.kernel_distance",
    "lr.predict_regime",
    "lr.regime",
)
CHECKS = {
    "deviation_function": Check("A: largest difference of W, flow of the function against the weights'", at_most=1e-9),
    "deviation_mirror": Check(
        "B: largest difference of a singular value, mirror flow against the weights'", at_most=5e-7
    ),
    "entropy_error": Check("C: largest error of q(1), against the integral of its slope ½ asinh(2x/|δ|)", at_most=1e-9),
    "deviation_kernel": Check("D–F: largest difference of S(0, t), exact against integrated", at_most=1e-9),
    "regimes_right": Check(
        "D–F: share of regimes measured as predicted before training, at δ = 0 and the outermost", at_least=1.0
    ),
}
QUICK = {"shapes": ("funnel",), "deltas": (-20.0, 0.0, 20.0), "upper_deltas": (2.0,), "points": 60}

_SIZES = {"funnel": (6, 3, 3), "square": (3, 3, 3), "inverted": (3, 3, 6)}
_STRENGTHS = (1.0, 0.8, 0.6)
_ENTROPIES = (0.001, 0.1, 0.5, 10.0)


def compute(
    *,
    upper_deltas: tuple[float, ...] = (-4.0, -1.0, 0.0, 1.0, 4.0),
    shapes: tuple[str, ...] = ("funnel", "square", "inverted"),
    deltas: tuple[float, ...] = (-20.0, -2.0, 0.0, 2.0, 20.0),
    points: int = 200,
    scale: float = 0.3,
    seed: int = 1,
) -> Dataset:
    """Loss and singular values for the `upper_deltas`, kernel distance for all shapes and `deltas`."""
    times, late = 6.0 * np.linspace(0.0, 1.0, 601) ** 2, np.append(0.0, np.geomspace(1e-3, 2e3, points))
    task = _correlated_task(seed)
    runs = {delta: _flow(task, _SIZES["square"], delta, scale, seed, times) for delta in upper_deltas}
    every = slice(None, None, 15)  # the flow of the function is the slowest part
    functions = [
        bias.function_space_flow(task, run.function[0], delta, times[every], model="isotropic")
        for delta, run in runs.items()
    ]
    apart = [np.abs(W - run.function[every]).max() for W, run in zip(functions, runs.values(), strict=True)]
    mirrored = _mirror(runs[max(upper_deltas)], max(upper_deltas))
    moved, words, right = _regimes(shapes, deltas, scale, seed, late)
    limits = np.isin(deltas, (min(deltas), 0.0, max(deltas)))  # what Theorem 6 speaks of: between, thresholds decide
    numbers = {
        "deviation_function": float(np.max(apart)),
        "deviation_mirror": float(np.abs(mirrored[0] - mirrored[1]).max()),
        "deviation_kernel": float(np.abs(moved[:, :, 0] - moved[:, :, 1]).max()),
        "regimes_right": float(np.mean(right[:, limits])),
    }
    size = np.linspace(0.0, 1.0, 101)
    entropy = [hyperbolic_entropy(size, delta).value for delta in _ENTROPIES]
    numbers["entropy_error"] = _entropy_error([float(values[-1]) for values in entropy])
    return dataset(
        {
            "loss": (("upper_delta", "time"), np.array([run.loss for run in runs.values()])),
            "theory_loss": (("upper_delta", "coarse"), np.array([task.loss(W) for W in functions])),
            "singular": (("source", "time", "mode"), mirrored),
            "entropy": (("entropy_delta", "size"), np.array(entropy)),
            "S": (("shape", "delta", "source", "late"), moved),
            "regime": (("shape", "delta"), np.where(limits, words, "")),
        },
        coords={
            "upper_delta": list(upper_deltas),
            "time": times,
            "coarse": times[every],
            "source": SOURCES,
            "entropy_delta": list(_ENTROPIES),
            "size": size,
            "shape": list(shapes),
            "delta": list(deltas),
            "late": late,
            "shown": max(upper_deltas),
        },
        attrs=numbers,
    )


def _entropy_error(found: list[float]) -> float:
    from scipy.integrate import quad

    areas = [quad(lambda x, size=delta: np.arcsinh(2 * x / size) / 2, 0, 1)[0] for delta in _ENTROPIES]
    return float(np.abs(np.array(found) - areas).max())


def _correlated_task(seed: int) -> Task:
    rng = np.random.default_rng(seed)
    V, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    sigma_xx = (V * np.array([1.6, 1.0, 0.4])) @ V.T
    return Task.from_correlations(_target(3, 3, seed) @ sigma_xx, sigma_xx)


def _target(d_out: int, d_in: int, seed: int) -> Array:
    """Random singular vectors with the given singular values."""
    rng = np.random.default_rng(seed + 1)
    U, V = (np.linalg.qr(rng.normal(size=(size, len(_STRENGTHS))))[0] for size in (d_out, d_in))
    return (U * np.array(_STRENGTHS)) @ V.T


def _flow(task: Task, sizes: tuple[int, int, int], delta: float, scale: float, seed: int, times: Array) -> Trajectory:
    network = lambda_balanced(seed, sizes=sizes, lam=delta, scale=scale)
    return flow(Problem(task, network), times, rtol=1e-10)


def _mirror(run: Trajectory, delta: float) -> Array:
    """Singular values: by q_δ′(σ(t)) = q_δ′(σ(0)) − ∫ uᵀ∇L v dt, and as they are."""
    from scipy.integrate import cumulative_simpson

    task, (U, s, V) = run.problem.task, singular_modes(run)
    descent = np.einsum("tom,toi,tim->tm", U, task.sigma_yx - run.function @ task.sigma_xx, V)
    gained = cumulative_simpson(descent, x=np.asarray(run.times), axis=0, initial=0.0)
    slope = hyperbolic_entropy(s[0], delta).slope + gained
    return np.array([abs(delta) / 2 * np.sinh(2 * slope), s])


def _regimes(
    shapes: tuple[str, ...], deltas: tuple[float, ...], scale: float, seed: int, times: Array
) -> tuple[Array, Array, Array]:
    """S(0, t) by theory and flow, the regime predicted, and whether the one measured is the same."""
    moved, words, right = [], [], []
    with progress(len(shapes) * len(deltas), "shapes") as move_on:
        for shape in shapes:
            sizes = _SIZES[_check.choice("shapes", shape, tuple(_SIZES))]
            task = Task.from_correlations(_target(sizes[2], sizes[0], seed))
            for delta in deltas:
                problem = Problem(task, lambda_balanced(seed, sizes=sizes, lam=delta, scale=scale))
                exact = solve(problem, times)
                run = flow(problem, times, record="gram", rtol=1e-10)
                moved.append([kernel_distance(exact), kernel_distance(run)])
                words.append(predict_regime(problem).name)
                right.append(words[-1] == regime(exact).name)
                move_on(1)
    grid = (len(shapes), len(deltas))
    return np.array(moved).reshape(*grid, 2, len(times)), np.array(words).reshape(grid), np.array(right).reshape(grid)


def draw(data: Dataset) -> Picture:
    """Function space above, shapes below; what is dotted is theory, and curves are named beside the panels."""
    figure = style.new_figure(12.6, 7.6)
    panels = figure.subplots(2, 3)
    _draw_losses(panels[0, 0], data)
    _draw_singular(panels[0, 1], data)
    _draw_entropies(panels[0, 2], data)
    least = 10 ** np.floor(np.log10(float(data.S.isel(late=-1).min())))  # so that every curve is seen to its end
    for i, panel in enumerate(panels[1]):
        if i < data.sizes["shape"]:
            shape = str(data["shape"].values[i])
            d_in, hidden, d_out = _SIZES[shape]
            _draw_shape(panel, data.isel(shape=i), least, mirrored=d_in == d_out)
            panel.set_title(f"{chr(ord('D') + i)}  {shape}, {d_in}-{hidden}-{d_out}: kernel distance S(0, t)")
        else:
            panel.set_axis_off()
    return figure


def _draw_losses(panel: Axes, data: Dataset) -> None:
    """For a square network those of δ and −δ are the same: the wider curve lies below."""
    deltas = data.upper_delta.values
    for delta, colour in zip(deltas, style.diverging_colours(deltas), strict=True):
        width = 6.5 if delta < 0 else 2.4
        panel.plot(data.time, data.loss.sel(upper_delta=delta), color=colour, linewidth=width, label=_named("δ", delta))
        panel.plot(data.coarse, data.theory_loss.sel(upper_delta=delta), **style.THEORY)
    panel.plot([], [], **style.THEORY, label="by the function alone")
    panel.set(xlabel="time", yscale="log", ylim=(1e-5, 2.0))
    panel.set_title("A  square, 3-3-3: loss")
    _named_below(panel)


def _draw_singular(panel: Axes, data: Dataset) -> None:
    for mode, colour in enumerate(style.mode_colours(data.sizes["mode"])):
        panel.plot(data.time, data.singular.sel(source="flow").isel(mode=mode), color=colour, label=f"σ{'₁₂₃'[mode]}")
        panel.plot(data.time, data.singular.sel(source="theory").isel(mode=mode), **style.THEORY)
    panel.plot([], [], **style.THEORY, label="mirror flow")
    panel.set(xlabel="time")
    panel.set_title(f"B  δ = {as_text(float(data.shown))}: singular values of W")
    _named_below(panel)


def _draw_entropies(panel: Axes, data: Dataset) -> None:
    limit = style.LIMIT | {"color": "black", "zorder": 3}
    for delta, colour in zip(data.entropy_delta.values, style.mode_colours(len(_ENTROPIES)), strict=True):
        entropy = data.entropy.sel(entropy_delta=delta).values
        panel.plot(data["size"], entropy / entropy[-1], color=colour, label=_named("|δ|", delta))
    panel.plot(data["size"], data["size"], **limit, label="σ (ℓ1) and σ² (ℓ2)")
    panel.plot(data["size"], data["size"] ** 2, **limit)
    panel.set(xlabel="singular value σ")
    panel.set_title("C  hyperbolic entropy q(σ)/q(1)")
    _named_below(panel)


def _draw_shape(panel: Axes, one: Dataset, least: float, mirrored: bool) -> None:
    """Logarithmic, since lazy kernels move as well, only much less. Mirrored: δ and −δ give the same curve."""
    for delta, colour in zip(one.delta.values, style.diverging_colours(one.delta.values), strict=True):
        word = _word(one.regime.sel(delta=delta).values)
        width = 6.5 if delta < 0 and mirrored else 2.4
        name = f"{_named('δ', delta)}{': ' * bool(word)}{word}"
        panel.plot(one.late, one.S.sel(delta=delta, source="flow"), color=colour, linewidth=width, label=name)
        panel.plot(one.late, one.S.sel(delta=delta, source="theory"), **style.THEORY)
    panel.plot([], [], **style.THEORY, label="exact")
    panel.set(xscale="log", yscale="log", xlim=(1e-2, float(one.late[-1])), ylim=(least, 1.0), xlabel="time")
    _named_below(panel)


def _named(letter: str, value: float) -> str:
    return f"{letter} = {as_text(value)}"


def _named_below(panel: Axes) -> None:
    """What the curves are, under the panel: inside, names would lie over them."""
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2, fontsize=9, handlelength=1.6)


def _word(value: Array) -> str:
    """Text, which comes back from a file as bytes."""
    word = value.item()
    return word.decode() if isinstance(word, bytes) else str(word)


FIGURE = Figure("kunin2024/wide", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
