"""The demonstration: a semantic hierarchy learned from three starts (after Braun et al. 2022, Figure 3).

Eight living things and their features, an 8-14-8 linear network, gradient descent with rate 0.05 for 2000 steps,
so that t = rate × steps ends at 100. From small weights the modes are learned one level of the tree after the
other, and the hidden layer takes on the structure of the task (rich). Large random weights learn fast and keep
their own (lazy); large zero-balanced weights learn fast and are rich none the less.

The paper's small start is Gaussian. Here it is zero-balanced at the same scale, so that its theory is exact. No
theorem covers the large Gaussian start: there the gradient flow is integrated, and the figure says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lazyrich import inits
from lazyrich._typing import Array, Float
from lazyrich.descend import descend
from lazyrich.figures import style
from lazyrich.flow import flow
from lazyrich.landscape.fate import Fate, fate
from lazyrich.networks import Network
from lazyrich.observables import half_times, mode_strengths
from lazyrich.problem import Problem
from lazyrich.solve import solve
from lazyrich.tasks import semantic_hierarchy
from lazyrich.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MEANINGS", "RATE", "SIZES", "STEPS", "Demo", "Run", "compute", "draw"]

SIZES, RATE, STEPS = (8, 14, 8), 0.05, 2000
#: What each mode of the task tells apart, strongest first.
MEANINGS = ("living", "animal or plant", "fish or bird", "flower or tree", *("which of a pair",) * 4)

# Half of all square zero-balanced starts have the wrong sign of det W2W1 and end in a saddle. These do not.
_SEED = 3
_COLOURS = {"small": "green", "large": "pink", "large zero-balanced": "blue"}


@dataclass(frozen=True)
class Run:
    """One start: gradient descent, and the theory of the same network at the same times."""

    name: str
    recipe: str
    descent: Trajectory
    theory: Trajectory
    fate: Fate | None  # None: no theorem applies, and the theory is the gradient flow, integrated

    @property
    def largest_gap(self) -> float:
        """Between the two loss curves, relative to the loss at the start."""
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
        """The fate of the small start."""
        assert self.small.fate is not None
        return self.small.fate

    @cached_property
    def observed(self) -> Float[Array, " m"]:
        """When gradient descent from the small start had learned half of each mode."""
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
    """Train and predict the three starts."""
    starts = (
        ("small", "zero-balanced, 1e-4", inits.zero_balanced(_SEED, sizes=SIZES, scale=1e-4)),
        ("large", "Gaussian, 0.42", inits.gaussian(_SEED, sizes=SIZES, scale=0.42)),
        ("large zero-balanced", "0.44", inits.zero_balanced(_SEED, sizes=SIZES, scale=0.44)),
    )
    return Demo(tuple(_run(*start) for start in starts))


def _run(name: str, recipe: str, network: Network) -> Run:
    problem = Problem(semantic_hierarchy(), network)
    descent = descend(problem, rate=RATE, steps=STEPS)
    if problem.facts.method is None:
        return Run(name, recipe, descent, flow(problem, descent.times), None)
    return Run(name, recipe, descent, solve(problem, descent.times), fate(problem))


def draw(demo: Demo) -> Figure:
    """Loss curves, modes of the small start with their predicted times, and what the hidden layers end with."""
    with style.styled():
        figure = style.new_figure(12.0, 7.6)
        top, bottom = figure.subfigures(2, 1, height_ratios=(1.2, 1.0))
        losses, modes = top.subplots(1, 2)
        _draw_losses(losses, demo)
        _draw_modes(modes, demo)
        bound = max(float(np.abs(run.descent.gram[-1]).max()) for run in demo.runs)
        panels = bottom.subplots(1, 1 + len(demo.runs))
        image = style.draw_gram(panels[0], demo.structure, SIZES[0], bound)
        panels[0].set_title("The task's own structure")
        for axes, run in zip(panels[1:], demo.runs, strict=True):
            style.draw_gram(axes, run.descent.gram[-1], SIZES[0], bound)
            axes.set_title(run.name.capitalize(), color=style.COLOURS[_COLOURS[run.name]])
            axes.set_xlabel(f"{demo.distance_from_structure(run):.1%} from the task's structure")
        bottom.colorbar(image, ax=panels, shrink=0.8, label=r"$QQ^\top$ after training")
    return figure


def _draw_losses(axes: Axes, demo: Demo) -> None:
    for run in demo.runs:
        colour = style.COLOURS[_COLOURS[run.name]]
        axes.plot(run.descent.times, run.descent.loss, color=colour, label=f"{run.name} ({run.recipe})")
    labels = {"exact solution": style.THEORY, "no theorem: flow, integrated": style.INTEGRATED}
    for run in demo.runs:
        label = "exact solution" if run.fate else "no theorem: flow, integrated"
        axes.plot(run.theory.times, run.theory.loss, **labels[label])
    handles = axes.get_legend_handles_labels()[0]
    handles += [axes.plot([], [], label=label, **look)[0] for label, look in labels.items()]
    axes.legend(handles=handles, loc="upper right")
    axes.set(xlabel="time (rate × steps)", ylabel="loss", title="Gradient descent from three starts", ylim=0)
    axes.margins(x=0.01)


def _draw_modes(axes: Axes, demo: Demo) -> None:
    descent, theory = demo.small.descent, demo.small.theory
    for curve, colour in zip(mode_strengths(descent).T, style.mode_colours(len(MEANINGS)), strict=True):
        axes.plot(descent.times, curve, color=colour)
    axes.plot(theory.times, mode_strengths(theory), **style.THEORY)
    half_way = (demo.promise.start + demo.promise.limit) / 2
    axes.plot(demo.promise.half_times, half_way, **style.MARK, label="predicted half-learning time")
    for group, label in (([0, 1], "kingdom"), ([2, 3], "family"), ([4, 7], "species")):
        axes.annotate(
            label,
            (descent.times[-1], demo.promise.limit[group].mean()),
            (6, 0),
            textcoords="offset points",
            va="center",
        )
    axes.legend(loc="upper left")
    axes.set(
        xlabel="time (rate × steps)", ylabel=r"mode strength $u^\top W v$", title="Modes of the small start"
    )
    axes.margins(x=0.01)
