"""What will become of a network on a task, before any training."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import lazyrich as lr
from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._files import read_data_file, read_matrix_file, read_network_file
from lazyrich._rounding import cleared
from lazyrich._status import End
from lazyrich.cli._in_turn import run_in_turn
from lazyrich.cli._output import json_document, table
from lazyrich.facts import Condition

if TYPE_CHECKING:
    from lazyrich.prediction import Prediction

EXAMPLE = "lazyrich predict --network weights.safetensors --data data.npz --whiten --figure fate.png"

_DESCRIPTION = """\
Which theorems apply to a network and a task, which modes it will learn and when, the predicted
loss curve, and a figure. Several --data are learned in turn. Time is learning rate × steps."""
_FIGURE = "lazyrich-predict.png"
_ROWS = 16  # of the loss table
_TIMES, _MOST_TIMES = 201, 100_000
_SAME = 1e-7  # relative difference of maps that whiten the same inputs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    add = parser.add_argument
    add(
        "--network",
        metavar="FILE",
        required=True,
        help="weights, .npz or .safetensors: matrices (outputs, inputs), and biases if it has any",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--data",
        metavar="FILE",
        action="append",
        help=".npz with inputs and targets (or X and Y, or x and y) or labels, or .csv with the columns of both, "
        "inputs first; rows are samples, labels whole numbers; given more than once, one is learned after the other",
    )
    what.add_argument(
        "--sigma-yx",
        metavar="FILE",
        help="Σyx of white inputs instead of data: .npy, .npz or .csv, (outputs, inputs)",
    )
    add("--layers", metavar="A,B", help="names of the weights in the file, first layer first")
    add(
        "--activation",
        metavar="NAME",
        default="linear",
        help="between layers: linear, relu, tanh, or the slope of a leaky ReLU (default: %(default)s)",
    )
    add(
        "--whiten",
        action="store_true",
        help="whiten the inputs, on the directions that they have; the given weights then act on these. "
        "Several --data must have the same inputs then, for the weights pass from one to the next",
    )
    add("--rates", metavar="A,B", help="learning rate of each layer (default: 1)")
    add(
        "--weight-decay",
        metavar="γ",
        type=float,
        default=0.0,
        help="adds ½γ‖W‖² per layer to the loss (default: 0)",
    )
    add(
        "--rate",
        metavar="η",
        type=float,
        help="of gradient descent: half times in steps too, and the largest stable rate",
    )
    add("--momentum", metavar="β", type=float, default=0.0, help="of gradient descent, with --rate (default: 0)")
    add("--nesterov", action="store_true", help="Nesterov's momentum instead of the heavy ball's")
    add(
        "--loss",
        metavar="NAME",
        default="squared",
        help="squared, or cross_entropy, of labels or of targets that are probabilities (default: %(default)s)",
    )
    add("--horizon", metavar="T", type=float, help="time to predict up to (default: until all has happened)")
    add(
        "--times",
        metavar="N",
        type=int,
        help=f"evenly spaced times to predict, 2 to {_MOST_TIMES} (default: 201, without --horizon "
        "closer to each other near zero)",
    )
    add(
        "--figure",
        metavar="PATH",
        default=_FIGURE,
        help="figure to write, or existing folder for it (default: %(default)s)",
    )
    add("--no-figure", action="store_true", help="write none; matplotlib is not needed then")
    add("--json", action="store_true", help="print one JSON document instead of text")


def run(arguments: argparse.Namespace) -> None:
    from lazyrich.plot import style

    if arguments.rate is None and (arguments.momentum or arguments.nesterov):
        raise InvalidInput("--momentum and --nesterov go with --rate: try --rate 0.01 beside them.")
    horizon = None if arguments.horizon is None else _check.positive("--horizon", arguments.horizon)
    count = None if arguments.times is None else _check.count("--times", arguments.times, least=2)
    if count is not None and count > _MOST_TIMES:
        raise InvalidInput(f"--times must be at most {_MOST_TIMES}, and it is {count}.")
    path = None if arguments.no_figure else style.figure_path(arguments.figure, _FIGURE)
    if len(arguments.data or ()) > 1:
        if arguments.rate is not None:
            raise InvalidInput("--rate goes with one --data, and there are several: try each by itself.")
        run_in_turn(_problems(arguments), horizon, count or _TIMES, path, as_json=arguments.json)
        return
    problem = _problem(arguments)
    how = {"rate": arguments.rate, "momentum": arguments.momentum, "nesterov": arguments.nesterov}
    prediction = lr.predict(problem, None if horizon is None else np.linspace(0.0, horizon, count or _TIMES), **how)
    if horizon is None and count is not None:
        prediction = lr.predict(problem, np.linspace(0.0, float(prediction.course.times[-1]), count), **how)
    if path:
        prediction.plot(path)
    if arguments.json:
        print(json_document(_document(prediction) | {"figure": path}))
    else:
        print(_report(prediction) + (f"\n\nFigure: {path}" if path else ""))


def _problem(arguments: argparse.Namespace) -> lr.Problem:
    """The first task, and the network as it is."""
    return _problems(arguments)[0]


def _problems(arguments: argparse.Namespace) -> list[lr.Problem]:
    """Each task with the network as it is."""
    weights, biases = read_network_file(arguments.network, _listed("--layers", arguments.layers))
    network = lr.Network(weights, _activation(arguments.activation), biases=biases)
    if arguments.sigma_yx:
        if arguments.whiten:
            raise InvalidInput("--whiten goes with --data: with --sigma-yx the inputs are taken to be white already.")
        tasks = [lr.Task.from_correlations(read_matrix_file(arguments.sigma_yx))]
    else:
        tasks = [_task(path, network) for path in arguments.data]
        tasks = _whitened(tasks, arguments.data) if arguments.whiten else tasks
    rates = _numbers("--rates", arguments.rates)
    about = {"rates": rates, "weight_decay": arguments.weight_decay, "loss": arguments.loss}
    problems = [lr.Problem(task, network, **about) for task in tasks]
    if arguments.whiten and len(problems) == 1 and (small := problems[0].on_support()) is not problems[0]:
        found, given = small.network.d_in, network.d_in
        print(f"note: the inputs span {found} of {given} directions, and the network is seen on those", file=sys.stderr)
        return [small]
    return problems


def _task(path: str, network: lr.Network) -> lr.Task:
    """Of targets, or of labels, which number the outputs from 0 on."""
    inputs, targets, labels = read_data_file(path, network.d_in, network.d_out)
    name = Path(path).stem
    if targets is not None:
        return lr.Task.from_data(inputs, targets, name=name)
    assert labels is not None
    outputs = range(network.d_out)
    if len(other := labels[~np.isin(labels, list(outputs))]):
        raise lr.InvalidInput(
            f"labels in {path} must number the {len(outputs)} outputs of the network, 0 to {outputs[-1]}, and "
            f"{other[0]:g} is among them: try targets with one column per output."
        )
    if len(found := np.unique(labels)) < len(outputs):
        print(
            f"note: labels in {path} are {found[0]:g} to {found[-1]:g}, and the network has {len(outputs)} outputs: "
            f"the targets of the {len(outputs) - len(found)} without a label are always 0",
            file=sys.stderr,
        )
    return lr.Task.from_labels(inputs, labels, classes=outputs, name=name)


def _whitened(tasks: Sequence[lr.Task], paths: Sequence[str]) -> list[lr.Task]:
    """Each on white inputs, if these are the same coordinates for all."""
    white = [task.whitened() for task in tasks]
    maps = [np.asarray(task.input_map) for task in white]
    for map_, path in zip(maps, paths, strict=True):
        if not np.allclose(map_, maps[0], rtol=_SAME, atol=_SAME * np.abs(maps[0]).max()):
            raise InvalidInput(
                "--whiten needs the same inputs in all --data, for the weights pass from one to the next, and those "
                f"of {path} are not those of {paths[0]}: try without --whiten."
            )
    return white


def _activation(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _listed(option: str, text: str | None) -> list[str] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise InvalidInput(f"{option} must be separated by commas, such as a,b, and it is {text!r}.")
    return parts


def _numbers(option: str, text: str | None) -> list[float] | None:
    parts = _listed(option, text)
    try:
        return None if parts is None else [float(part) for part in parts]
    except ValueError:
        raise InvalidInput(f"{option} must be numbers separated by commas, and it is {text!r}.") from None


def _document(prediction: Prediction) -> dict[str, object]:
    traj, closed = prediction.trajectory, prediction.closed_form
    return {
        "facts": _facts(traj.problem.facts),
        "fate": prediction.fate.to_dict() if prediction.fate else None,
        "prediction": {
            "exact": prediction.exact,
            "known": prediction.known,
            "error": prediction.error,
            "method": traj.method,
            "refusals": {name: list(map(str, found)) for name, found in prediction.refusals.items()},
            "status": traj.status,
            "notes": prediction.notes,
            "citation": traj.citation,
            "regime": prediction.regime.to_dict() if prediction.regime else None,
            "still_falling": prediction.still_falling,
            "target": prediction.frames.target if traj.problem.loss.squared else None,
            "limit": prediction.limit,
            "limit_known": prediction.limit_known,
            "half_times": prediction.half_times,
            "steps": prediction.steps and prediction.steps.to_dict(),
            "closed_form": closed
            and {
                "c_over_s": closed.c,
                "half_times": closed.half_times,
                "error": closed.error,
                "half_time_error": closed.half_time_error,
                "measured": closed.measured,
            },
            "times": traj.times,
            "loss": traj.loss,
            "mode_strengths": prediction.strengths,
        },
    }


def _facts(facts: lr.Facts) -> dict[str, object]:
    """The numbers, the verdicts on them, and per exact method all conditions that fail (none: it applies)."""
    verdicts = ("whitened", "balanced", "aligned", "bottleneck", "precision")
    methods = {
        name: [asdict(refusal) | {"condition": refusal.condition.value} for refusal in refusals]
        for name, refusals in facts.methods.items()
    }
    return (
        asdict(facts)
        | {name: getattr(facts, name) for name in verdicts}
        | {"methods": methods, "loss": facts.loss.name}
    )


def _method_if_whitened(problem: lr.Problem) -> str | None:
    try:
        white = problem.task.whitened()
    except InvalidInput:  # directions without variance
        return None
    about = {"rates": problem.rates, "weight_decay": problem.weight_decay, "loss": problem.loss}
    return lr.Problem(white, problem.network, **about).facts.method


def _report(prediction: Prediction) -> str:
    """The answer, the loss in a table, and then why it is known in this way."""
    traj, lines = prediction.trajectory, [str(prediction), ""]
    if not prediction.exact and (method := _method_if_whitened(traj.problem)):
        lines += [f"On whitened inputs (--whiten) the method {method} would apply.", ""]
    chosen = np.unique(np.linspace(0, len(traj.times) - 1, _ROWS).round().astype(int))  # close where the times are
    loss = cleared(traj.loss, float(np.max(traj.loss)))
    lines.append(table([{"time": float(traj.times[i]), "loss": float(loss[i])} for i in chosen]))
    if traj.status.end is End.COMPLETE and prediction.still_falling:
        lines.append(f"note: --horizon {10 * traj.times[-1]:g} looks further")
    lines += ["", str(replace(traj.problem.facts, methods={}))]
    if not prediction.exact:
        lines += ["", "no closed form is exact for it (--json has the conditions of each method in full):"]
        lines += _reasons(traj.problem.facts)
    return "\n".join(lines)


def _reasons(facts: lr.Facts) -> list[str]:
    """Each condition that fails, once, with the methods that have it; another number of layers is all that is said."""
    methods, depths = dict[str, list[str]](), dict[str, list[str]]()
    for name, refusals in facts.methods.items():
        depth = [refusal for refusal in refusals if refusal.condition is Condition.DEPTH]
        for refusal in depth or refusals:
            (depths if depth else methods).setdefault(refusal.message, []).append(name)
    return [f"{', '.join(names):<24}{message}" for message, names in (methods | depths).items()]
