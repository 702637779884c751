"""Development in a tree: kinds part, illusions come and go, and what is inferred of a new property narrows."""

from typing import Any

import numpy as np

from lazyrich import Network, Problem, descend, solve
from lazyrich._typing import Array, Float
from lazyrich.inits import aligned
from lazyrich.observables import (
    differentiation,
    illusions,
    illusory_correlations,
    inductive_projection,
    rsm_in,
)
from lazyrich.observables.illusions import answers
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.base.types import Look
from lazyrich.plot import style
from lazyrich.tasks import tree

TITLE = "Development in a tree: kinds part in steps, illusions come and go, inferences narrow"
ABOUT = (
    "Eight items of a binary tree are learned by two layers from small weights (mode strength 0.0001), exactly "
    "(dotted) and by gradient descent, and by one layer from zero (grey). "
    "Kinds part one level after the other, each at the time that was computed (circles). Between, an item is believed "
    "to have what others of its kind have, and unlearns it, which one layer never does. "
    "A new property of one item is expected of all things first, and of ever fewer as kinds part."
)
CALLS = (
    "lr.tasks.tree",
    "lr.observables.differentiation",
    "lr.observables.illusions",
    "lr.observables.inductive_projection",
    "lr.descend",
)
CHECKS = {
    "parted": Check("times of parting, exact against descent, largest relative difference", at_most=0.02),
    "illusion": Check("largest illusory correlation of two layers, of the largest answer", at_least=0.02),
    "one_layer": Check("the same of one layer", at_most=1e-12),
    "deviation": Check("answers, theory against descent, largest difference over the largest answer", at_most=0.05),
    "narrower": Check(
        "least step down from sister to cousin to stranger, at any time after the first split", at_least=0.0
    ),
}
QUICK = {"records": 121}

_LEVELS = {"kingdoms": ([0, 1, 2, 3], [4, 5, 6, 7]), "families": ([0, 1], [2, 3]), "species": ([0], [1])}
_KIN = {"itself": 0, "its sister": 1, "a cousin": 2, "a stranger": 4}
_RATE = 0.25


def compute(*, flip: float = 0.1, a0: float = 1e-4, records: int = 481) -> Dataset:
    """Squared distances of groups, answers, and projections over time, by theory, descent, and one layer."""
    task = tree(branches=(2, 2, 2), flip=flip)
    problem = Problem(task, aligned(0, task, hidden=8, strengths=a0))
    steps = int(1.3 * np.log(8 * task.modes.s[-1] / a0) / (2 * task.modes.s[-1]) / _RATE)
    run = descend(problem, _RATE, steps, record="weights", at=np.linspace(0, steps, records).round().astype(int))
    traj = solve(problem, run.times)
    one = solve(Problem(task, Network([np.zeros((8, 8))])), run.times)
    apart, parted = [], []
    for groups in _LEVELS.values():
        apart.append([_squared(rsm_in(each), *groups) for each in (traj, run)])
        parted.append([differentiation(each, groups)[0, 1] for each in (traj, run)])
    found = illusions(traj)
    item, feature = np.unravel_index(np.argmax(np.abs(found.size)), found.size.shape)
    said = [answers(each)[:, item, feature] for each in (traj, run, one)]
    kin = inductive_projection(traj)[:, 0, list(_KIN.values())]
    largest, times = float(np.abs(answers(traj)).max()), np.array(parted)
    after = run.times > times[0, 0]
    return dataset(
        {
            "apart": (("level", "source", "time"), np.array(apart)),
            "parted": (("level", "source"), times),
            "said": (("network", "time"), np.array(said)),
            "kin": (("time", "who"), kin),
            "target": task.target[feature, item],
        },
        {
            "time": run.times, "level": list(_LEVELS), "who": list(_KIN), "source": ["theory", "descent"],
            "network": ["theory", "descent", "one layer"],
        },
        {
            "parted": float(np.abs(times[:, 1] / times[:, 0] - 1).max()),
            "illusion": float(np.abs(found.size).max() / largest),
            "one_layer": float(np.abs(illusory_correlations(one)).max() / largest),
            "deviation": float(np.abs(answers(traj) - answers(run)).max() / largest),
            "narrower": float(-np.diff(kin[after], axis=1).max()),
        },
    )  # fmt: skip


def _squared(G: Float[Array, "T n n"], one: list[int], other: list[int]) -> Float[Array, " T"]:
    """Squared distance of the mean activities of two groups, from the items' inner products."""
    (A, B), between = (G[:, each][:, :, each].mean(axis=(1, 2)) for each in (one, other)), G[:, one][:, :, other]
    return A + B - 2 * between.mean(axis=(1, 2))


def draw(data: Dataset) -> Picture:
    """Distances, an answer, and projections, over the same time."""
    figure: Any = style.new_figure(12.0, 3.9)
    left, middle, right = figure.subplots(1, 3)
    for level, colour in zip(data.level.values, style.series_colours(3), strict=True):
        part = data.sel(level=level)
        left.plot(data.time, part.apart.sel(source="descent"), color=colour, label=str(level))
        left.plot(data.time, part.apart.sel(source="theory"), **style.THEORY)
        at = float(part.parted.sel(source="theory"))
        height = np.interp(at, data.time, part.apart.sel(source="theory"))
        left.plot(at, height, **(style.MARK | {"markeredgecolor": colour}))
    left.set(title="Kinds part", ylabel="squared distance of their means")
    blue: Look = {"color": style.COLOURS["blue"]}
    middle.plot(data.time, data.said.sel(network="descent"), **blue, label="two layers, descent")
    middle.plot(data.time, data.said.sel(network="theory"), **style.THEORY, label="exact")
    middle.plot(data.time, data.said.sel(network="one layer"), color=style.COLOURS["grey"], label="one layer")
    middle.axhline(float(data.target), **style.LIMIT)
    middle.set(title="An illusion", ylabel="answer for one feature of one item")
    for who, colour in zip(data.who.values, style.mode_colours(len(data.who)), strict=True):
        right.plot(data.time, data.kin.sel(who=who), color=colour, label=str(who))
    right.set(title="A new property of one item", ylabel="expected of")
    for panel in (left, middle, right):
        _finish(panel)
    return figure


def _finish(panel: Axes) -> None:
    panel.set_xlabel(style.TIME)
    panel.margins(x=0.01)
    panel.legend(loc="best")


FIGURE = Figure("saxe2019/development", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
