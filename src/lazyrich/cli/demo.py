"""A semantic hierarchy learned from three starts: theory over gradient descent."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from lazyrich.cli._output import json_document, table

if TYPE_CHECKING:
    from lazyrich.plot.demo import Demo

__all__ = ["EXAMPLE", "HELP", "add_arguments", "run"]

HELP = "a semantic hierarchy learned from three starts: a table and a figure"
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
    from lazyrich.plot import (
        demo,  # here, so that --help needs no extras
        style,
    )

    path = style.figure_path(arguments.out, _FIGURE)
    data = demo.compute()
    style.save(demo.draw(data), path)
    document = _document(data) | {"figure": str(path)}
    print(json_document(document) if arguments.json else _report(document))


def _document(data: Demo) -> dict[str, Any]:
    from lazyrich.plot.demo import MEANINGS, RATE, SIZES, STEPS

    predicted, observed = data.promise.half_times, data.observed
    return {
        "task": "semantic hierarchy",
        "sizes": SIZES,
        "rate": RATE,
        "steps": STEPS,
        "starts": [
            {
                "start": run.name,
                "weights": run.weights,
                "scale": run.scale,
                "theory": f"exact ({run.theory.method})" if run.fate else "none: flow, integrated",
                "loss": float(run.descent.loss[-1]),
                "largest_gap": run.largest_gap,
                "from_task_structure": data.distance_from_structure(run),
            }
            for run in data.runs
        ],
        "modes": [
            {
                "mode": i,
                "about": meaning,
                "strength": float(data.promise.strengths[i]),
                "predicted_half_time": float(predicted[i]),
                "observed_half_time": float(observed[i]),
                "difference": float(observed[i] - predicted[i]),
            }
            for i, meaning in enumerate(MEANINGS)
        ],
    }


def _report(document: dict[str, Any]) -> str:
    rate, steps, modes = document["rate"], document["steps"], document["modes"]
    last = max(mode["predicted_half_time"] for mode in modes)
    return f"""\
Semantic hierarchy, {"-".join(map(str, document["sizes"]))} linear network, gradient descent: \
{steps} steps of {rate:g}, so time ends at {rate * steps:g}.

{table(document["starts"])}

loss: where gradient descent ends
largest gap: between its loss curve and theory's, relative to the first loss
from task structure: how far QQᵀ ends from the structure of the task, relative; near 0 is rich

Modes of the small start: theory predicts the last to be half learned at t = {last:.4g}.

{table(modes)}

Theory solves the gradient flow; steps of {rate:g} lag behind it, and half the step is half the difference.
Half of all square zero-balanced starts have det W2W1 of the wrong sign and miss a mode for ever:
problem.facts tells, and these starts do not.

Figure: {document["figure"]}"""
