"""Export of a view: the Python code that makes it again, its curves (CSV), all its arrays (NPZ).

The code is the script behind the view, line for line, so it gives the same numbers; it is written without being run
where that may take long, so that nobody waits for it behind an integration. Nothing in it is a user's text.
"""

from __future__ import annotations

import io
import json
import textwrap

import numpy as np

import lazyrich as lr
from lazyrich.explorer.script import Script, descending, prepared, solved, written
from lazyrich.explorer.state import State
from lazyrich.explorer.view import view

_COLUMNS = 120

_IMPORTS = """\
import matplotlib.pyplot as plt
import numpy as np

import lazyrich as lr"""

_ONE_TASK = """\
times, loss = traj.times, traj.loss
modes = {strengths}
kernel = lr.observables.kernel_distance(traj)"""

_TASKS = """\
times, loss = run.times, run.losses  # one column per task
modes = np.concatenate([lr.observables.mode_strengths(part) for part in run.trajectories])
kernel = np.concatenate([lr.observables.kernel_distance(part) for part in run.trajectories])"""

_CURVES = 'curves = {"loss": loss, "mode strength": modes, "kernel distance": kernel}'

_FIGURE = """\
figure, panels = plt.subplots(1, len(curves), figsize=(4 * len(curves), 3.2), layout="constrained")
for panel, (name, curve) in zip(panels, curves.items(), strict=True):
    panel.plot(times, curve)
    panel.set(xlabel="time", ylabel=name)"""

_BOUNDARIES = """\
for panel in panels:
    for boundary in run.boundaries[:-1]:
        panel.axvline(boundary, color="grey", linewidth=0.5)"""

_DESCENT_DRAWN = """\
panels[0].plot(descent.times, descent.loss, "k:", label="gradient descent")
panels[0].legend()
panels[1].plot(descent.times, {strengths}, "k:")"""


def is_quick(kind: str, state: State) -> bool:
    """Whether a file needs nothing that is integrated: code does not, unless steps have to be counted."""
    return (kind == "py" and not (state.descent and not state.then)) or _is_exact(state)


def _is_exact(state: State) -> bool:
    return not state.then and prepared(state).problem.facts.method is not None


def code(state: State) -> str:
    """A Python script that computes what the view shows, and draws its curves.

    >>> print(code(State(seed=3, scale=0.01)).partition("times, loss")[0].rpartition("lazyrich as lr")[2].strip())
    task = lr.tasks.semantic_hierarchy()
    network = lr.inits.zero_balanced(3, sizes=[8, 14, 8], scale=0.01)
    problem = lr.Problem(task, network)
    times = np.union1d(np.linspace(0.0, 56.0, 101), np.geomspace(0.257, 56.0, 100))
    prediction = lr.predict(problem, times)
    traj = prediction.trajectory
    """
    several, descends = bool(state.then), state.descent and not state.then
    script = solved(state) if descends else written(state)
    if descends:
        script.write("descent", descending(state, script)[0])
    made = "\n".join(line for long in script.lines for line in _wrapped(long))
    predicted = any(line.startswith("prediction") for line in script.lines)
    strengths = "prediction.strengths" if predicted else "lr.observables.mode_strengths(traj)"
    observed = _TASKS if several else _ONE_TASK.format(strengths=strengths)
    of_descent = "prediction.strengths_of(descent)" if predicted else "lr.observables.mode_strengths(descent)"
    drawn = [_CURVES, _FIGURE]
    drawn += [_BOUNDARIES] if several else [_DESCENT_DRAWN.format(strengths=of_descent)] if descends else []
    blocks = [_opening(state, script, descends), _IMPORTS, made, observed, "\n".join([*drawn, "plt.show()"])]
    return "\n\n".join(blocks) + "\n"


def _opening(state: State, script: Script, descends: bool) -> str:
    """What the script is, what it needs, and what a reader should know."""
    exact, facts = _is_exact(state), script.problem.facts
    tasks = ", then ".join(task.name or "given correlations" for task in script.values.get("tasks", [script["task"]]))
    way = f"exact ({facts.method})" if exact else "integrated where no closed form applies"
    needs = "figures" if exact and not descends else "engines,figures"
    lines = [
        f'"""A view of the lazyrich explorer (lazyrich {lr.__version__}), as Python code.',
        "",
        *textwrap.wrap(f"{tasks}; layers {'-'.join(map(str, facts.sizes))}; {way}.", _COLUMNS),
        f"It needs: pip install 'lazyrich[{needs}]'.",
        '"""',
    ]
    for note in script.notes:
        lines += textwrap.wrap(note, _COLUMNS, initial_indent="# ", subsequent_indent="# ")
    return "\n".join(lines)


def _wrapped(line: str) -> list[str]:
    """The line, or one line per row of its matrices; breaks lie between numbers, in brackets."""
    if len(line) <= _COLUMNS:
        return [line]
    rows = line.replace("], ", "],\n    ").split("\n")
    wrapper = textwrap.TextWrapper(_COLUMNS, subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False)
    return [piece for row in rows for piece in wrapper.wrap(row)]


def table(state: State) -> bytes:
    """The curves as CSV: one line of names, then one row per time, to the last bit."""
    arrays = view(state).arrays
    loss, modes = arrays["loss"], arrays["modes"]
    names = ["time", *(f"loss_{k}" for k in range(1, loss.shape[1] + 1))] if loss.shape[1] > 1 else ["time", "loss"]
    names += [f"mode_{k}" for k in range(1, modes.shape[1] + 1)]
    names += ["kernel_distance", "kernel_movement"]
    columns = [arrays["times"], loss, modes, arrays["kernel"], arrays["movement"]]
    stream = io.BytesIO()
    np.savetxt(stream, np.column_stack(columns), fmt="%.17g", delimiter=",", header=",".join(names), comments="")
    return stream.getvalue()


def archive(state: State) -> bytes:
    """All arrays of the view as NPZ, in double precision, with matrices at all times.

    Beside them `state` (JSON, which `State.from_dict` reads) and the `version` of the library.
    """
    arrays, stream = view(state, thin=False).arrays, io.BytesIO()
    told = {"state": np.array(json.dumps(state.to_dict())), "version": np.array(lr.__version__)}
    np.savez_compressed(stream, **(arrays | told))  # type: ignore[arg-type]
    return stream.getvalue()
