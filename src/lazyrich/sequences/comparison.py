"""What helps against forgetting, by how much, and at what cost: one network, two tasks, every remedy.

The network has learned the old task to the end. Then it learns the new one to the end with each remedy, and three
numbers are told: what is forgotten of the old task, what is missing of the new one, both as parts of what lies between
the tasks, and when the new one was learned as far as it will be.

**No remedy beats replay in the end.** With shared white inputs and Δ = ‖T_new − T_old‖, a network that computes W has
forgotten F = ½‖W − T_old‖² and misses N = ½‖W − T_new‖². By the triangle inequality √F + √N ≥ Δ/√2, whatever W, and
equality holds on the straight line between the tasks, where replay of a fraction ρ ends: F = (1 − ρ)² ½Δ², N = ρ² ½Δ².
(With another Σxx that they share, the same in its metric.) As parts of ½Δ², √F + √N ≥ 1 is the frontier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._progress import progress
from lazyrich._typing import Array, Float
from lazyrich.landscape.horizon import horizon
from lazyrich.networks import Network
from lazyrich.observables.held_out import loss_on
from lazyrich.problem import Problem, needs_no_biases
from lazyrich.sequences.chain import continual
from lazyrich.sequences.penalty import Penalty
from lazyrich.sequences.result import Continual
from lazyrich.sequences.savings import reached
from lazyrich.sequences.schedule import replay, sequential
from lazyrich.tasks import Task
from lazyrich.tasks.coordinates import as_tasks

FRACTIONS = (0.01, 0.05, 0.2, 0.5)
STRENGTHS = (0.1, 0.5, 2.0, 8.0)
SLOWER = (0.1, 0.01)
DECAY = (0.03, 0.1, 0.3)
STOPPED = (0.3, 0.5, 0.7, 0.9)  # when so much of the way to the new task is left
NOTHING, REPLAY, WEIGHTS, FISHER = "nothing", "replay", "penalty on weights", "penalty by Fisher information"
LAYER, DECAYING, STOPPING, NETWORK = "slower first layer", "weight decay", "early stopping", "another network"
KINDS = (NOTHING, REPLAY, WEIGHTS, FISHER, LAYER, DECAYING, STOPPING, NETWORK)
_LEFT = 0.05  # of the way to where the new task's loss ends
_LONGER = 8.0  # than a task needs without a remedy: how far a run goes at first,
_FURTHER, _MOST = 4.0, 6  # and by what factor it goes on, so many times at most, until
_SETTLED = 1e-4  # of what lies between the tasks is all that changes in its second half
_SHARED = 1e-6  # of the largest correlation
_RECORDS = 600


@dataclass(frozen=True)
class Remedy:
    """One remedy at one setting, and what comes of it.

    >>> lr.sequences.Remedy("replay", "20 %", 0.64, 0.04, 3.1, "riccati").excess  # on the frontier
    0.0
    """

    kind: str
    setting: str
    forgetting: float  # of the old task, part of what a network forgets that learns the new one to the end
    missing: float  # of the new task, part of what a network misses that has stayed with the old one
    time: float  # until 95 % of the way to where the new task's loss ends; of early stopping, when it stops
    method: str  # of the second stage

    @property
    def excess(self) -> float:
        """√forgetting + √missing − 1: how far above the frontier."""
        return round(float(np.sqrt(max(self.forgetting, 0.0)) + np.sqrt(max(self.missing, 0.0)) - 1), 12)


@dataclass(frozen=True, eq=False)
class Remedies:
    """What `remedies` has found; `lr.plot.remedies` draws it.

    >>> tasks = [lr.Task.from_correlations(np.diag(s)) for s in ([1.0, 2.0], [2.0, 1.0])]
    >>> found = lr.sequences.remedies(*tasks, lr.inits.aligned(0, tasks[0], hidden=2, strengths=0.1))
    >>> [(each.setting, round(each.forgetting, 4)) for each in found.of("replay")]
    [('1 %', 0.9801), ('5 %', 0.9025), ('20 %', 0.64), ('50 %', 0.25)]
    """

    old: Task
    new: Task
    between: float  # the rise of the old task's loss where the new one is learned to the end
    found: tuple[Remedy, ...]
    course: Float[Array, "T two"] = field(repr=False)  # forgetting and missing along the new task without a remedy

    def of(self, kind: str) -> tuple[Remedy, ...]:
        """Those of one kind, from weak to strong."""
        kinds = tuple(dict.fromkeys(each.kind for each in self.found))
        return tuple(each for each in self.found if each.kind == _check.choice("kind", kind, kinds))

    def __str__(self) -> str:
        head = f"{'remedy':<31}{'setting':<16}{'forgotten':>10}{'missing':>10}{'excess':>9}{'time':>9}  method"
        lines = [
            f"{each.kind:<31}{each.setting:<16}{each.forgetting:>10.4f}{each.missing:>10.4f}{each.excess:>9.4f}"
            f"{each.time:>9.3g}  {each.method}"
            for each in self.found
        ]
        return "\n".join([head, *lines])


def remedies(old: Task, new: Task, network: Network, *, others: Mapping[str, Network] | None = None) -> Remedies:
    """What helps against forgetting an old task while a new one is learned, by how much, and at what cost.

    The network learns the old task to the end, and then the new one until its losses have settled: without a remedy;
    with replay of 1, 5, 20 and 50 %; with penalties on weights and by Fisher information; with a slower first
    layer; with weight decay; and it is stopped early.

    Parameters
    ----------
    old, new : two tasks that share their Σxx, as white inputs do
    network : a linear one, where the old task begins
    others : names of other networks, of another width or initialisation, which learn both without a remedy

    Returns
    -------
    Remedies : of each remedy what is forgotten, what is missing, and the time

    >>> tasks = [lr.Task.from_correlations(np.diag(s)) for s in ([1.0, 2.0], [2.0, 1.0])]
    >>> found = lr.sequences.remedies(*tasks, lr.inits.aligned(0, tasks[0], hidden=2, strengths=0.1))
    >>> stopped = max(each.excess for each in found.of("early stopping"))
    >>> stopped > 0.005, max(each.excess for each in found.of("replay")) < 1e-6  # one has left the straight line
    (True, True)
    """
    tasks = as_tasks([old, new])
    if not isinstance(network, Network) or not network.activation.linear or network.depth < 2:
        raise InvalidInput(f"network must be linear, of two layers at least, and it is {_check.shown(network)}.")
    needs_no_biases(network, "remedies")
    apart, size = (float(np.abs(xx).max()) for xx in (old.sigma_xx - new.sigma_xx, old.sigma_xx))
    if apart > _SHARED * size:
        raise InvalidInput(
            f"old and new must share their Σxx, and these are off by {apart / size:.2g} of the largest entry: their "
            "losses have no common measure then; try lr.continual, which takes any tasks."
        )
    between = float(tasks[0].loss(tasks[1].target) - tasks[0].loss(tasks[0].target))
    if between <= 0:
        raise InvalidInput("new must ask for another map than old, or there is nothing to forget, and it does not.")
    starts = _as_others(others, network)
    trial = _trial(tasks, between, network)
    plain = trial.run()
    found = [trial.told(NOTHING, "", plain)]
    count = len(FRACTIONS) + 2 * len(STRENGTHS) + len(SLOWER) + len(DECAY) + len(starts)
    with progress(count, "remedies") as step:
        for fraction in FRACTIONS:
            found.append(trial.told(REPLAY, f"{fraction:.0%}".replace("%", " %"), trial.run(fraction=fraction)))
            step(1)
        for kind, metric in ((WEIGHTS, "weights"), (FISHER, "fisher")):
            for strength in STRENGTHS:
                found.append(trial.told(kind, f"β = {strength:g}", trial.run(penalty=Penalty(strength, metric))))
                step(1)
        for slower in SLOWER:
            rates = [np.ones(network.depth), np.append(slower, np.ones(network.depth - 1))]
            found.append(trial.told(LAYER, f"× {slower:g}", trial.run(rates=rates)))
            step(1)
        for gamma in DECAY:
            found.append(trial.told(DECAYING, f"γ = {gamma:g}", trial.run(weight_decay=[0.0, gamma])))
            step(1)
        found += trial.stopped(plain)
        for name, start in starts.items():
            found.append(trial.told(NETWORK, name, _trial(tasks, between, start).run()))
            step(1)
    return Remedies(tasks[0], tasks[1], between, tuple(found), trial.course(plain))


@dataclass(frozen=True)
class _Trial:
    """One network through both tasks, the second until nothing changes any more."""

    tasks: tuple[Task, ...]
    between: float
    network: Network
    spans: tuple[Array, Array]

    def run(
        self,
        *,
        fraction: float = 0.0,
        penalty: Penalty | None = None,
        rates: Sequence[Array] | None = None,
        weight_decay: Sequence[float] = (0.0, 0.0),
    ) -> Continual:
        """Both stages with a remedy in the second."""
        plan = replay(self.tasks, fraction) if fraction else sequential(self.tasks)
        given = None if rates is None else np.array(rates)
        first, times = self.spans
        for _ in range(_MOST):
            how: dict[str, Any] = {"rates": given, "weight_decay": np.array(weight_decay), "penalty": penalty}
            found = continual(plan, self.network, (first, times), **how)
            if self.settled(found):
                break
            times = np.append(times, times[-1] * np.geomspace(1.0, _FURTHER, _RECORDS // 4)[1:])
        return found

    def settled(self, run: Continual) -> bool:
        """Whether next to nothing changes in the second half of the second stage."""
        times, course = run.trajectories[-1].times, self.course(run)
        return bool(np.ptp(course[times >= times[-1] / 2], axis=0).max() <= _SETTLED)

    def told(self, kind: str, setting: str, run: Continual) -> Remedy:
        traj, new = run.trajectories[-1], self.tasks[1]
        forgotten, missing = self.course(run)[-1]
        first, end = (float(loss) for loss in loss_on(traj, new)[[0, -1]])
        time, _ = reached(traj, new, end + _LEFT * (first - end))
        return Remedy(kind, setting, float(forgotten), float(missing), time, traj.method)

    def course(self, run: Continual) -> Float[Array, "T two"]:
        """Forgetting and missing along the second stage."""
        losses = [loss_on(run.trajectories[-1], task) - task.loss(task.target) for task in self.tasks]
        return np.stack(losses, axis=1) / self.between

    def stopped(self, plain: Continual) -> list[Remedy]:
        """The second stage without a remedy, at times when so much of the way is left."""
        found, traj, new = [], plain.trajectories[-1], self.tasks[1]
        for left in STOPPED[::-1]:
            first = float(loss_on(traj, new)[0])
            floor = float(new.loss(new.target))
            time, _ = reached(traj, new, floor + left**2 * (first - floor))
            if np.isfinite(time) and traj.solution is not None:
                losses = [float(loss_on(traj.at([time]), task)[0] - task.loss(task.target)) for task in self.tasks]
            else:
                place = int(np.searchsorted(traj.times, time))
                losses = (self.between * self.course(plain)[min(place, len(traj.times) - 1)]).tolist()
            forgotten, missing = np.array(losses) / self.between
            found.append(Remedy(STOPPING, f"t = {time:.3g}", float(forgotten), float(missing), time, traj.method))
        return found


def _as_others(others: object, network: Network) -> dict[str, Network]:
    """Networks by name that can learn the same, or a sentence."""
    if others is None:
        return {}
    if not isinstance(others, Mapping):
        raise InvalidInput(
            f"others must map names to networks, and it is {_check.shown(others)}: try {{'wide': network}}."
        )
    ends = network.sizes[0], network.sizes[-1]
    for name, start in others.items():
        linear = isinstance(start, Network) and start.activation.linear and not start.biased
        if not linear or (start.sizes[0], start.sizes[-1]) != ends:
            raise InvalidInput(
                f"others[{name!r}] must be a linear network without biases, of {ends[0]} inputs and {ends[1]} outputs, "
                f"and it is {_check.shown(start)}."
            )
    return dict(others)


def _trial(tasks: tuple[Task, ...], between: float, network: Network) -> _Trial:
    """With times long enough for both stages."""
    first = _LONGER * horizon(Problem(tasks[0], network))
    taught = continual([tasks[0]], network, [0.0, first]).network()
    last = _LONGER * horizon(Problem(tasks[1], taught))
    times = np.unique(np.append(np.linspace(0.0, last, _RECORDS), last * np.geomspace(1e-4, 1.0, _RECORDS)))
    return _Trial(tasks, between, network, (np.array([0.0, first]), times))
