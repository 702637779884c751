"""Kunin et al. 2024, appendix: exact course of μ, φ, ν and of the parameters a, w of one neuron, from three β0."""

from collections.abc import Sequence

import numpy as np

from lazyrich import Problem, Trajectory, flow, solve
from lazyrich._typing import Array
from lazyrich.papers.base.figure import Axes, Check, DataArray, Dataset, Figure, Picture
from lazyrich.papers.base.types import Colour
from lazyrich.papers.kunin2024 import formulas as letter
from lazyrich.papers.kunin2024.figures._shared import SOURCES, as_text, one_neuron
from lazyrich.plot import style

TITLE = "One neuron: magnitude, angle, ratio and parameters over time, from three initialisations"
ABOUT = (
    "One hidden neuron learns β* = (.5, .5) from a unit vector β0 that points away from it (top), across it "
    "(middle) and along it (bottom), each for seven balances δ and with a(0) > 0. "
    "The paper's own solutions in three cases of δ, with its errors put right, are dotted over the integrated "
    "flow of the weights. "
    "Downstream, from the initialisation that points away, a and with it μ pass through zero and the neuron learns the "
    "target with both signs reversed; upstream a never does, and w turns round instead."
)
CALLS = ("lr.papers.kunin2024.formulas.single_neuron", "lr.inits.single_neuron", "lr.flow", "lr.solve")
CHECKS = {
    "deviation": Check("largest difference of a, w between the paper's solution and the integrated flow", at_most=5e-9),
    "deviation_solve": Check("largest difference of β between the paper's solution and lr.solve", at_most=1e-13),
}
QUICK = {"deltas": (-2.0, 0.02, 2.0), "points": 80}

_ANGLES = (3 * np.pi / 2, -np.pi / 4, np.pi / 4)
_STARTS = ("away, 3π/2", "across, −π/4", "along, π/4")
_COLUMNS = {
    "mu": "magnitude  μ = a‖w‖",
    "phi": "cosine  φ",
    "nu": "ratio  ν = wᵀβ*/a",
    "a": "a",
    "w1": "w₁",
    "w2": "w₂",
}
_PARAMETERS = ("a", "w1", "w2")
_BOUNDS = {"phi": 1.1, "nu": 3.0}  # of what is shown: ν is infinite where a passes through zero


def compute(
    *,
    deltas: tuple[float, ...] = (-2.0, -1.0, -0.2, 0.02, 0.2, 1.0, 2.0),
    target: tuple[float, ...] = (0.5, 0.5),
    horizon: float = 15.0,
    points: int = 300,
) -> Dataset:
    """Six quantities over time for each initialisation and δ, by theory and by integration."""
    import xarray

    times = np.linspace(0.0, horizon, points + 1)
    values, solved = [], []
    for angle in _ANGLES:
        for delta in deltas:
            problem = one_neuron(target, (np.cos(angle), np.sin(angle)), delta)
            theory, beta = _theory(problem, target, times)
            values.append([theory, _measured(flow(problem, times, rtol=1e-10), target)])
            solved.append(np.abs(solve(problem, times).function[:, 0] - beta).max())
    shape = (len(_ANGLES), len(deltas), len(SOURCES), len(_COLUMNS), len(times))
    curves = xarray.DataArray(
        np.array(values).reshape(shape),
        dims=("start", "delta", "source", "quantity", "time"),
        coords={"delta": list(deltas), "source": SOURCES, "quantity": list(_COLUMNS), "time": times},
    )
    parameters = curves.sel(quantity=list(_PARAMETERS))
    gap = np.abs(parameters.sel(source="theory") - parameters.sel(source="flow"))
    numbers = {"deviation": float(gap.max()), "deviation_solve": float(np.max(solved))}
    return curves.assign_coords(angle=("start", list(_ANGLES))).to_dataset(name="curves").assign_attrs(numbers)


def _theory(problem: Problem, target: Sequence[float], times: Array) -> tuple[Array, Array]:
    """The paper's solution, and its β."""
    W1, W2 = problem.network.weights
    path = letter.single_neuron(float(W2[0, 0]), W1[0], list(target), times)
    return np.array([path.mu, path.phi, path.nu, path.a, *path.w.T]), path.beta


def _measured(traj: Trajectory, target: Sequence[float]) -> Array:
    W1, W2 = traj.weights
    w, a = W1[:, 0], W2[:, 0, 0]
    length, along = np.linalg.norm(w, axis=1), w @ np.array(target)
    return np.array([a * length, along / (length * np.linalg.norm(target)), along / a, a, *w.T])


def draw(data: Dataset) -> Picture:
    """A row per initialisation, a column per quantity."""
    figure = style.new_figure(14.0, 6.4)
    panels = figure.subplots(data.sizes["start"], len(_COLUMNS), sharex=True)
    colours = style.diverging_colours(data.delta.values)
    for start, row in enumerate(panels):
        for panel, quantity in zip(row, _COLUMNS, strict=True):
            _draw_curves(panel, data.curves.isel(start=start).sel(quantity=quantity), colours)
        row[0].set_ylabel(f"β0 {_STARTS[start]}", fontweight="bold")
    for panel, title in zip(panels[0], _COLUMNS.values(), strict=True):
        panel.set_title(title)
    for panel in panels[-1]:
        panel.set_xlabel("time")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center")
    return figure


def _draw_curves(panel: Axes, curves: DataArray, colours: Sequence[Colour]) -> None:
    bound = _BOUNDS.get(str(curves.quantity.values))
    for delta, colour in zip(curves.delta.values, colours, strict=True):
        for source in ("flow", "theory"):
            values = curves.sel(delta=delta, source=source).values
            if bound:  # no line from +∞ to −∞
                values = np.where(np.abs(values) > 3 * bound, np.nan, values)
            name = f"δ = {as_text(delta)}" if source == "flow" else None
            panel.plot(curves.time, values, **({"color": colour, "label": name} if name else style.THEORY))
    if bound:
        panel.set_ylim(-bound, bound)
    panel.plot([], [], **style.THEORY, label="exact")
    panel.margins(x=0.01)


FIGURE = Figure("kunin2024/parameters", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
