"""A semantic hierarchy learned from three initialisations: theory over gradient descent."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from lazyrich.cli._output import json_document, table

if TYPE_CHECKING:
    from lazyrich.cli._demo import Demo

EXAMPLE = "lazyrich demo --out demo.pdf"

_FIGURE = "lazyrich-demo.png"
_DESCRIPTION = """\
Eight living things and their features, learned by an 8-14-8 linear network from small,
from large and from large zero-balanced weights: when each mode should be half learned,
when gradient descent has learned half of it, and a figure of theory over simulation."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    parser.add_argument(
        "--out",
        metavar="PATH",
        default=_FIGURE,
        help="figure to write, or folder for it (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of tables")


def run(arguments: argparse.Namespace) -> None:
    from lazyrich.cli import _demo  # here, so that --help needs no extras
    from lazyrich.plot import style

    path = style.figure_path(arguments.out, _FIGURE)
    demo = _demo.compute()
    style.save(_demo.draw(demo), path)
    print(json_document(_document(demo, path)) if arguments.json else _report(demo, path))


def _document(demo: Demo, path: Path) -> dict[str, object]:
    from lazyrich.cli._demo import RATE, SIZES, STEPS

    about = {"task": "semantic hierarchy", "sizes": SIZES, "rate": RATE, "steps": STEPS}
    return about | {"initialisations": _starts(demo), "modes": _modes(demo), "figure": str(path)}


def _starts(demo: Demo) -> list[dict[str, str | float]]:
    return [
        {
            "initialisation": run.name,
            "weights": run.weights,
            "scale": run.scale,
            "theory": f"exact ({run.theory.method})" if run.fate else "none: flow, integrated",
            "loss": float(run.descent.loss[-1]),
            "largest_gap": run.largest_gap,
            "from_task_structure": demo.distance_from_structure(run),
        }
        for run in demo.runs
    ]


def _modes(demo: Demo) -> list[dict[str, str | float]]:
    from lazyrich.cli._demo import MEANINGS

    half_times = zip(MEANINGS, demo.promise.s, demo.promise.half_times, demo.observed, strict=True)
    return [
        {
            "mode": i,
            "about": meaning,
            "strength": float(strength),
            "predicted_half_time": float(predicted),
            "observed_half_time": float(observed),
            "difference": float(observed - predicted),
        }
        for i, (meaning, strength, predicted, observed) in enumerate(half_times, start=1)
    ]


def _report(demo: Demo, path: Path) -> str:
    from lazyrich.cli._demo import RATE, SIZES, STEPS

    last = float(demo.promise.half_times.max())
    return f"""\
Semantic hierarchy, {"-".join(map(str, SIZES))} linear network, gradient descent: \
{STEPS} steps of {RATE:g}, so time ends at {RATE * STEPS:g}.

{table(_starts(demo))}

loss: where gradient descent ends
largest gap: between its loss curve and theory's, relative to the first loss
from task structure: how far the inner products in the hidden layer end from the task's, relative; near 0 is rich

Modes from the small initialisation: theory predicts the last to be half learned at t = {last:.4g}.

{table(_modes(demo))}

Theory solves the gradient flow; steps of {RATE:g} lag behind it, and half the step is half the difference.
Half of all square zero-balanced initialisations have det W2W1 of the wrong sign and miss a mode for ever:
problem.facts tells, and these do not.

Figure: {path}"""
