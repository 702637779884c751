"""The demonstration: a semantic hierarchy learned from three initialisations (after Braun et al. 2022, Figure 3).

Eight living things and their features, an 8-14-8 linear network, gradient descent with rate 0.05 for 2000
steps, so that t = rate × steps ends at 100, when even the small initialisation has long learned all. From small weights
the modes are learned one level of the tree after the other, and the hidden layer takes on the structure of the
task (rich). Large random weights learn fast and keep their own (lazy); large zero-balanced weights learn fast
and are rich none the less.

The paper's small initialisation is Gaussian. Here it is zero-balanced at the same scale, so that its theory is exact.
No theorem covers the large Gaussian initialisation: the gradient flow is integrated there, and the figure says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lazyrich import inits
from lazyrich._progress import progress
from lazyrich._typing import Array, Float
from lazyrich.landscape.fate import Fate, fate
from lazyrich.methods.descend import descend
from lazyrich.methods.flow import flow
from lazyrich.methods.solve import solve
from lazyrich.networks import Network
from lazyrich.observables import half_times, mode_strengths
from lazyrich.plot import style
from lazyrich.problem import Problem
from lazyrich.tasks import semantic_hierarchy
from lazyrich.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZES, RATE, STEPS = (8, 14, 8), 0.05, 2000
#: What each mode of the task is about, strongest first.
MEANINGS = (
    "living",
    "animal or plant",
    "fish or bird",
    "flower or tree",
    "which fish",
    "which bird",
    "which flower",
    "which tree",
)
_LEVELS = {"kingdom": slice(0, 2), "family": slice(2, 4), "species": slice(4, 8)}
_COLOURS = {"small": "green", "large": "pink", "large zero-balanced": "blue"}


@dataclass(frozen=True)
class Run:
    """One initialisation: gradient descent, and the theory of the same network at the same times."""

    name: str
    weights: str
    scale: float
    descent: Trajectory
    theory: Trajectory
    fate: Fate | None  # None: no theorem applies, and the theory is the gradient flow, integrated

    @property
    def label(self) -> str:
        name = self.name if self.weights in self.name else f"{self.name} {self.weights}"
        return f"{name}, scale {self.scale:g}"

    @property
    def largest_gap(self) -> float:
        """Between the two loss curves, relative to the first loss."""
        return float(np.max(np.abs(self.descent.loss - self.theory.loss)) / self.descent.loss[0])


@dataclass(frozen=True)
class Demo:
    """The three runs, and what the table and the figure tell about them."""

    runs: tuple[Run, ...]

    @property
    def small(self) -> Run:
        return self.runs[0]

    @property
    def promise(self) -> Fate:
        """The fate of the small initialisation."""
        assert self.small.fate is not None
        return self.small.fate

    @cached_property
    def observed(self) -> Float[Array, " m"]:
        """When gradient descent from the small initialisation had learned half of each mode."""
        descent = self.small.descent
        return half_times(descent.times, mode_strengths(descent), self.promise.limit)

    @property
    def structure(self) -> Float[Array, "n n"]:
        """QQᵀ of a network whose hidden layer has the structure of the task."""
        assert self.promise.gram_limit is not None
        return self.promise.gram_limit

    def distance_from_structure(self, run: Run) -> float:
        """How far the end of a run is from that, relative: 0 is rich."""
        return float(np.linalg.norm(run.descent.gram[-1] - self.structure) / np.linalg.norm(self.structure))


def compute() -> Demo:
    """Train and predict the three initialisations.

    The seeds are such that det W2W1 of the zero-balanced ones has the sign of the task's: half of all have the other,
    and end in a saddle.
    """
    starts = (
        ("small", "zero-balanced", 1e-4, inits.zero_balanced(1, sizes=SIZES, scale=1e-4)),
        ("large", "Gaussian", 0.42, inits.gaussian(3, sizes=SIZES, scale=0.42)),
        ("large zero-balanced", "zero-balanced", 0.44, inits.zero_balanced(3, sizes=SIZES, scale=0.44)),
    )
    runs = []
    with progress(len(starts), "three initialisations") as move_on:
        for start in starts:
            runs.append(_run(*start))
            move_on(1)
    return Demo(tuple(runs))


def _run(name: str, weights: str, scale: float, network: Network) -> Run:
    problem = Problem(semantic_hierarchy(), network)
    descent = descend(problem, rate=RATE, steps=STEPS, at=np.arange(STEPS + 1))
    if problem.facts.method is None:
        return Run(name, weights, scale, descent, flow(problem, descent.times), None)
    return Run(name, weights, scale, descent, solve(problem, descent.times), fate(problem))


def draw(demo: Demo) -> Figure:
    """Loss curves, modes from small weights with their predicted times, and what the hidden layers end with."""
    with style.styled():
        figure = style.new_figure(12.0, 7.6)
        top, bottom = figure.subfigures(2, 1, height_ratios=(1.2, 1.0))  # type: ignore[misc]
        losses, modes = top.subplots(1, 2)
        _draw_losses(losses, demo)
        _draw_modes(modes, demo)
        panels = bottom.subplots(1, 1 + len(demo.runs))
        bound = float(np.abs(demo.structure).max())
        image = style.draw_gram(panels[0], demo.structure, SIZES[0], bound)
        panels[0].set_title("The task's own structure")
        for axes, run in zip(panels[1:], demo.runs, strict=True):
            style.draw_gram(axes, run.descent.gram[-1], SIZES[0], bound)
            axes.set_title(run.name.capitalize(), color=style.COLOURS[_COLOURS[run.name]])
            axes.set_xlabel(f"{demo.distance_from_structure(run):.1%} from the task's structure")
        bottom.colorbar(image, ax=panels, shrink=0.8, extend="both", label="inner products in the hidden layer")
        return style.uncover(figure)


def _draw_losses(axes: Axes, demo: Demo) -> None:
    early = axes.inset_axes((0.62, 0.14, 0.36, 0.38))
    for run in demo.runs:
        theory = style.THEORY if run.fate else style.INTEGRATED
        for panel in (axes, early):
            panel.plot(run.descent.times, run.descent.loss, color=style.COLOURS[_COLOURS[run.name]], label=run.label)
            panel.plot(run.theory.times, run.theory.loss, **theory)
    axes.plot([], [], **style.THEORY, label="exact solution")
    axes.plot([], [], **style.INTEGRATED, label="no theorem: gradient flow, integrated")
    axes.legend(loc="upper right")
    axes.set(xlabel=style.TIME, ylabel="loss", title="Gradient descent from three initialisations", ylim=0)
    axes.margins(x=0.01)
    early.set(xlim=(0, 15), ylim=0)
    early.set_title("at first", weight="normal", fontsize="medium", loc="center")


def _draw_modes(axes: Axes, demo: Demo) -> None:
    descent, theory, promise = demo.small.descent, demo.small.theory, demo.promise
    for curve, colour in zip(mode_strengths(descent).T, style.mode_colours(len(MEANINGS)), strict=True):
        axes.plot(descent.times, curve, color=colour)
    axes.plot(theory.times, mode_strengths(theory), **style.THEORY)
    half_way = (promise.initial + promise.limit) / 2
    axes.plot(promise.half_times, half_way, **style.MARK, label="predicted half-learning time")
    for level, modes in _LEVELS.items():
        end = (descent.times[-1], promise.limit[modes].mean())
        axes.annotate(level, end, (6, 0), textcoords="offset points", va="center")
    axes.legend(loc="lower right")
    axes.set(xlabel=style.TIME, ylabel="strength", title="What is learned of each mode, from the small initialisation")
    axes.margins(x=0.01)
