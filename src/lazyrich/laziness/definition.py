"""Lazy and rich, defined once: whatever in the library says one of these words asks `judge`.

A lazy network learns with the tangent kernel K of its initialisation. Two numbers tell how far K goes from there:

- movement, ‖K(t) − K(0)‖ relative to the larger of ‖K(0)‖ and ‖K‖: how far it turns and grows, from 0 to √2;
- rotation, S = 1 − ⟨K(0), K(t)⟩/(‖K(0)‖‖K(t)‖), the kernel distance: how far it turns, from 0 to 1.

Both are reported. The movement decides. **Lazy**: it stays below a tenth until the loss has fallen by 99 of 100 parts.
**Rich**: it does not. **Delayed rich**: it does not, but half of the movement is done only after ten times the time in
which the kernel of the initialisation learns, 1 over the largest eigenvalue of K(0): it has long fitted what it can.
What the kernel does when there is nothing left to learn does not count.

Why the movement. Lazy means that a network follows its tangent model at the initialisation, and for this K has to stay
what it is. A kernel that grows and does not turn (S = 0, as for any network of one input, one unit and one output)
learns along a sigmoid. On 285 exact solutions (two layers, seven shapes, λ from −30 to 30, scales from 0.001 to 4), the
42 with a movement below 0.1 stay within 2.2 % of their way from the tangent model; the 63 with S ≤ 0.01 leave it by up
to 36 %, the 79 with S ≤ 0.05 by up to 40 %. A threshold of the movement between 0.1 and 0.16 tells those that leave the
tangent model by more than 5 % with 6 errors or fewer, S = 0.01 with 15 and S = 0.05 with 31.

Who uses which. Kunin et al. 2024 use the kernel distance S, and no threshold: S(0, t) ≈ 0 is lazy, 0 ≪ S(0, t) ≤ 1 is
rich, and the two are ends of a spectrum. Chizat, Oyallon and Bach 2019 call a model lazy that behaves like its
linearisation around the initialisation, which is what the movement is held against above. The lecture notes (section 9)
call a network lazy whose kernel stays, K(t) ≈ K(0), which is small movement. Braun et al. 2022 (section 4) tell a rich
solution by its representations, which are those of the task, not by the kernel. The tenth, the 99 parts and the ten
times are ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from lazyrich import _check
from lazyrich._check import InvalidInput


class RegimeName(StrEnum):
    """A word, equal to its text.

    >>> lr.laziness.RegimeName.LAZY == "lazy", [lr.laziness.RegimeName.DELAYED_RICH]
    (True, ['delayed rich'])
    """

    LAZY = "lazy"
    RICH = "rich"
    DELAYED_RICH = "delayed rich"
    UNKNOWN = "unknown"  # a kernel that is zero, or not finite

    def __repr__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class Thresholds:
    """Where lazy ends and late begins.

    >>> problem = lr.Problem(lr.Task.from_correlations([[0.0, 1.0]]), lr.inits.single_neuron([-1.0, 0.0], delta=6.0))
    >>> traj = lr.solve(problem, [20.0])
    >>> lr.regime(traj).name, lr.regime(traj, lr.laziness.Thresholds(lazy=0.02)).name
    ('lazy', 'rich')
    """

    lazy: float = 0.1  # movement of the kernel below which it counts as unchanged
    learned: float = 0.99  # share of the fall of the loss, after which the kernel is not looked at
    late: float = 10.0  # times the time in which the kernel of the initialisation learns: a later change is delayed

    def __post_init__(self) -> None:
        for name in ("lazy", "learned", "late"):
            _check.positive(name, getattr(self, name))
        if self.learned >= 1:
            raise InvalidInput(
                f"learned must be a share of the fall of the loss below 1, and it is {self.learned:g}: try 0.99."
            )


USUAL = Thresholds()


@dataclass(frozen=True)
class Judgement:
    """A regime, the two numbers behind it, and the thresholds it was judged by.

    >>> print(lr.laziness.judge(0.31, 0.02))
    rich: the kernel moves by 31% of its size (lazy below 10%) and turns by S = 0.02
    """

    name: RegimeName
    kernel_movement: float  # decides
    kernel_distance: float  # S, is told beside it; nan: the kernel vanishes, and has no direction
    thresholds: Thresholds

    def __str__(self) -> str:
        if self.name is RegimeName.UNKNOWN:
            return "unknown: the tangent kernel is zero, or not finite"
        words = f"{self.name}: the kernel moves by {percent(self.kernel_movement)} "
        words += f"of its size (lazy below {percent(self.thresholds.lazy)})"
        return words + (
            f" and turns by S = {round(self.kernel_distance, 12):.2g}" * math.isfinite(self.kernel_distance)
        )


def judge(
    kernel_movement: float, kernel_distance: float, *, delay: float = 0.0, thresholds: Thresholds = USUAL
) -> Judgement:
    """The regime of a kernel that moved and turned so far, half of it after `delay` times the time in which the
    kernel of the initialisation learns.

    Without a known delay (0) a network that is not lazy is rich.

    >>> [lr.laziness.judge(moved, 0.2, delay=late).name for moved, late in ((0.05, 0.0), (0.5, 0.0), (0.5, 30.0))]
    ['lazy', 'rich', 'delayed rich']
    """
    if not math.isfinite(kernel_movement):
        name = RegimeName.UNKNOWN
    elif kernel_movement < thresholds.lazy:
        name = RegimeName.LAZY
    else:
        name = RegimeName.DELAYED_RICH if delay > thresholds.late else RegimeName.RICH
    return Judgement(name, float(kernel_movement), float(kernel_distance), thresholds)


def percent(share: float) -> str:
    """Three digits, without those that say nothing."""
    return f"{100 * share:.3g}%"
