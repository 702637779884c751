"""Kunin et al. 2024, Fig. 3: magnitude μ, alignment φ and kernel distance of one neuron, for seven balances δ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lazyrich.descend import descend
from lazyrich.figures.catalogue import Check
from lazyrich.inits import single_neuron
from lazyrich.observables.ntk import kernel_distance
from lazyrich.plot import style
from lazyrich.problem import Problem
from lazyrich.solve import solve
from lazyrich.tasks import Task
from lazyrich.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

__all__ = ["ABOUT", "CALLS", "CHECKS", "QUICK", "TITLE", "compute", "draw"]

TITLE = "One neuron: magnitude, alignment and kernel distance by balance"
ABOUT = (
    "One hidden neuron learns β* = (0, 1) from β0 = (−1, 0), once for each δ = a² − ‖w‖². "
    "Exact solutions (dotted) lie over gradient descent. "
    "The published kernel distance used a(0)² in the norm at time t; the one here is right, and differs mid-run."
)
CALLS = ("lr.inits.single_neuron", "lr.solve", "lr.descend", "lr.observables.kernel_distance")
CHECKS = {
    "deviation_mu": Check("largest difference in μ between theory and descent", at_most=0.02),
    "deviation_kernel": Check("largest difference in S(0, t) between theory and descent", at_most=0.02),
}
QUICK = {"rate": 0.01}

_PANELS = {"mu": "magnitude μ", "phi": "alignment φ", "S": "kernel distance S(0, t)"}


def compute(
    *, deltas: tuple[float, ...] = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0), horizon: float = 20.0, rate: float = 1e-3
) -> xarray.Dataset:
    """μ = a‖w‖, φ = cos(w, β*) and S(0, t), by theory and by gradient descent."""
    import xarray

    task = Task.from_correlations([[0.0, 1.0]])
    curves = []
    for delta in deltas:
        problem = Problem(task, single_neuron([-1.0, 0.0], delta=delta))
        run = descend(problem, rate, round(horizon / rate))
        curves.append([_measure(solve(problem, run.times)), _measure(run)])
    names = ("delta", "source", "quantity", "time")
    values = xarray.DataArray(np.array(curves), dims=names, name="curves").assign_coords(
        delta=list(deltas), source=["theory", "descent"], quantity=list(_PANELS), time=run.times
    )
    gap = np.abs(values.sel(source="theory") - values.sel(source="descent")).max(["delta", "time"])
    numbers = {"deviation_mu": float(gap.sel(quantity="mu")), "deviation_kernel": float(gap.sel(quantity="S"))}
    return values.to_dataset().assign_attrs(numbers)


def _measure(traj: Trajectory) -> list[np.ndarray]:
    W1, W2 = traj.weights
    a, w = W2[:, 0, 0], W1[:, 0]
    norm = np.linalg.norm(w, axis=1)
    return [a * norm, w[:, 1] / norm, kernel_distance(traj)]


def draw(data: xarray.Dataset) -> Figure:
    """Three panels, a colour per δ."""
    with style.styled():
        figure = style.new_figure(11.0, 3.4)
        colours = style.diverging_colours(data.delta.values)
        for panel, (quantity, label) in zip(figure.subplots(1, len(_PANELS)), _PANELS.items(), strict=True):
            for delta, colour in zip(data.delta.values, colours, strict=True):
                curves = data.curves.sel(delta=delta, quantity=quantity)
                panel.plot(data.time, curves.sel(source="descent"), color=colour, label=f"δ = {delta:g}")
                panel.plot(data.time, curves.sel(source="theory"), **style.THEORY)
            panel.set(xlabel=style.TIME, ylabel=label)
            panel.margins(x=0.01)
        panel.plot([], [], **style.THEORY, label="exact")
        panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure
