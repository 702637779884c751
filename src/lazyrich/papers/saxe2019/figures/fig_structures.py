"""Structures and their modes: what is alike, modes in closed form, when each is learned, and the items as they part."""

from typing import Any

import numpy as np

from lazyrich import Problem, descend, solve
from lazyrich._progress import progress
from lazyrich.inits import aligned
from lazyrich.observables import hidden_distances, mds, mode_strengths, rsm_in
from lazyrich.papers.base.figure import Axes, Check, DataArray, Dataset, Figure, Picture, dataset
from lazyrich.papers.saxe2019 import formulas
from lazyrich.plot import style
from lazyrich.plot.concepts import draw_paths, merged
from lazyrich.tasks import Modes, Task, clusters, cross_cutting, order, ring, tree

TITLE = "Structures: what is alike, modes, when each is learned, and items as they part"
ABOUT = (
    "Nine items of a tree, on a ring, in an order, in three clusters, and sorted in two ways at once are learned by "
    "two layers from small weights (mode strength 0.001). "
    "Modes are known in closed form: contrasts, waves, cosines; exact strengths (dotted) lie on gradient descent. "
    "Items begin as one and part in the shape of their structure: branch by branch, in a circle, in a bow."
)
CALLS = (
    "lr.tasks.tree",
    "lr.tasks.ring",
    "lr.tasks.order",
    "lr.tasks.clusters",
    "lr.tasks.cross_cutting",
    "lr.solve",
    "lr.descend",
    "lr.observables.mds",
)
CHECKS = {
    "modes": Check(
        "Σyx of modes in closed form against the task, largest difference over the strongest", at_most=1e-12
    ),
    "similarity": Check("hidden similarity at the end against V A Vᵀ, largest relative difference", at_most=0.01),
    "deviation": Check("strengths, theory against descent, largest difference over the strongest", at_most=0.05),
}
QUICK = {"records": 61}

_PAIR, _ROW = tree(branches=(3,)), order(items=3, spread=1.5)
_KNOWN: dict[str, tuple[Task, Modes]] = {
    "tree": (tree(branches=(3, 3)), formulas.tree_modes(branches=(3, 3))),
    "ring": (ring(items=9, spread=4.0), formulas.ring_modes(items=9, spread=4.0)),
    "order": (order(items=9, spread=4.0), formulas.order_modes(items=9, spread=4.0)),
    "clusters": (clusters(spread=1.5), formulas.clusters_modes(spread=1.5)),
    "cross-cutting": (cross_cutting(_PAIR, _ROW, weight=0.5), formulas.cross_cutting_modes(_PAIR, _ROW, weight=0.5)),
}
_RATE = 0.05  # over the strongest s: half of what is left of it is learned in seven steps


def compute(*, a0: float = 0.001, records: int = 241) -> Dataset:
    """Covariance, modes, strengths by theory and by descent, and places of the items, structure by structure."""
    import xarray

    parts, off = [], {"modes": 0.0, "similarity": 0.0, "deviation": 0.0}
    with progress(len(_KNOWN), "structures") as move_on:
        for task, (U, s, V) in _KNOWN.values():
            P, rank = task.d_in, len(s)
            problem = Problem(task, aligned(0, task, hidden=rank, strengths=a0))
            steps = int(1.5 * np.log(P * s[-1] / a0) / (2 * s[-1]) * s[0] / _RATE)
            stops = np.linspace(0, steps, records).round().astype(int)
            run = descend(problem, _RATE / s[0], steps, record="function", at=stops)
            traj = solve(problem, run.times)
            strengths = [mode_strengths(each)[:, :rank] for each in (traj, run)]
            end, seen = formulas.hidden_similarity(V, strengths[0][-1]), rsm_in(traj)[-1]
            off["modes"] = max(off["modes"], float(np.abs(U * s @ V.T - task.sigma_yx).max() / s[0]))
            off["similarity"] = max(off["similarity"], float(np.abs(end - seen).max() / np.abs(end).max()))
            gap = np.abs(strengths[0] - strengths[1]).max() / (P * s[0])
            off["deviation"] = max(off["deviation"], float(gap))
            wide = [(0, 0), (0, P - rank)]
            parts.append(dataset({
                "time": ("record", run.times), "covariance": (("item", "item_"), P**2 * (V * s**2) @ V.T),
                "V": (("item", "mode"), np.pad(V, wide, constant_values=np.nan)),
                "theory": (("record", "mode"), np.pad(strengths[0], wide, constant_values=np.nan)),
                "descent": (("record", "mode"), np.pad(strengths[1], wide, constant_values=np.nan)),
                "place": (("record", "item", "axis"), mds(traj, stress=True)),
                "apart": (("item", "item_"), hidden_distances(traj)[-1]),
            }))  # fmt: skip
            move_on(1)
    data = xarray.concat(parts, dim=xarray.DataArray(list(_KNOWN), dims="structure", name="structure"))
    return data.assign_attrs(off)


def draw(data: Dataset) -> Picture:
    """A structure per row: covariance, modes, strengths over time, paths of the items."""
    figure: Any = style.new_figure(12.0, 14.0)
    rows = figure.subplots(len(data.structure), 4, width_ratios=[1, 1, 1.5, 1.3])
    for (alike, modes, curves, plane), name in zip(rows, data.structure.values, strict=True):
        part = data.sel(structure=name)
        _squares(alike, part.covariance, "item", "item")
        _squares(modes, part.V.dropna("mode"), "mode", "item")
        _curves(curves, part)
        places = part.place.values
        draw_paths(
            plane, places, [str(i + 1) for i in range(places.shape[1])], np.argsort(merged(part.apart.values).leaves)
        )
        plane.set(xticks=[], yticks=[], xlabel="", ylabel="")
        alike.set_title(str(name).capitalize())
    for panel, title in zip(rows[0][1:], ("Modes V", "Strengths over time", "Items as they part"), strict=True):
        panel.set_title(title)
    handles, labels = rows[0][2].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def _squares(panel: Axes, matrix: DataArray, x: str, y: str) -> None:
    style.draw_matrix(panel, matrix.values)
    panel.set_aspect("equal")
    panel.set(xticks=[], yticks=[], xlabel=x, ylabel=y)


def _curves(panel: Axes, part: Dataset) -> None:
    known = part.dropna("mode", subset=["V"])
    for curve, colour in zip(known.descent.values.T, style.mode_colours(known.sizes["mode"]), strict=True):
        panel.plot(part.time, curve, color=colour)
    panel.plot(part.time, known.theory, **style.THEORY)
    panel.plot([], [], color="grey", label="gradient descent")
    panel.plot([], [], **style.THEORY, label="exact")
    panel.set(xlabel=style.TIME, ylabel="uᵀWv")
    panel.margins(x=0.01)


FIGURE = Figure("saxe2019/structures", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
