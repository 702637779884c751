"""`lazyrich predict` with several tasks: the network learns one after the other, and what it forgets is printed.

Linear networks go through `lr.continual`, exact where a theorem applies; others are integrated task by task. What was
integrated is integrated once more with a larger tolerance, and how far the losses are apart is its error.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

import lazyrich as lr
from lazyrich._progress import progress
from lazyrich._status import End
from lazyrich._typing import Array, Float
from lazyrich.cli._output import json_document, table
from lazyrich.prediction.looking import falls

_COARSE = (1e-7, 1e-2)  # rtol of the second integration, of linear networks and of others: a hundred, and ten, times it


def run_in_turn(
    problems: Sequence[lr.Problem], horizon: float | None, count: int, figure: Path | None, *, as_json: bool
) -> None:
    """Predicts, draws and prints; `problems` have the network as it is before the first task."""
    from lazyrich.plot import style

    found = _continual(problems, horizon, count)
    if figure:
        style.save(lr.plot.forgetting(found), figure)
    exact, errors = [method != "flow" for method in found.methods], _errors(found)
    falling = [i for i, run in enumerate(found.trajectories) if falls(run.times, run.loss, float(np.ptp(run.loss)))]
    if as_json:
        stages = [
            {"method": method, "exact": known, "error": error, "end": float(end), "still_falling": i in falling}
            for i, (method, known, error, end) in enumerate(
                zip(found.methods, exact, errors, found.boundaries, strict=True)
            )
        ]
        about = {"times": found.times, "training": found.training, "losses": found.losses}
        matrices = {"loss_matrix": found.loss_matrix, "forgetting": found.forgetting}
        print(json_document({"stages": stages, **about, **matrices, "notes": found.notes, "figure": figure}))
        return
    how = [
        {
            "after": f"task {i + 1} ({problems[i].task.name})",
            "by": f"{method}, exact" if known else f"{method}, integrated to {error:.0e}",
            "until": float(end),
        }
        for i, (method, known, error, end) in enumerate(
            zip(found.methods, exact, errors, found.boundaries, strict=True)
        )
    ]
    first = {"after": "nothing", "by": "–", "until": 0.0}
    losses = _rows([first, *how], "loss of", np.vstack([found.initial_losses, found.loss_matrix]))
    print(f"{problems[0].network!r}, {len(problems)} tasks in turn\n\n{table(losses)}")
    forgotten = _rows([{"after": stage["after"]} for stage in how], "of", found.forgetting)
    print(f"\nforgotten: by how much a loss has risen since its own training\n\n{table(forgotten)}")
    for note in [*_once(found.notes), *_unfinished(found, falling)]:
        print(f"note: {note}")
    if figure:
        print(f"\nFigure: {figure}")


def _rows(begin: Sequence[dict[str, object]], word: str, values: Float[Array, "stage task"]) -> list[dict[str, object]]:
    """A column for each task after those that tell the stage."""
    names = [f"{word} task {j + 1}" for j in range(values.shape[1])]
    return [about | dict(zip(names, map(float, row), strict=True)) for about, row in zip(begin, values, strict=True)]


def _once(notes: Sequence[str]) -> list[str]:
    """Notes that several tasks share, once, with the tasks in front."""
    tasks = dict[str, list[str]]()
    for note in notes:
        task, _, words = note.partition(": ")
        tasks.setdefault(words, []).append(task.removeprefix("task "))
    return [f"task{'s' * (len(which) > 1)} {', '.join(which)}: {words}" for words, which in tasks.items()]


def _unfinished(found: lr.Continual, falling: Sequence[int]) -> list[str]:
    """Stages whose loss is still falling when their time is over, and by how much it might fall."""
    notes = []
    for i in falling:
        run = found.trajectories[i]
        words = f"task {i + 1}: its loss is still falling when its time is over, try a longer --horizon"
        if run.problem.network.activation.linear and run.problem.loss.squared:
            words += f" (it is {float(run.loss[-1]):.4g}, and the least {run.problem.task.loss_floor:.4g})"
        notes.append(words)
    return notes


def _errors(found: lr.Continual) -> list[float]:
    """Of the loss of each stage, relative to its largest: 0 where it is exact, else from a second integration.

    It begins where the stage begins, so that what came before is not in it.
    """
    errors = []
    with progress(len(found.trajectories), "errors") as advance:
        for run in found.trajectories:
            advance(1)
            if run.method != "flow":
                errors.append(0.0)
                continue
            some = np.unique(np.append(run.times[:: max(1, len(run.times) // 25)], run.times[-1]))
            coarse = _COARSE[0 if run.problem.network.activation.linear else 1]
            draft = lr.flow(run.problem, some, rtol=coarse, record="loss")
            there = run.at(draft.times).loss
            errors.append(float(np.abs(draft.loss - there).max() / np.abs(run.loss).max()))
    return errors


def _continual(problems: Sequence[lr.Problem], horizon: float | None, count: int) -> lr.Continual:
    first, tasks = problems[0], [problem.task for problem in problems]
    about = {"rates": first.rates, "weight_decay": first.weight_decay, "loss": first.loss}
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
            if done[-1].status.end is not End.COMPLETE:
                break
    if first.network.activation.linear:
        return found
    notes = []  # how it was integrated, and how well, stands beside each stage
    ends = [run.network() for run in done if run.status.end is End.COMPLETE]
    if len(ends) < len(done):
        notes.append(f"task {len(done)}: {done[-1].status.what}; later tasks were not reached")
    settings = tuple(lr.sequences.Setting(problem.rates, problem.weight_decay) for problem in problems)
    plan = lr.sequences.sequential(tasks)
    return lr.Continual(plan, settings, tuple(done), tuple(ends), (0.0,) * len(done), tuple(notes))
