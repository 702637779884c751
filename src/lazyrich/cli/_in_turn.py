"""`lazyrich predict` with several tasks: the network learns one after the other, and what it forgets is printed.

Linear networks go through `lr.continual`, exact where a theorem applies; others are integrated task by task.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

import lazyrich as lr
from lazyrich._typing import Array
from lazyrich.cli._output import json_document, table


def run_in_turn(
    problems: Sequence[lr.Problem], horizon: float | None, count: int, figure: Path | None, *, as_json: bool
) -> None:
    """Predicts, draws and prints; `problems` have the network as it is before the first task."""
    from lazyrich.plot import style

    found = _continual(problems, horizon, count)
    if figure:
        style.save(lr.plot.forgetting(found), figure)
    exact = [method != "flow" for method in found.methods]
    if as_json:
        stages = [
            {"method": method, "exact": known, "end": float(end)}
            for method, known, end in zip(found.methods, exact, found.boundaries, strict=True)
        ]
        about = {"times": found.times, "training": found.training, "losses": found.losses}
        matrices = {"loss_matrix": found.loss_matrix, "forgetting": found.forgetting}
        print(json_document({"stages": stages, **about, **matrices, "notes": found.notes, "figure": figure}))
        return
    names = [f"loss of task {j + 1}" for j in range(len(problems))]
    rows: list[dict[str, object]] = [
        {"after": "nothing", "by": "–", "until": 0.0} | dict(zip(names, map(float, found.initial_losses), strict=True))
    ]
    for i, (method, end) in enumerate(zip(found.methods, found.boundaries, strict=True)):
        how: dict[str, object] = {
            "after": f"task {i + 1} ({problems[i].task.name})",
            "by": f"{method}, exact" if exact[i] else f"{method}, integrated",
        }
        rows.append(how | {"until": float(end)} | dict(zip(names, map(float, found.loss_matrix[i]), strict=True)))
    print(f"{problems[0].network!r}, {len(problems)} tasks in turn\n\n{table(rows)}")
    for note in [*found.notes, *_unfinished(found)]:
        print(f"note: {note}")
    if figure:
        print(f"\nFigure: {figure}")


def _unfinished(found: lr.Continual) -> list[str]:
    """Stages whose last tenth has a hundredth of all that their loss changes."""
    notes = []
    for i, run in enumerate(found.trajectories):
        fall = np.interp(0.9 * run.times[-1], run.times, run.loss) - run.loss[-1]
        if fall > 0.01 * np.ptp(run.loss):
            notes.append(f"task {i + 1}: its loss is still falling when its time is over, try a longer --horizon")
    return notes


def _continual(problems: Sequence[lr.Problem], horizon: float | None, count: int) -> lr.Continual:
    first, tasks = problems[0], [problem.task for problem in problems]
    about = {"rates": first.rates, "weight_decay": first.weight_decay}
    network, spans, done = first.network, list[Array](), list[lr.Trajectory]()
    for i, task in enumerate(tasks):
        problem = lr.Problem(task, network, **about)
        spans.append(np.linspace(0.0, lr.landscape.horizon(problem) if horizon is None else horizon, count))
        if first.network.activation.linear:
            found = lr.continual(tasks[: i + 1], first.network, spans, **about)
            network = found.ends[-1] if len(found.ends) > i else network
        else:
            done.append(lr.flow(problem, spans[-1]))
            network = done[-1].network()
    if first.network.activation.linear:
        return found
    notes = tuple(f"task {i + 1}: {note}" for i, run in enumerate(done) for note in run.notes)
    ends = tuple(run.network() for run in done)
    return lr.Continual(tuple(tasks), tuple(done), ends, (0.0,) * len(done), notes)
