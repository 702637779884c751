"""Independent evidence that a trajectory is what it claims to be.

Nothing here knows how the trajectory was made. The gradient flow is written out from the problem alone (`velocity`).
The time derivative of an exact trajectory is taken by complex step, Im f(t + ih)/h; what has no such derivative (the
rotation of the hidden units, sampled runs) is integrated over short intervals by SciPy. Then every array that the
trajectory holds is compared with what was so tested, at all its times, and the arrays with each other.

Errors are relative to the state they are errors of: ‖weights‖ for weights, and in the flow equation ‖Σyx‖ + ‖Σxx‖·
‖weights‖² + γ times that. A state that has faded below 1e-25 of its initialisation counts as zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.networks.biases import meeting
from lazyrich.networks.network import product
from lazyrich.problem import Problem, loss_of
from lazyrich.velocity import flat_velocity, gram_velocity, velocity

if TYPE_CHECKING:
    from lazyrich.trajectory import Trajectory

_EXACT = 1e-11
_EPS = float(np.finfo(np.float64).eps)
_SAMPLES = 12
_KINKED_GRADIENTS, _SMOOTH_GRADIENTS = 5_000, 100_000
_PRODUCTS = 1e-4  # of the weights squared: rounding of a function that is small beside them, within `_EXACT`
_FADED = 1e-25
_NO_SQUARE = 1e-60  # what SciPy cannot take the norm of an error of


@dataclass(frozen=True)
class Certificate:
    """Errors of a trajectory, all relative; None where a figure does not exist for it.

    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01))
    >>> found = lr.solve(problem, [0.0, 10.0, 100.0]).certificate()
    >>> found.exact, found.worst < 1e-12
    (True, True)
    """

    precision: str  # the one the problem came in
    method: str
    closed_form: bool  # of the network as given: neither sampled nor moved off the separatrix on request
    residual: float | None  # of the flow equation, relative to the size of its terms
    drift: float | None  # of the conserved quantity, relative to the weights
    initial_error: float | None  # at t = 0
    semigroup: float | None  # stopping half way and going on, against going through
    agreement: float | None  # of all arrays handed out with what the other figures were measured on, and each other
    doubt: float | None = None  # close to the separatrix: how far rounding of the initialisation may move the function

    @property
    def worst(self) -> float:
        """The largest of the figures."""
        figures = (self.residual, self.drift, self.initial_error, self.semigroup, self.agreement, self.doubt)
        return float(np.max([x for x in figures if x is not None] or [np.nan]))  # of NumPy: NaN is the worst of all

    @property
    def exact(self) -> bool:
        """A closed form of this initialisation, the flow equation among what was checked, and all at rounding level."""
        return self.closed_form and self.residual is not None and self.worst <= _EXACT

    def __str__(self) -> str:
        rows = {
            "residual of the flow": self.residual,
            "conserved quantity": self.drift,
            "error at t = 0": self.initial_error,
            "semigroup": self.semigroup,
            "agreement of arrays": self.agreement,
            "rounding of the initialisation": self.doubt,
        }
        verdict = "exact" if self.exact else "not exact to rounding"
        if self.precision != "float64":
            verdict += f", for an initialisation given in {self.precision}"
        lines = [f"certificate of {self.method}: {verdict}"]
        lines += [f"  {name:<32}{'not available' if value is None else f'{value:.1e}'}" for name, value in rows.items()]
        return "\n".join(lines)


@np.errstate(over="ignore", invalid="ignore")  # of a run that has diverged
def certify(trajectory: Trajectory) -> Certificate:
    """The certificate of an exact or a sampled trajectory."""
    if trajectory.tangent is not None:
        raise InvalidInput(
            "certificate judges the gradient flow of a network, and this is the lazy limit of one, which is another "
            "model: try lr.observables.linearisation_gap(traj) of a trajectory of the network, for the distance."
        )
    facts = trajectory.problem.facts
    of = _of_samples if trajectory.solution is None else _of_solution
    closed_form = trajectory.solution is not None and not trajectory.pushed
    return Certificate(facts.precision, trajectory.method, closed_form, **of(trajectory))


def _size_of_terms(problem: Problem, size: float) -> float:
    """‖Σyx‖ + ‖Σxx‖·‖weights‖² + γ: multiplies the weights in every term of the flow of two layers."""
    task = problem.task
    return float(np.linalg.norm(task.sigma_yx) + np.linalg.norm(task.sigma_xx, 2) * size + problem.weight_decay)


def _of_solution(trajectory: Trajectory) -> dict[str, float | None]:
    problem, solution = trajectory.problem, trajectory.solution
    assert solution is not None
    times = np.asarray(trajectory.clock, dtype=float)
    chosen = times[np.unique(np.linspace(0, len(times) - 1, _SAMPLES).astype(int))]
    initial = sum(float(np.linalg.norm(W)) ** 2 for W in problem.network.weights)
    h = 1e-30 / (max(problem.rates) * _size_of_terms(problem, initial) or 1.0)  # where all is zero, any step will do
    state = solution.analytic(chosen + 1j * h)
    drift: float | None
    initial_error: float | None
    if "gram" in state:
        residual, drift = _gram_evidence(problem, state["gram"], h)
        given = np.concatenate([problem.network.weights[0].T, problem.network.weights[1]])
        first = solution.analytic(np.zeros(1))["gram"][0].real
        initial_error = _ratio(np.linalg.norm(first - given @ given.T), initial)
        if trajectory.computed("weights"):
            residual = max(residual, _rotation_error(problem, solution, chosen))
    else:
        residual, drift = _weight_evidence(problem, state["weights"], h)
        first = [W[0].real for W in solution.analytic(np.zeros(1))["weights"]]
        errors = [np.linalg.norm(a - b) for a, b in zip(first, problem.network.weights, strict=True)]
        initial_error = _ratio(np.linalg.norm(errors), np.sqrt(initial))
    if trajectory.pushed:
        drift = initial_error = None  # the initialisation was moved off the separatrix, on request
    return {
        "residual": residual,
        "drift": drift,
        "initial_error": initial_error,
        "semigroup": _semigroup(problem, solution, times),
        "agreement": _worst(_evaluations_agree(problem, solution, chosen), *_arrays_agree(trajectory)),
        "doubt": None if trajectory.pushed else solution.doubt_until(float(times[-1])),
    }


def _gram_evidence(problem: Problem, grams: Any, h: float) -> tuple[float, float]:
    d_in, (eta1, eta2) = problem.task.d_in, problem.rates
    delta, inner = problem.facts.orbit
    k = np.repeat(problem.canonical.k, [d_in, problem.task.d_out])
    J = np.repeat([1.0, -1.0], [d_in, problem.task.d_out])
    faded = _FADED * sum(float(np.sum(W**2)) for W in problem.network.weights)
    residual = drift = 0.0
    for G in grams:
        value, change = G.real, G.imag / h
        norm = max(float(np.linalg.norm(value)), faded)
        size = max(eta1, eta2) * _size_of_terms(problem, norm) * norm
        residual = _worst(residual, _ratio(np.linalg.norm(change - gram_velocity(problem, value)), size))
        V = k[:, None] * value * k  # the eigenvalues of D, which are conserved, seen from outside the hidden layer
        size = max(float(np.linalg.norm(V)), faded * max(k) ** 2)
        drift = _worst(drift, _ratio(np.linalg.norm(V @ (J[:, None] * V) - delta * V - inner * np.diag(J)), size**2))
    return residual, drift


def _weight_evidence(problem: Problem, layers: list[Any], h: float) -> tuple[float, float | None]:
    task, L = problem.task, len(layers)
    drive, curb = float(np.linalg.norm(task.sigma_yx)), float(np.linalg.norm(task.sigma_xx, 2))
    faded = np.sqrt(_FADED) * max(float(np.linalg.norm(W)) for W in problem.network.weights)
    residual = 0.0
    for i in range(len(layers[0])):
        value, change = [W[i].real for W in layers], [W[i].imag / h for W in layers]
        norm = max(faded, *(float(np.linalg.norm(W)) for W in value))
        size = drive * norm ** (L - 1) + curb * norm ** (2 * L - 1) + problem.weight_decay * norm
        errors = [np.linalg.norm(want - got) for want, got in zip(velocity(problem, value), change, strict=True)]
        residual = _worst(residual, _ratio(np.linalg.norm(errors), max(problem.rates) * size))
    return residual, _drift(problem, [W.real for W in layers])


def _rotation_error(problem: Problem, solution: Any, times: Float[Array, " T"]) -> float:
    """Weights of the exact solution against SciPy's over short intervals, so long that the state moves by about a
    tenth: the Gram matrix does not know how the hidden units turn."""
    from scipy.integrate import solve_ivp  # here, to keep `import lazyrich` quick

    largest = sum(float(np.linalg.norm(W)) ** 2 for W in problem.network.weights) + 2 * np.linalg.norm(
        problem.task.target
    )
    span = 0.1 / (max(problem.rates) * _size_of_terms(problem, float(largest)) or 1.0)
    begins = np.unique(times[np.linspace(0, len(times) - 1, 4).astype(int)])
    begins = begins[begins + span > begins]
    if len(begins) == 0:
        return 0.0
    layers = solution.weights(np.sort(np.concatenate([begins, begins + span])))
    order = np.argsort(np.concatenate([begins, begins + span]), kind="stable")
    place = np.argsort(order)
    worst = 0.0
    for i in range(len(begins)):
        first, last = ([W[place[j]] for W in layers] for j in (i, i + len(begins)))
        y = np.concatenate([W.ravel() for W in first])
        size = float(np.linalg.norm(y))
        if size < _NO_SQUARE:
            continue
        run = solve_ivp(lambda _, y: flat_velocity(problem, y), (0.0, span), y, "DOP853", rtol=1e-13, atol=1e-16 * size)
        worst = _worst(worst, _ratio(np.linalg.norm(run.y[:, -1] - np.concatenate([W.ravel() for W in last])), size))
    return worst


def _of_samples(trajectory: Trajectory) -> dict[str, float | None]:
    problem = trajectory.problem
    figures: dict[str, float | None] = dict.fromkeys(("residual", "drift", "initial_error", "semigroup"))
    figures["agreement"] = _worst(*_arrays_agree(trajectory)) if len(list(_arrays_agree(trajectory))) else None
    if not trajectory.knows("weights"):
        return figures
    layers = [np.asarray(W, dtype=float) for W in trajectory.weights]
    times = np.asarray(trajectory.clock, dtype=float)
    if times[0] == 0:
        free = problem.network.free
        pairs = zip(free(layers), free(problem.network.weights), strict=True)
        figures["initial_error"] = _worst(*(_relative(W[0] - W0, W0) for W, W0 in pairs))
    return figures | {"residual": _defect(problem, layers, times), "drift": _drift(problem, layers)}


def _arrays_agree(trajectory: Trajectory) -> Iterator[float]:
    """Every array the trajectory holds, at all its times: with its solution evaluated afresh, and with the others."""
    problem, solution, task = trajectory.problem, trajectory.solution, trajectory.problem.task
    held = {name: getattr(trajectory, name) for name in ("weights", "gram", "function", "loss")
            if trajectory.computed(name)}  # fmt: skip
    held = {name: [np.asarray(W) for W in value] if name == "weights" else np.asarray(value)
            for name, value in held.items()}  # fmt: skip
    times, d_in = np.asarray(trajectory.clock, dtype=float), task.d_in
    states = [held["weights"]] if "weights" in held else []
    if solution is not None:
        fresh = {name: getattr(solution, name)(times) for name in held}
        for name in set(held) & {"gram", "function", "loss"}:
            yield _each(held[name] - fresh[name], _scale(problem, name, fresh[name]))
        if "weights" in held:
            for W, again in zip(held["weights"], fresh["weights"], strict=True):
                yield _each(W - again, np.sqrt(sum(np.sum(V**2, axis=(1, 2)) for V in fresh["weights"])))
    linear = problem.network.activation.linear
    if not linear:
        for layers in states if "loss" in held else ():
            network, states_ = problem.network, zip(*layers, strict=True)
            losses = [loss_of(task, state, network.activation, problem.loss) for state in states_]
            yield _each(held["loss"] - losses, _scale(problem, "loss", np.array(losses)))
        return
    functions = [product(layers) for layers in states]
    if "gram" in held:
        functions.append(held["gram"][:, d_in:, :d_in])
        yield _each(held["gram"] - np.swapaxes(held["gram"], 1, 2), _scale(problem, "gram", held["gram"]))
        for W1, W2 in states:
            Q = np.concatenate([np.swapaxes(W1, 1, 2), W2], axis=1)
            yield _each(held["gram"] - Q @ np.swapaxes(Q, 1, 2), _scale(problem, "gram", held["gram"]))
    functions += [held["function"]] if "function" in held else []
    for other in functions[1:]:
        yield _each(functions[0] - other, _scale(problem, "function", other))
    if "loss" in held and functions:
        losses = problem.loss.of_map(task, functions[0])
        yield _each(held["loss"] - losses, _scale(problem, "loss", losses))


def _scale(problem: Problem, name: str, value: Array) -> Array:
    """What errors of a part are relative to, at each time: its own size, and those of initialisation and target."""
    task, squares = problem.task, sum(float(np.sum(W**2)) for W in problem.network.weights)
    least = _PRODUCTS * squares if problem.network.depth == 2 else 0.0
    if name == "loss":
        own = np.abs(value)
        if not problem.network.activation.linear:
            return own + float(np.trace(task.sigma_yy))
        some = np.stack([problem.network.function, np.zeros_like(task.target)])
        return np.maximum(own + np.abs(problem.loss.of_map(task, some)).sum(), least**2 * np.trace(task.sigma_xx))
    own = np.linalg.norm(value, axis=(1, 2))
    if name == "gram":
        return own + _FADED * squares
    return np.maximum(own + np.linalg.norm(task.target) + np.linalg.norm(problem.network.function), least)


def _each(difference: Array, size: Array) -> float:
    """The worst time."""
    parts = np.sqrt(np.sum(np.abs(difference) ** 2, axis=tuple(range(1, difference.ndim))))
    return _worst(0.0, *(_ratio(part, whole) for part, whole in zip(parts, size, strict=True)))


def _defect(problem: Problem, layers: list[Any], times: Float[Array, " T"]) -> float | None:
    """Largest departure from the flow over one recording interval, relative to the movement in it.

    ReLUs have kinks, where steps of high accuracy are tiny: six digits have to do. None is the answer where it takes
    too long, as in a run that has diverged, whose flow is stiff beyond measure.
    """
    from scipy.integrate import solve_ivp  # here, to keep `import lazyrich` quick

    free = problem.network.free
    flat = np.concatenate([W.reshape(len(times), -1) for W in free(layers)], axis=1)
    if times[0] > 0:  # what it was before the first record is known
        flat = np.concatenate([np.concatenate([W.ravel() for W in free(problem.network.weights)])[None], flat])
        times = np.append(0.0, times)
    movement = np.nan_to_num(np.linalg.norm(np.diff(flat, axis=0), axis=1), nan=np.inf)
    if not np.isfinite(flat).all():
        return math.nan
    if not movement.any():
        return None

    kinks = problem.network.activation.kinked
    rtol, left = (1e-6, _KINKED_GRADIENTS) if kinks else (1e-11, _SMOOTH_GRADIENTS)
    worst = 0.0

    def counted(_: float, y: Array) -> Array:
        nonlocal left
        left -= 1
        velocity = flat_velocity(problem, y)
        if left < 0 or not np.isfinite(velocity).all():
            raise _TooLong
        return velocity

    for i in np.argsort(-movement)[:3]:
        span, atol = (times[i], times[i + 1]), 1e-3 * rtol * np.abs(flat[i]).max()
        try:
            run = solve_ivp(counted, span, flat[i], "DOP853", rtol=rtol, atol=atol)
        except _TooLong:
            return None
        moved = max(movement[i], 1e-6 * float(np.linalg.norm(flat[i])))  # at rest, rounding is all that moves
        worst = _worst(worst, _ratio(np.linalg.norm(run.y[:, -1] - flat[i + 1]), moved))
    return worst


class _TooLong(Exception):
    """More gradients than a certificate is worth."""


def _drift(problem: Problem, layers: list[Any]) -> float | None:
    """How much η_ℓ W_{ℓ+1}ᵀW_{ℓ+1} − η_{ℓ+1} W_ℓW_ℓᵀ changes: all of it, or its diagonal for ReLU; tanh
    conserves nothing."""
    activation, eta = problem.network.activation, problem.rates
    if len(layers) < 2 or not activation.homogeneous or (problem.weight_decay and len(set(eta)) > 1):
        return None
    worst = 0.0
    given, biased = problem.network.weights, problem.network.biased
    for i, ((A, B), (A0, B0)) in enumerate(zip(meeting(layers, biased), meeting(given, biased), strict=True)):
        D = eta[i] * np.swapaxes(B, 1, 2) @ B - eta[i + 1] * A @ np.swapaxes(A, 1, 2)
        size = eta[i] * np.sum(B**2, axis=(1, 2)) + eta[i + 1] * np.sum(A**2, axis=(1, 2))
        if problem.weight_decay:
            continue
        change = D - (eta[i] * B0.T @ B0 - eta[i + 1] * A0 @ A0.T)
        if not activation.linear:
            change = np.diagonal(change, axis1=1, axis2=2)[:, :, None]
        worst = _worst(worst, _ratio(np.max(np.linalg.norm(change, axis=(1, 2))), np.max(size)))
    return None if problem.weight_decay else worst


def _evaluations_agree(problem: Problem, solution: Any, times: Float[Array, " T"]) -> float:
    """What the solution hands out, and what it hands to the derivatives: two evaluations of one formula."""
    state, d_in = solution.analytic(times), problem.task.d_in
    if "gram" in state:
        function = state["gram"][:, d_in:, :d_in]
        worst = _each(solution.gram(times) - state["gram"], _scale(problem, "gram", state["gram"]))
    else:
        function, worst = product(state["weights"]), 0.0
    losses = problem.task.loss(function)
    return _worst(
        worst,
        _each(solution.function(times) - function, _scale(problem, "function", function)),
        _each(solution.loss(times) - losses, _scale(problem, "loss", losses)),
    )


def _semigroup(problem: Problem, solution: Any, times: Float[Array, " T"]) -> float | None:
    """Relative to the state, which is larger than the function where the layers are of unequal size."""
    end = float(times[-1])
    if end == 0:
        return None
    restarted, name = solution.restarted(end / 2), "gram" if solution.gives_gram else "function"
    through = getattr(solution, name)(np.array([end]))
    resumed = getattr(restarted, name)(np.array([end - end / 2]))
    return _each(resumed - through, _scale(problem, name, through))


def _worst(*figures: float) -> float:
    """The largest, and NaN where there is one: Python's max would lose it."""
    return float(np.max(figures))


def _relative(difference: Array, reference: Array) -> float:
    return _ratio(float(np.linalg.norm(difference)), float(np.linalg.norm(reference)))


def _ratio(part: Any, whole: Any) -> float:
    return float(part / whole) if whole else float(part)
