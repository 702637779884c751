"""A view as a short Python script: the same lines are run for the picture and given to the user to keep.

A script is a list of assignments, each the call of a public function. `Script.add` runs the call at once and keeps the
line, so what a user takes away is what was computed, and nothing is ever turned into code from a user's text: names
and arguments are ours, numbers are numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import lazyrich as lr
from lazyrich._check import InvalidInput
from lazyrich.explorer.state import State, parsed_matrix, unpacked

TIMES = 200  # where they are chosen here: half of them evenly, half of them ever closer to each other towards zero
_DECADES = 6  # that the second half covers at most
_EARLY = 0.1  # of the shortest time in which the initial weights change
MOST_STEPS = 4096  # of each task of a sequence; a power of two, for which `flow` compiles once
_MOST_DESCENT = 20_000  # steps of gradient descent
_MANY = 1e5  # steps of an explicit method
_FEWEST = 20  # times that an integration must reach for a curve
_TRIES = 4  # of a shorter one
_FARTHEST = 20  # times the estimated horizon, for an integration or several tasks
_SHORTEST = 1e-9  # horizon: times are sent in single precision
_ROOTS: dict[str, Any] = {"lr": lr, "np": np}


@dataclass(frozen=True)
class Name:
    """What an earlier line has made, or a part of it."""

    name: str
    part: str = ""


@dataclass(frozen=True)
class Call:
    """A public function and its arguments: numbers, words, lists, names and calls. `part` is read off the result."""

    function: str  # "lr.tasks.reversal"
    arguments: tuple[object, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    part: str = ""


@dataclass
class Script:
    """Lines that have been run, and what they made."""

    lines: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    choices: list[str] = field(default_factory=list)  # what was chosen otherwise than asked for
    followed: str = ""  # until when, where that is not as far as asked for

    @property
    def notes(self) -> list[str]:
        """What a reader should know."""
        return [*self.choices, *[self.followed] * bool(self.followed)]

    def add(self, name: str, expression: object) -> Any:
        """Runs `name = expression`."""
        self.values[name] = self._value(expression)
        self.write(name, expression)
        return self.values[name]

    def write(self, name: str, expression: object) -> None:
        """Leaves it to the user to run it."""
        self.lines.append(f"{name} = {_source(expression)}")

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def problem(self) -> lr.Problem:
        return self.values["problem"]

    @property
    def run(self) -> lr.Continual | None:
        """Of several tasks."""
        return self.values.get("run")

    @property
    def prediction(self) -> lr.Prediction | None:
        """Of one task."""
        return self.values.get("prediction")

    @property
    def parts(self) -> tuple[lr.Trajectory, ...]:
        """The trajectories, one per task."""
        return (self.values["traj"],) if self.run is None else self.run.trajectories

    def _value(self, expression: object) -> object:
        if isinstance(expression, Name):
            value = self.values[expression.name]
            return getattr(value, expression.part) if expression.part else value
        if isinstance(expression, list):
            return [self._value(entry) for entry in expression]
        if not isinstance(expression, Call):
            return expression
        root, *path = expression.function.split(".")
        function: Callable[..., object] = _ROOTS[root]
        for word in path:
            function = getattr(function, word)
        result = function(
            *(self._value(entry) for entry in expression.arguments),
            **{key: self._value(entry) for key, entry in expression.options.items()},
        )
        return getattr(result, expression.part) if expression.part else result


def _source(expression: object) -> str:
    if isinstance(expression, Name):
        return f"{expression.name}.{expression.part}" if expression.part else expression.name
    if isinstance(expression, list):
        return f"[{', '.join(map(_source, expression))}]"
    if not isinstance(expression, Call):
        return repr(expression)
    given = [_source(entry) for entry in expression.arguments]
    given += [f"{key}={_source(entry)}" for key, entry in expression.options.items()]
    return f"{expression.function}({', '.join(given)})" + (f".{expression.part}" if expression.part else "")


# from a state to a problem and its times --------------------------------------------------------------------


def prepared(state: State) -> Script:
    """Everything before the solution: `task` (or `tasks`), `network`, `problem`, and `times`, but for those that
    `lr.predict` chooses where it integrates."""
    script = Script()
    script.add("task", _task(state))
    if state.task == "uploaded" and state.whiten:
        script.add("task", Call("lr.Task.whitened", (Name("task"),)))
    task = script["task"]
    script.add("network", _network(state, script))
    if state.then:
        others = [_other(state, name, k, task) for k, name in enumerate(state.then, start=1)]
        script.add("tasks", [Name("task"), *others])
    script.add("problem", Call("lr.Problem", (Name("task"), Name("network")), _training(state, script)))
    if state.nudge and (state.then or script.problem.facts.method != "riccati"):
        script.choices.append("a nudge is known for balanced layers and white inputs, on one task: there is none here")
    if state.then or state.horizon or script.problem.facts.method is not None:
        script.add("times", _times(script.problem, _horizon(state, script)))
    return script


def solved(state: State, script: Script | None = None) -> Script:
    """`prepared` (or `script`, which is so far already), with `prediction` and its trajectory `traj`, or for several
    tasks `run`."""
    script = script or prepared(state)
    *before, (name, last) = _solution(state, script)
    if isinstance(last, Call):
        for line in before:
            script.add(*line)
        return _followed(script, name, last)
    try:
        script.add(*before[0])
    except np.linalg.LinAlgError:  # weights so close to the separatrix that some time between has no digits left
        script.add("traj", Call("lr.solve", (Name("problem"), Name("times"))))
    else:
        script.add(name, last)
    return script


def written(state: State) -> Script:
    """The same lines, of which those that may take long are not run."""
    script = prepared(state)
    for line in _solution(state, script):
        script.write(*line)
    return script


def _solution(state: State, script: Script) -> list[tuple[str, Call | Name]]:
    """What comes after `prepared`: names and expressions, the solution last."""
    if state.then:
        options = {**_training(state, script), "max_steps": MOST_STEPS}
        return [("run", Call("lr.continual", (Name("tasks"), Name("network"), Name("times")), options))]
    if state.nudge and script.problem.facts.method == "riccati":  # several tasks have been dealt with above
        options = {"on_separatrix": "perturb", "perturbation": state.nudge}
        times = [] if state.horizon else [("times", _times(script.problem, _escape(script.problem, state.nudge)))]
        return [*times, ("traj", Call("lr.solve", (Name("problem"), Name("times")), options))]
    if _is_stiff(script.problem):
        times = [] if state.horizon else [("times", _times(script.problem, lr.landscape.horizon(script.problem)))]
        return [*times, ("traj", Call("lr.flow", (Name("problem"), Name("times")), {"max_steps": MOST_STEPS}))]
    asked = (Name("times"),) if "times" in script.values else ()
    call = Call("lr.predict", (Name("problem"), *asked))
    return [("prediction", call), ("traj", Name("prediction", "trajectory"))]


def _is_stiff(problem: lr.Problem) -> bool:
    """Whether an integration of many layers would take more steps than anybody waits for."""
    if problem.facts.method is not None or problem.network.depth == 2:
        return False
    norms = [float(np.linalg.norm(W, 2)) for W in problem.network.weights]
    fastest = max(problem.rates) * float(np.linalg.norm(problem.task.sigma_xx, 2)) * max(norms) ** (2 * len(norms) - 2)
    return fastest * lr.landscape.horizon(problem) > _MANY


def _followed(script: Script, name: str, call: Call) -> Script:
    """With what `call` integrates of `times`, or of shorter ones that it can reach."""
    first = _first_part(script.add(name, call))
    if first.status == "complete" or len(first.times) >= _FEWEST:
        return script
    for _ in range(_TRIES):  # until the last time that was reached; where that is the first, until the one after it
        end = float(script["times"][max(len(first.times), 2) - 1])
        del script.lines[-2:]
        script.add("times", _times(script.problem, end))
        first = _first_part(script.add(name, call))
        if first.status == "complete":
            break
    script.followed = f"followed until {first.times[-1]:.2g} only: the problem is too stiff to go farther"
    return script


def _first_part(result: lr.Trajectory | lr.Continual) -> lr.Trajectory:
    return result.trajectories[0] if isinstance(result, lr.Continual) else result


def descended(state: State, script: Script) -> tuple[lr.Trajectory, int]:
    """Adds `descent`, gradient descent on the problem until the same time, as far as so many steps go."""
    call, steps = descending(state, script)
    return script.add("descent", call), steps


def descending(state: State, script: Script) -> tuple[Call, int]:
    """The call, and its number of steps."""
    steps = max(1, min(_MOST_DESCENT, round(float(script.parts[0].times[-1]) / state.rate)))
    return Call("lr.descend", (Name("problem"),), {"rate": state.rate, "steps": steps}), steps


def _escape(problem: lr.Problem, nudge: float) -> float:
    """Until a network at a saddle has left it: what a nudge adds to a mode grows by e in each 1/s."""
    pulls = problem.task.modes.s[: problem.facts.rank_target]
    more = -np.log(nudge) / (float(pulls[-1]) * min(problem.rates)) if len(pulls) else 0.0
    return float(f"{lr.landscape.horizon(problem) + more:.3g}")


def _times(problem: lr.Problem, end: float) -> Call:
    """Both ends: evenly until the last one, and closer to each other towards zero, where large weights are fast."""
    sizes = sum(float(np.linalg.norm(W, 2)) ** 2 for W in problem.network.weights)
    sizes += float(np.linalg.norm(problem.task.target, 2))
    fastest = max(problem.rates) * float(np.linalg.norm(problem.task.sigma_xx, 2)) * sizes
    first = min(max(_EARLY / max(fastest, 1e-300), 10.0**-_DECADES * end), end / TIMES)
    close = Call("np.geomspace", (float(f"{first:.3g}"), end, TIMES // 2))
    return Call("np.union1d", (Call("np.linspace", (0.0, end, TIMES // 2 + 1)), close))


def _task(state: State, again: int = 0) -> Call:
    """The chosen task; `again` counts further ones of the same kind."""
    seed = state.seed + 10_000 * again
    match state.task:
        case "binary_tree":
            return Call("lr.tasks.binary_tree", (seed,), {"levels": state.levels, "features": state.d_out})
        case "random_regression":
            outputs = 1 if state.start == "single_neuron" else state.d_out
            return _random(seed, state.d_in, outputs)
        case "piecewise_teacher":
            options = {"d": state.d_in, "samples": 10 * state.d_in, "test": 1}
            return Call("lr.tasks.piecewise_teacher", (seed,), options, part="train")
        case "linear_teacher":
            teacher = parsed_matrix(state.matrix)
            return Call("lr.tasks.linear_teacher", (seed, teacher.tolist()), {"samples": 4 * teacher.shape[1]})
        case "own":
            return Call("lr.Task.from_correlations", (parsed_matrix(state.matrix).tolist(),))
        case "uploaded":
            given = unpacked(state.data)
            given = given.centred() if state.centre else given
            return Call("lr.Task.from_correlations", tuple(part.tolist() for part in given[:3]))
    return Call(f"lr.tasks.{state.task}")


def _other(state: State, name: str, again: int, task: lr.Task) -> Call:
    """A task that comes after the first, or came before it."""
    if name == "reversal":
        return Call("lr.tasks.reversal", (Name("task"),))
    if name != "another":
        return Call(f"lr.tasks.{name}")
    if state.task in ("binary_tree", "random_regression", "piecewise_teacher"):
        return _task(state, again)
    return _random(state.seed + 10_000 * again, task.d_in, task.d_out)


def _random(seed: int, d_in: int, d_out: int) -> Call:
    return Call("lr.tasks.random_regression", (seed,), {"d_in": d_in, "d_out": d_out, "samples": 4 * d_in})


def _network(state: State, script: Script) -> Call:
    task, depth = script["task"], state.depth
    if depth != 2 and (state.start in ("lambda_balanced", "single_neuron") or (state.start == "aligned" and state.lam)):
        what = "the single neuron" if state.start == "single_neuron" else "an initialisation with λ"
        script.choices.append(f"{what} has two layers")
        depth = 2
    hidden = [_width(state, script)] * (depth - 1)
    sizes = [task.d_in, *hidden, task.d_out]
    match state.start:
        case "lambda_balanced":
            options = {"sizes": sizes, "lam": state.lam, "scale": state.scale}
            return Call("lr.inits.lambda_balanced", (state.seed,), options)
        case "aligned":
            options = {"hidden": hidden, "strengths": state.scale, "lam": state.lam}
            return Call("lr.inits.aligned", (state.seed, Name("task")), options)
        case "prior":
            before = _other(state, state.prior, 9, task)
            return Call("lr.inits.prior_knowledge", (state.seed, before), {"hidden": hidden})
        case "single_neuron":
            return Call("lr.inits.single_neuron", (_first_beta(state, task),), {"delta": state.lam})
    return Call(f"lr.inits.{state.start}", (state.seed,), {"sizes": sizes, "scale": state.scale})


def _width(state: State, script: Script) -> int:
    """As chosen, but no wider than λ allows: W2ᵀW2 − W1W1ᵀ = λI has no solution beyond."""
    task, room = script["task"], state.width
    if state.start in ("lambda_balanced", "aligned") and state.lam:
        room = task.d_out if state.lam > 0 else task.d_in
    if room < state.width:
        side = "outputs" if state.lam > 0 else "inputs"
        script.choices.append(
            f"λ {'>' if state.lam > 0 else '<'} 0 needs no more hidden units than {side}: {room} it is"
        )
    return min(room, state.width)


def _first_beta(state: State, task: lr.Task) -> list[float]:
    """β at initialisation: of length `scale`, at the chosen angle to the target, turned in a random direction."""
    if task.d_out != 1:
        raise InvalidInput(
            f"start 'single_neuron' needs a task with one output, and {state.task!r} has {task.d_out}: "
            "try 'random_regression', or 'own' with a matrix of one row."
        )
    target = task.target[0]
    length = float(np.linalg.norm(target))
    along = target / length if length else np.eye(task.d_in)[0]
    across = np.random.default_rng(state.seed).normal(size=task.d_in)
    across -= along * (along @ across)
    size = float(np.linalg.norm(across))
    angle = np.radians(state.angle)
    if size < 1e-9:  # one input: there is no other direction
        return [float(state.scale * along[0] * (1 if state.angle <= 90 else -1))]
    beta = state.scale * (np.cos(angle) * along + np.sin(angle) * across / size)
    return [float(entry) for entry in beta]


def _training(state: State, script: Script) -> dict[str, object]:
    """Layer rates and weight decay, where they are not the usual ones."""
    options: dict[str, object] = {}
    depth = script["network"].depth
    rates = [*state.rates, *(1.0,) * depth][:depth]  # a rate that is not given is 1
    if any(rate != 1 for rate in rates):
        options["rates"] = rates
    if state.weight_decay:
        options["weight_decay"] = state.weight_decay
    return options


def _horizon(state: State, script: Script) -> float:
    """As chosen, or until all is learned; not so far that an integration, or weights for a next task, take minutes."""
    if not state.horizon:
        return lr.landscape.horizon(script.problem)
    if state.horizon < _SHORTEST:
        raise InvalidInput(f"horizon must be 0 or at least {_SHORTEST:g}, and it is {state.horizon:g}.")
    if script.problem.facts.method is None or state.then:
        farthest = _FARTHEST * lr.landscape.horizon(script.problem)
        if state.horizon > farthest:
            script.followed = f"followed until {farthest:g} only"
            return farthest
    return state.horizon
