"""`continual`: a sequence of tasks, each learned from where the one before ended.

Every state is a valid initialisation (semigroup; theory: section 1), and D = W2ᵀW2 − W1W1ᵀ is conserved whatever
the task, so exact solutions chain: stage i is the exact solution of Problem(task i, network after task i − 1), for
any durations, also where a task is stopped before it is learned. Where no exact solution applies the flow is
integrated, and nonlinear networks descend step by step. The result says which, and why.

What passes from task to task are weights in float64. Between tasks they are brought back to the conserved D where
rounding or integration took them off it (`rebalance`), for the function cannot tell and the theorem asks for it. But
what training has shrunk to below rounding is lost: a network that ends a task within rounding of the next one's
separatrix (reversal learning) is taken to lie on it, and stays there for ever, where an unrounded one would leave it
in the end. `notes` says until when such a stage is exact.

Weight decay with equal rates shrinks D by e^{−2ηγt} and keeps its kind, so that a stage after it is exact again. Layer
rates that change from one stage to the next change which D is conserved, and the new one is rarely balanced: such a
stage is integrated, but for networks whose modes are apart (`modes`, `deep_modes`), which need no balance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, ArrayLike, Float
from lazyrich.landscape.fate import fate
from lazyrich.losses import SQUARED, Loss
from lazyrich.methods.descend import descend
from lazyrich.methods.flow import flow
from lazyrich.methods.riccati.balance import rebalanced
from lazyrich.methods.riccati.method import RiccatiSolution
from lazyrich.methods.solve import solve
from lazyrich.networks import Network
from lazyrich.problem import Problem
from lazyrich.sequences.penalty import METHOD, Penalty, as_penalty, held_flow
from lazyrich.sequences.result import Continual
from lazyrich.sequences.schedule import Schedule, as_schedule
from lazyrich.sequences.settings import as_settings
from lazyrich.tasks import Task
from lazyrich.trajectory import Trajectory

_ROUNDING = 1e-8  # of the largest weights so far: a departure from balance below it is not the network's own
_EXACT = 1e-12


def continual(
    tasks: Sequence[Task] | Schedule,
    network: Network,
    times: ArrayLike | Sequence[ArrayLike],
    *,
    rates: ArrayLike | None = None,
    weight_decay: ArrayLike = 0.0,
    penalty: Penalty | None = None,
    rate: float | None = None,
    on_separatrix: str = "stay",
    max_steps: int = 1_000_000,
    loss: Loss | str | Callable[..., Any] = SQUARED,
) -> Continual:
    """A network that learns one task after another, with the loss of every task all along, and what is forgotten.

    Linear networks follow the exact solution where one applies, and the integrated flow elsewhere. Tasks that were
    whitened by different maps are refused: the weights that pass from one to the next would mean something else. A
    stage that cannot go on ends the run.

    Parameters
    ----------
    tasks : in the order in which they are learned; or a schedule of what is mixed when (`lr.sequences.replay`)
    network : where the first begins
    times : one vector for all stages or one for each, each from 0; the last entry is where the next takes over
    rates : learning rate of each layer, or a row of them for each stage
    weight_decay : γ of loss + ½γ Σ‖W_ℓ‖², or one for each stage
    penalty : which holds the network, in every stage but the first, where the stage before has left it
    rate : learning rate of gradient descent, which nonlinear networks need; times are multiples of it
    on_separatrix : "stay", or "perturb" to let a network on the separatrix escape, as in `solve`
    max_steps : of an integration
    loss : as in `Problem`

    Returns
    -------
    Continual : one trajectory per stage, the losses of all tasks along them, forgetting and transfer

    >>> tasks = [lr.tasks.random_regression(seed, d_in=5, d_out=6, samples=25) for seed in range(3)]
    >>> run = lr.continual(tasks, lr.inits.zero_balanced(0, sizes=(5, 10, 6), scale=0.1), [0.0, 3000.0])
    >>> run.methods
    ('riccati', 'riccati', 'riccati')
    >>> bool(np.nanmax(abs(run.forgetting - run.predicted_forgetting)) < 1e-12)
    True
    """
    plan = as_schedule(tasks)
    if isinstance(network, Network) and network.biased:
        plan = plan.with_constant()
    stages, spans = plan.stages, _as_spans(times, len(plan.stages))
    problem = Problem(stages[0], network, loss=loss)
    network, settings = as_settings(stages, network, rates, weight_decay, problem.loss)
    _check.choice("on_separatrix", on_separatrix, ("stay", "perturb"))
    rate, max_steps = _as_rate(rate, network, plan.tasks, stages), _check.count("max_steps", max_steps)
    penalty = as_penalty(penalty, problem, rate)
    chain = _Chain(network)
    for i, (task, setting, span) in enumerate(zip(stages, settings, spans, strict=True)):
        held = task if penalty is None or not i else penalty.task(task, stages[i - 1], chain.network.function)
        problem, departure = chain.next(Problem(held, chain.network, *setting, problem.loss), carry=rate is None)
        try:
            if rate is not None:
                done = _descended(problem, span, rate)
            elif penalty is not None and i and penalty.metric != "outputs":
                stiffness = penalty.stiffness(stages[i - 1], problem.network)
                done = held_flow(problem, stiffness, span, max_steps)
            else:
                done = _followed(problem, span, on_separatrix, max_steps)
        except RuntimeError as error:  # it reached none of its times
            if not chain.trajectories:
                raise
            chain.note(i, f"{str(error).rstrip('.')}; neither this task nor later ones were reached")
            break
        chain.append(done, departure)
        if done.status != "complete":
            chain.note(i, f"{done.status.what}; later tasks were not reached")
            break
        chain.end(*_end(done, max_steps))
    return Continual(
        plan,
        settings,
        tuple(chain.trajectories),
        tuple(chain.ends),
        tuple(chain.rebalanced),
        tuple(chain.notes),
        penalty,
    )


@dataclass
class _Chain:
    """What has been learned so far, and the D that goes with it."""

    network: Network
    trajectories: list[Trajectory] = field(default_factory=list)
    ends: list[Network] = field(default_factory=list)
    rebalanced: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    D: Float[Array, "h h"] | None = None
    largest: float = 0.0  # Σ‖v_ℓ‖² so far

    def next(self, problem: Problem, *, carry: bool) -> tuple[Problem, float]:
        """The problem of the next stage, brought back to D if there is one to carry, and by how much it was off."""
        self.largest = max(self.largest, _size(problem))
        departure = 0.0
        if self.trajectories and problem.rates != self.trajectories[-1].problem.rates:
            self.D = None  # another one is conserved
        elif self.trajectories and carry:
            problem, departure = _rebalanced(problem, self.D, self.largest)
        if self.D is None:
            self.D = _conserved(problem)
        return problem, departure

    def append(self, done: Trajectory, departure: float) -> None:
        self.trajectories.append(done)
        self.rebalanced.append(departure)
        stage, problem = len(self.trajectories) - 1, done.problem
        for note in _notes(done, departure, chained=stage > 0):
            self.note(stage, note)
        if done.method == METHOD:
            self.D = None
        elif self.D is not None and (gamma := problem.weight_decay):
            equal = problem.rates[0] == problem.rates[1]
            shrunk = np.exp(-2 * problem.rates[0] * gamma * float(done.times[-1]))
            self.D = shrunk * self.D if equal else None

    def end(self, network: Network, how: str) -> None:
        self.ends.append(network)
        self.network = network
        if how:
            self.note(len(self.trajectories) - 1, how)

    def note(self, stage: int, words: str) -> None:
        self.notes.append(f"task {stage + 1}: {words}")


def _as_spans(times: object, count: int) -> list[Float[Array, " T"]]:
    """The times of each task."""
    if not isinstance(times, list | tuple | np.ndarray) or all(np.ndim(entry) == 0 for entry in times):
        return [_check.as_times(times)] * count
    if len(times) != count:
        raise InvalidInput(f"times must be one vector, or one per task ({count}), and it holds {len(times)}.")
    return [_check.as_times(span) for span in times]


def _as_rate(rate: float | None, network: Network, tasks: tuple[Task, ...], stages: tuple[Task, ...]) -> float | None:
    if network.activation.linear:
        return None if rate is None else _check.positive("rate", rate)
    if rate is None:
        raise InvalidInput(
            f"rate must be given where the network is {network.kind}, which is trained step by step: rate=0.05, say."
        )
    for i, task in enumerate(tasks):
        if task.inputs is None or task.targets is None:
            raise InvalidInput(
                f"tasks[{i}] must hold samples where the network is {network.kind}, and it holds correlations only: "
                "try Task.from_data(inputs, targets)."
            )
    for i, task in enumerate(stages):
        if task.inputs is None:
            raise InvalidInput(
                f"shares must be fractions of few samples where the network is {network.kind}, since each is met by "
                f"repeating them, and those of stage {i + 1} are not: try shares such as 0.05, and means over samples."
            )
    return _check.positive("rate", rate)


def _conserved(problem: Problem) -> Float[Array, "h h"] | None:
    """D of a two-layer network with an exact solution that it keeps, whatever the task; None if there is none."""
    facts = problem.facts
    if facts.depth != 2 or facts.biased or not facts.activation.linear or not (facts.balanced or facts.in_family):
        return None
    if facts.weight_decay and facts.rates[0] != facts.rates[1]:
        return None
    if facts.balanced:
        return facts.lam[0] * np.eye(problem.network.sizes[1])
    v1, v2 = (k * W for k, W in zip(problem.canonical.k, problem.network.weights, strict=True))
    c, delta = facts.family
    values, vectors = np.linalg.eigh(v2.T @ v2 - v1 @ v1.T)
    known = np.array([-(c + delta / 2), 0.0, c - delta / 2])
    return (vectors * known[np.argmin(np.abs(values[:, None] - known), axis=1)]) @ vectors.T


def _size(problem: Problem) -> float:
    """Σ‖v_ℓ‖², what departures from balance are measured by."""
    layers = zip(problem.canonical.k, problem.network.weights, strict=True)
    return float(sum(k**2 * np.sum(W**2) for k, W in layers))


def _rebalanced(problem: Problem, D: Float[Array, "h h"] | None, largest: float) -> tuple[Problem, float]:
    """The problem with its network back at D where that is a matter of rounding, and by how much it was off."""
    if D is None or (problem.facts.balanced and np.array_equal(D, problem.facts.lam[0] * np.eye(len(D)))):
        return problem, 0.0
    network, departure = rebalance(problem, D)
    if departure > _ROUNDING * largest:
        return problem, 0.0
    return Problem(problem.task, network, problem.rates, problem.weight_decay, problem.loss), departure / largest


def rebalance(problem: Problem, balance: float | Float[Array, "h h"]) -> tuple[Network, float]:
    """The two-layer linear network of the same function whose D is `balance`, λI or a matrix, and how far it was off.

    >>> problem = lr.Problem(lr.Task.from_correlations([[1.0]]), lr.Network([[[0.5]], [[0.5 + 1e-9]]]))
    >>> network, departure = rebalance(problem, 0.0)
    >>> W1, W2 = network.weights
    >>> f"{departure:.1e}", bool(abs(W2 - W1) < 1e-15), bool(abs(W2 @ W1 - problem.network.function) < 1e-15)
    ('1.0e-09', True, True)
    """
    if problem.network.depth != 2 or not problem.network.activation.linear:
        raise InvalidInput(f"rebalance needs two linear layers, and the network is {problem.network!r}.")
    k1, k2 = problem.canonical.k
    W1, W2, before = rebalanced(k1 * problem.network.weights[0], k2 * problem.network.weights[1], balance)
    return Network([W1 / k1, W2 / k2]).known_to(problem.network.eps), before


def _followed(problem: Problem, times: Float[Array, " T"], on_separatrix: str, max_steps: int) -> Trajectory:
    """The exact solution where one applies, else the flow."""
    methods = problem.facts.methods
    if problem.facts.method is None:
        return flow(problem, times, max_steps=max_steps)
    if on_separatrix == "perturb" and (methods["riccati"] or not fate(problem).on_separatrix):
        on_separatrix = "stay"
    return solve(problem, times, on_separatrix=on_separatrix)


def _descended(problem: Problem, times: Float[Array, " T"], rate: float) -> Trajectory:
    steps = np.round(times / rate)
    off = np.abs(steps * rate - times)
    if np.any(off > 1e-9 * np.maximum(times, rate)):
        worst = float(times[np.argmax(off)])
        raise InvalidInput(
            f"times must be multiples of rate ({rate:g}) where the network descends, and one is {worst:g}: "
            "try rate * steps."
        )
    if steps[-1] < 1:
        still = {"weights": [np.repeat(W[None], len(times), axis=0) for W in problem.network.weights]}
        return Trajectory(problem, times, "descend", still, stepped=True)
    return descend(problem, rate, int(steps[-1]), at=steps)


def _end(trajectory: Trajectory, max_steps: int) -> tuple[Network, str]:
    """The network at the last time, and how it is known if not by the trajectory; the weights of an exact one at all
    other times are not needed."""
    if trajectory.solution is None:
        return trajectory.network(), ""
    last = np.asarray(trajectory.times[-1:])
    try:
        weights = {"weights": trajectory.solution.weights(last)}
    except ArithmeticError:  # next to the separatrix, after rounding has decided
        integrated = flow(trajectory.problem, last, max_steps=max_steps)
        return integrated.network(), (
            "its last weights are integrated: rounding of the first ones decides what the exact solution says by then"
        )
    return Trajectory(trajectory.problem, last, trajectory.method, weights).network(), ""


def _notes(trajectory: Trajectory, departure: float, *, chained: bool) -> list[str]:
    problem, solution, notes = trajectory.problem, trajectory.solution, list(trajectory.notes)
    if trajectory.method == "flow":
        name = {1: "shallow", 2: "riccati"}.get(problem.facts.depth, "deep_modes")
        needed = ", ".join(refusal.condition.value for refusal in problem.facts.methods[name])
        notes.append(f"integrated, for no exact solution applies ({name} needs: {needed})")
    if departure:
        notes.append(
            f"brought back to the conserved D, from which it was off by {departure:.1e} of the largest weights so far"
        )
    if chained and isinstance(solution, RiccatiSolution) and len(solution.graded.missed):
        # what may be hidden, of the size of rounding or of what was dropped as such, grows like e^{wt}
        graded = solution.graded
        hidden = max(problem.network.eps, np.finfo(np.float64).eps, float(graded.novelty[graded.missed].max()))
        w = float(solution.graded.spectrum.w[solution.graded.missed].max())
        until = np.log(_EXACT / hidden) / (w * solution.clock)
        if until < trajectory.times[-1]:
            if not trajectory.pushed:
                del notes[0]  # that it stays on the separatrix, which is what is not certain
            notes.append(
                "rounding hides whether the network starts on the separatrix or only close to it: exact to "
                f"{_EXACT:.0e} until t = {max(until, 0.0):.3g} of this task; what rounding hides stays away here, and "
                "in a real network may return after that"
            )
    return notes
