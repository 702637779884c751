"""Lecture notes, section 8: matrix completion by depth, and what the deep flow does not minimise."""

from typing import Any

import numpy as np

from lazyrich import bias
from lazyrich._progress import progress
from lazyrich._typing import Array, Float
from lazyrich.bias.factorisation import Factorisation
from lazyrich.bias.measurements import Measurements
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.plot import style

TITLE = "Matrix completion by depth: rank grows step by step, and no quasi-norm is least"
ABOUT = (
    "Some entries of a 10 × 10 matrix of rank two are seen, and products of one to three layers follow the flow "
    "on them from a random balanced initialisation of size 0.001. "
    "One layer leaves what it does not see at zero; with more the singular values rise one after the other, and three "
    "find the hidden entries from fewer than the least nuclear norm needs. "
    "The notes say that depth L minimises the Schatten-2/L quasi-norm: in the example of panel C, where a solution of "
    "rank one is known, the flow ends above it for every size of the initialisation, the more so the deeper it is."
)
CALLS = ("lr.bias.factorise", "lr.bias.compare_depths", "lr.bias.least_nuclear_norm", "lr.bias.random_completion")
CHECKS = {
    "one_layer": Check("least median error in hidden entries with one layer, of their size", at_least=0.9),
    "many_seen": Check("median error at the largest share seen, three layers", at_most=0.02),
    "few_seen": Check(
        "median error of three layers over that of the least nuclear norm, at the smallest share", at_most=0.3
    ),
    "steps": Check("rises of the two singular values shown at three layers, half time of the second over the first",
                   at_least=1.5),
    "excess": Check("least quasi-norm of a deep flow's end in panel C over that of the solution of rank one",
                    at_least=1.05),
}  # fmt: skip
QUICK = {"shares": (0.5, 0.9), "draws": 3}

_STRENGTHS = (2.0, 1.0)  # of the two modes, in units of the size
_EPSILONS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
_DEEP = (3, 4, 5)
_TOLERANCE = 1e-6  # of the loss: the last digits take as long as all before, and no error changes by them
_RECORDS = 300


def compute(
    *, size: int = 10, depths: tuple[int, ...] = (1, 2, 3), shares: tuple[float, ...] = (0.5, 0.6, 0.7, 0.8, 0.9),
    epsilon: float = 1e-3, draws: int = 12, shown: float = 0.7, seed: int = 0,
) -> Dataset:  # fmt: skip
    """Errors in hidden entries over shares and draws, singular values along one run, and ends with their norms."""
    s = size * np.array(_STRENGTHS) / np.hypot(*_STRENGTHS)  # entries of size one
    errors = np.empty((len(shares), draws, 1 + len(depths)))
    with progress(len(shares) * draws, "completions") as move_on:
        for i, share in enumerate(shares):
            for draw in range(draws):
                known = _completion(seed, draw, s, size, share)
                ends = [_run(known, L, epsilon, draw).W[-1] for L in depths]
                missed = [known.test_error(W) for W in (*ends, bias.least_nuclear_norm(known).W)]
                errors[i, draw] = np.array(missed) / known.test_error(np.zeros((size, size)))
                move_on(1)
    known = _completion(seed, 0, s, size, shown)
    runs = [_run(known, L, epsilon, 0) for L in depths]
    times = [np.linspace(0.0, 1.15 * _settled(run), _RECORDS) for run in runs]
    values = [np.array([np.interp(t, run.times, x) for x in run.singular_values.T]).T
              for t, run in zip(times, runs, strict=True)]  # fmt: skip
    return _with_numbers(dataset(
        {
            "error": (("share", "draw", "by"), errors),
            "time": (("depth", "record"), np.array(times)),
            "value": (("depth", "record", "place"), np.array(values)),
            "truth": ("mode", s),
            "quasi_norm": (("deep", "epsilon"), _quasi_norms()),
        },
        {"share": list(shares), "by": [*map(str, depths), "norm"], "depth": list(depths), "deep": list(_DEEP),
         "epsilon": list(_EPSILONS)},
        {"shown": shown},
    ))  # fmt: skip


def _completion(seed: int, draw: int, s: Float[Array, " m"], size: int, share: float) -> Measurements:
    generator = np.random.default_rng((seed, draw))
    return bias.random_completion(generator, (size, size), s, observed=round(share * size**2))


def _run(known: Measurements, depth: int, epsilon: float, seed: int) -> Factorisation:
    start = bias.small_init(known.shape, depth=depth, epsilon=epsilon, rng=seed)
    return bias.factorise(known, start, tolerance=_TOLERANCE)


def _settled(run: Factorisation) -> float:
    """When the loss has fallen to a ten-thousandth."""
    return float(run.times[np.argmax(run.loss < 1e-4 * run.loss[0])])


def _quasi_norms() -> Float[Array, "deep epsilon"]:
    """Schatten-2/L of where depth L ends, over that of the solution of rank one, where measurements commute."""
    problem = bias.commuting_measurements()
    assert problem.truth is not None
    known = bias.schatten(np.linalg.svd(problem.truth, compute_uv=False), 1.0)  # of rank one: the same for every power
    ends = [bias.compare_depths(problem, depths=[L], epsilons=_EPSILONS).results[: len(_EPSILONS)] for L in _DEEP]
    return np.array([[end.quasi_norms[0] / known for end in of_depth] for of_depth in ends])


def _with_numbers(data: Dataset) -> Dataset:
    middle, last = data.error.median("draw"), data.depth.values[-1]
    deepest = data.value.sel(depth=last).values
    half = [np.interp(0.5, x / x[-1], data.time.sel(depth=last)) for x in deepest[:, :2].T]
    return data.assign_attrs(
        one_layer=float(middle.sel(by="1").min()),
        many_seen=float(middle.sel(by=str(last))[-1]),
        few_seen=float(middle.sel(by=str(last))[0] / middle.sel(by="norm")[0]),
        steps=float(half[1] / half[0]),
        excess=float(data.quasi_norm.min()),
    )


def draw(data: Dataset) -> Picture:
    """Singular values at each depth above; errors and quasi-norms below."""
    figure: Any = style.new_figure(11.5, 7.0)
    top, bottom = figure.subfigures(2, 1, height_ratios=(1.0, 1.15))
    panels = top.subplots(1, data.sizes["depth"], sharey=True)
    for i, (panel, depth) in enumerate(zip(panels, data.depth.values, strict=True)):
        _draw_values(panel, data.sel(depth=depth))
        layers = "one layer" if depth == 1 else f"{depth} layers"
        panel.set_title(f"{'A  Singular values, ' if i == 0 else ''}{layers}")
    panels[0].set_ylabel("singular values of W")
    panels[-1].legend(loc="center right")
    errors, norms = bottom.subplots(1, 2)
    _draw_errors(errors, data)
    _draw_norms(norms, data)
    return figure


def _draw_values(panel: Axes, run: Dataset) -> None:
    colours = style.mode_colours(3)[:2]
    panel.plot(run.time, run.value[:, 2:], color=style.COLOURS["grey"], linewidth=1.0)
    panel.plot([], [], color=style.COLOURS["grey"], linewidth=1.0, label="the others")
    for i, (colour, name) in enumerate(zip(colours, ("first", "second"), strict=True)):
        panel.plot(run.time, run.value[:, i], color=colour, label=name)
    for end in run.truth.values:
        panel.axhline(end, **style.LIMIT)
    panel.plot([], [], **style.LIMIT, label="of the matrix")
    panel.set(xlabel="time", ylim=0)
    panel.margins(x=0.01)


def _draw_errors(panel: Axes, data: Dataset) -> None:
    depths = data.by.values[:-1]
    looks = [*zip(style.series_colours(len(depths)), "osD^v", strict=False)]
    for depth, (colour, marker) in zip(depths, looks, strict=True):
        words = "one layer" if depth == "1" else f"{depth} layers"
        low, middle, high = np.quantile(data.error.sel(by=depth), [0.25, 0.5, 0.75], axis=1)
        panel.fill_between(data.share, low, high, color=colour, alpha=0.15, linewidth=0)
        panel.plot(data.share, middle, color=colour, marker=marker, label=words)
    norm = data.error.sel(by="norm").median("draw")
    panel.plot(data.share, norm, **style.INTEGRATED, label="least nuclear norm")
    panel.set(xlabel="share of the entries that is seen", ylabel="error in hidden entries, of their size", ylim=0)
    panel.set_title(f"B  Hidden entries, median and quartiles of {data.sizes['draw']}")
    panel.legend(loc="center right")


def _draw_norms(panel: Axes, data: Dataset) -> None:
    for deep, colour, marker in zip(data.deep.values, style.series_colours(data.sizes["deep"]), "osD", strict=True):
        words = f"{deep} layers, p = 2/{deep}"
        panel.plot(data.epsilon, data.quasi_norm.sel(deep=deep), color=colour, marker=marker, label=words)
    panel.axhline(1.0, **style.LIMIT)
    panel.annotate("solution of rank one", (0.98, 1.0), (0, -13), xycoords=("axes fraction", "data"), ha="right",
                   textcoords="offset points", color=style.COLOURS["grey"])  # fmt: skip
    panel.set(xscale="log", xlabel="initial size ε", ylabel="Schatten-p where the flow ends, relative")
    panel.set_title("C  Commuting measurements")
    panel.set_ylim(bottom=0.8)
    panel.legend(loc="upper left")


FIGURE = Figure("notes/completion", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
