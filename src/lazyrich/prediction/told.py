"""What `print(prediction)` says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lazyrich._rounding import ROUNDING, cleared

if TYPE_CHECKING:
    from lazyrich.prediction.result import Prediction

_ROWS = 12  # of the table of modes
_NEXT = "\n" + 14 * " "  # line, below the second column


def told(found: Prediction) -> str:
    """Network, how it is known, loss, regime, modes and notes."""
    traj, problem = found.trajectory, found.trajectory.problem
    network, loss = problem.network, problem.loss
    end, of = f"{traj.times[-1]:g}", "" if loss.squared else f" ({loss})"
    sure = "exact" if found.exact else f"{found.known}: loss and modes to {found.error:.1g} of their largest"
    first = f"{traj.loss[0]:.6g}" + ("" if traj.times[0] == 0 else f" at t = {traj.times[0]:g}")
    lines = [
        f"network       {network.architecture}",
        f"known by      {found.method} ({sure})",
        f"loss          {first} → {_number(traj.loss[-1], traj.loss[0])} at t = {end}{of}",
    ]
    lines += [str(found.fate)] if found.fate is not None else _without_fate(found)
    return "\n".join(lines + [f"note: {note}" for note in found.notes])


def _without_fate(found: Prediction) -> list[str]:
    """The least loss there is, the regime, steps and modes."""
    problem, first = found.trajectory.problem, found.trajectory.loss[0]
    loss, lines = problem.loss, []
    if problem.network.activation.linear and loss.squared:
        lines.append(f"least loss    {_number(problem.task.loss_floor, first)} (of any linear map)")
    elif (floor := loss.floor(problem.task)) is not None and not loss.squared:
        lines.append(f"least loss    {_number(floor, first)} (the entropy of the targets) or more")
    unknown = "not known: it is read from the tangent kernel of linear networks and of two layers with ReLUs"
    if not found.learns:
        unknown = "none: it rests on a saddle of the loss" if found.rests else "none: there is nothing to learn"
    lines.append(f"regime        {str(found.regime or unknown).replace('; ', _NEXT)}")
    if found.regime and not found.limit_known:
        seen = f"{float(found.course.times[-1]):.4g}"
        lines.append(f"{_NEXT[1:]}as far as t = {seen}; what comes later may be richer")
    lines += [f"descent       {found.steps.told(_NEXT)}"] if found.steps else []
    return lines + _modes(found)


def _modes(found: Prediction) -> list[str]:
    """A table of the modes, and what the closed form says of them."""
    problem, closed, first = found.trajectory.problem, found.closed_form, found.along[0]
    (_, _, s, target), linear, squared = found.frames, problem.network.activation.linear, problem.loss.squared
    shown = range(min(len(target), _ROWS))
    white = problem.facts.whitened or not linear or not squared  # where Σyx is the target
    end = float(found.course.times[-1])
    size, ends = float(np.abs(target).max()), "limit" if found.limit_known else f"at t = {end:.4g}"
    lines = [f"{'mode':>6}{'' if white else f' {chr(931)}yx'.rjust(11)}"]
    lines[0] += f" {'target' if squared else 'pull':>12} {'initial':>12} {ends:>12} {'half time':>12}"
    lines[0] += f" {'half step':>10}" if found.steps else ""
    lines[0] += f" {'closed form':>12} {'c/s':>9}" if closed else ""
    for i in shown:
        moves = np.abs(found.limit[i] - first[i]) > ROUNDING * size
        later = f"> {end:.3g}" if moves and found.limit_known else "–"
        row = f"{i + 1:>6}" + ("" if white else f"{_number(s[i], s[0], 5):>11}")
        for value, digits in ((target[i], 6), (first[i], 4), (found.limit[i], 6)):
            row += f" {_number(value, size, digits):>12}"
        row += f" {_time(found.half_times[i], later):>12}"
        row += f" {found.steps.shown(i):>10}" if found.steps else ""
        alone = closed and f" {_time(closed.half_times[i], '–'):>12} {_time(closed.c[i], '–', 3):>9}"
        lines.append(row + (alone or ""))
    if len(target) > len(shown):
        lines.append(f"   and {len(target) - len(shown)} weaker modes")
    if not linear:
        same = ", and targets the same of the data, in Σyx" if squared else ""
        lines.append(f"   strengths are uᵀE[f xᵀ]v of the outputs f{same}")
    if not squared:
        lines.append("   modes are those of −∂loss/∂W of a linear map at W = 0, and pulls its singular values")
    if closed:
        lines.append(f"closed form   {str(closed).replace('; ', _NEXT)}")
    return lines


def _time(value: float, otherwise: str, digits: int = 6) -> str:
    return f"{value:.{digits}g}" if np.isfinite(value) else otherwise


def _number(value: float, size: float, digits: int = 6) -> str:
    """A number beside others of this size: what is nothing but rounding is 0."""
    return f"{float(cleared(value, float(np.abs(size)))):.{digits}g}"
