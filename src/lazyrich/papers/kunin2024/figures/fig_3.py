"""Kunin et al. 2024, Fig. 3: magnitude μ, alignment φ and kernel distance of one neuron, for seven balances δ."""

import numpy as np

from lazyrich import Trajectory, descend, solve
from lazyrich.observables import kernel_distance
from lazyrich.papers.base.figure import Check, Dataset, Figure, Picture
from lazyrich.papers.kunin2024 import formulas
from lazyrich.papers.kunin2024.figures._shared import DELTAS, START, TARGET, as_text, one_neuron
from lazyrich.plot import style

TITLE = "One neuron: magnitude, alignment and kernel distance by balance"
ABOUT = (
    "One hidden neuron learns β* = (0, 1) from β0 = (−1, 0), once for each δ = a² − ‖w‖². "
    "Exact solutions (dotted) lie over gradient descent. "
    "The published kernel distance (thin dashes) used a(0)² in the norm at time t; the one here is right. "
    "The two differ by up to 0.19 for these seven initialisations, and by up to 0.57 for 400 random ones (β* and β0 "
    "Gaussian, δ uniform from −4 to 4)."
)
CALLS = ("lr.inits.single_neuron", "lr.solve", "lr.descend", "lr.observables.kernel_distance")
CHECKS = {
    "deviation_mu": Check("largest difference in μ between theory and descent", at_most=0.01),
    "deviation_phi": Check("largest difference in φ between `lr.solve` and the paper's own formulas", at_most=1e-9),
    "deviation_kernel": Check("largest difference in S(0, t) between theory and descent", at_most=0.002),
    "published_off": Check("largest error of the published S(0, t)", at_least=0.15),
}
QUICK = {"rate": 0.01}

_PANELS = {"mu": "magnitude μ", "phi": "alignment φ", "S": "kernel distance S(0, t)"}
_PUBLISHED = style.LIMIT | {"linewidth": 1.0, "zorder": 2}


def compute(*, deltas: tuple[float, ...] = DELTAS, horizon: float = 20.0, rate: float = 1e-3) -> Dataset:
    """μ = a‖w‖, φ = cos(w, β*) and S(0, t), by theory and by gradient descent."""
    import xarray

    curves, published, letter = [], [], []
    for delta in deltas:
        problem = one_neuron(TARGET, START, delta)
        run = descend(problem, rate, round(horizon / rate))
        exact = solve(problem, run.times)
        curves.append([_measure(exact), _measure(run)])
        published.append(_published(exact))
        W1, W2 = problem.network.weights
        letter.append(formulas.single_neuron(float(W2[0, 0]), W1[0], list(TARGET), run.times).phi)
    names = ("delta", "source", "quantity", "time")
    values = xarray.DataArray(np.array(curves), dims=names, name="curves").assign_coords(
        delta=list(deltas), source=["theory", "descent"], quantity=list(_PANELS), time=run.times
    )
    gap = np.abs(values.sel(source="theory") - values.sel(source="descent")).max(["delta", "time"])
    wrong = xarray.DataArray(np.array(published), dims=("delta", "time"))
    numbers = {
        "deviation_mu": float(gap.sel(quantity="mu")),
        "deviation_phi": float(np.abs(values.sel(source="theory", quantity="phi") - np.array(letter)).max()),
        "deviation_kernel": float(gap.sel(quantity="S")),
        "published_off": float(np.abs(wrong - values.sel(source="theory", quantity="S")).max()),
    }
    return values.to_dataset().assign(published=wrong).assign_attrs(numbers)


def _measure(traj: Trajectory) -> list[np.ndarray]:
    W1, W2 = traj.weights
    a, w = W2[:, 0, 0], W1[:, 0]
    norm = np.linalg.norm(w, axis=1)
    return [a * norm, w[:, 1] / norm, kernel_distance(traj)]


def _published(traj: Trajectory) -> np.ndarray:
    """S(0, t) with a(0)² for a(t)² in the middle term of ‖K(t)‖² = d·a⁴ + 2a²‖w‖² + ‖w‖⁴, where K = a²I + wwᵀ.

    Of all places where the two can be confused, this is the one that is off by what the published curves are.
    """
    W1, W2 = traj.weights
    a, w, d = W2[:, 0, 0] ** 2, W1[:, 0], W1.shape[2]
    size = np.sum(w**2, axis=1)
    product = d * a * a[0] + a * size[0] + a[0] * size + (w @ w[0]) ** 2
    norm = np.sqrt(d * a**2 + 2 * a[0] * size + size**2)
    return 1 - product / (norm[0] * norm)


def draw(data: Dataset) -> Picture:
    """Three panels, a colour per δ."""
    figure = style.new_figure(11.0, 3.4)
    colours = style.diverging_colours(data.delta.values)
    panels = figure.subplots(1, len(_PANELS))
    for letter, panel, (quantity, label) in zip("ABC", panels, _PANELS.items(), strict=True):
        for delta, colour in zip(data.delta.values, colours, strict=True):
            curves = data.curves.sel(delta=delta, quantity=quantity)
            panel.plot(data.time, curves.sel(source="descent"), color=colour, label=f"δ = {as_text(delta)}")
            panel.plot(data.time, curves.sel(source="theory"), **style.THEORY)
            if quantity == "S":
                panel.plot(data.time, data.published.sel(delta=delta), **_PUBLISHED)
        panel.set(xlabel=style.TIME)
        panel.set_title(f"{letter}  {label}")
        panel.margins(x=0.01)
    panel.plot([], [], **style.THEORY, label="exact")
    panel.plot([], [], **_PUBLISHED, label="as published")
    panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


FIGURE = Figure("kunin2024/3", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
