"""Which of the interpolating solutions the flow reaches, for one output and inputs that leave directions free.

All solutions are β* + Nz: β* of least norm, N an orthonormal basis of the directions that no input has. (Where targets
cannot be met, least squares takes the place of Xβ = y: nothing else changes.) Kunin et al. 2024, Theorems 1 and 15:

    β(∞) = argmin Ψ(β) − cᵀβ  over the solutions,     c = ∇Ψ(β0),     Ψ from `potentials`

if the flow interpolates at all, and does not fall into a saddle. Theorem 1 asks for β(t) ≠ 0 at all times. One neuron
with δ < 0 may pass through zero, once, and then c = −∇Ψ(β0): the flow moves w within the span of the inputs only, so
Nᵀw stays, and ∇Ψ_δ = √2 sgn(a) w changes its sign with a. The sign of a itself does not matter: −a and −w give the same
β at all times.

Ψ is a function of ‖β‖² = ‖β*‖² + ‖z‖², so z has the direction of Nᵀc whatever the number of free directions, and the
closed form that the paper gives for one of them holds for all (`closed_form`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.bias.potentials import RadialPotential, deep_potential, single_neuron_potential
from lazyrich.flow import flow
from lazyrich.inits import single_neuron
from lazyrich.problem import Problem, as_problem
from lazyrich.tasks import Task
from lazyrich.tasks.task import as_task

__all__ = [
    "Comparison",
    "Interpolation",
    "closed_form",
    "compare_with_flow",
    "deep_interpolating_solution",
    "downstream_end",
    "interpolating_solution",
    "passes_through_zero",
    "predicted_end",
    "upstream_end",
]

_FITTED = 1e-10  # distance from the solutions, relative, at which a flow has arrived
_DOUBLINGS = 40  # of the time a flow is given to arrive
_SEPARATRIX = (
    1e-6  # so near to the saddle, relative to the weights, errors of integration decide on which side it is left
)


@dataclass(frozen=True, eq=False)
class Interpolation:
    """A predicted solution, and how well it satisfies the conditions of a minimum."""

    beta: Float[Array, " in"]
    kkt_residual: float  # larger of ‖Nᵀ(∇Ψ − c)‖/(‖∇Ψ‖ + ‖c‖) and the distance from the solutions, relative
    objective: float  # Ψ(β) − cᵀβ, for rates that multiply to 1
    method: str
    iterations: int
    passes_zero: bool  # β goes through zero on its way, and c = −∇Ψ(β0)


@dataclass(frozen=True, eq=False)
class Comparison:
    """A predicted solution beside the one that `flow` reached."""

    predicted: Interpolation
    reached: Float[Array, " in"]
    distance: float  # between the two, relative
    kkt_residual: float  # of the one reached
    passed_zero: bool  # the output weight changed its sign
    time: float


class _Bias(NamedTuple):
    """argmin Ψ(β) − cᵀβ over β = β* + Nz."""

    potential: RadialPotential
    pull: Float[Array, " in"]  # c
    start: Float[Array, " in"]  # β0, or −β0 where β passes through zero
    target: Float[Array, " in"]  # β*
    N: Float[Array, "in free"]
    passes_zero: bool = False

    def kkt_residual(self, beta: Float[Array, " in"]) -> float:
        free, size = self.N.T @ self.pull, float(np.linalg.norm(self.pull))
        if beta.any():
            slope = self.potential.gradient(beta)
            off, size = float(np.linalg.norm(self.N.T @ slope - free)), size + float(np.linalg.norm(slope))
        else:  # a kink holds any pull up to its slope
            off = max(float(np.linalg.norm(free)) - float(self.potential.profile(0.0).slope), 0.0)
        return max(off / size if size else 0.0, self.misfit(beta))

    def misfit(self, beta: Float[Array, " in"]) -> float:
        """Distance from the solutions, relative."""
        error, size = beta - self.target, max(np.linalg.norm(beta), np.linalg.norm(self.target))
        return float(np.linalg.norm(error - self.N @ (self.N.T @ error)) / size) if size else 0.0

    def result(self, beta: Float[Array, " in"], method: str, iterations: int = 0) -> Interpolation:
        objective = self.potential.value(beta) - float(self.pull @ beta)
        return Interpolation(beta, self.kkt_residual(beta), objective, method, iterations, self.passes_zero)


def interpolating_solution(task: Task, beta0: Any, delta: float) -> Interpolation:
    """Where one hidden neuron with a w = `beta0` and a² − ‖w‖² = `delta` ends: a convex problem, solved by scipy.

    >>> import lazyrich as lr
    >>> task = lr.Task.from_data([[0.5, 1.0]], [[1.1]])
    >>> end = interpolating_solution(task, [0.4, 0.05], delta=0.0)
    >>> end.beta.round(6), end.kkt_residual < 1e-12
    (array([0.943004, 0.628498]), True)
    """
    return _minimise(_single_neuron_bias(task, beta0, delta))


def deep_interpolating_solution(task: Task, beta0: Any, hidden_layers: int, delta: float = 0.0) -> Interpolation:
    """Where so many hidden layers end that start isotropic with W(0) = `beta0` and δ ≤ 0 (0: zero-balanced).

    >>> import lazyrich as lr
    >>> task = lr.Task.from_data([[0.5, 1.0]], [[1.1]])
    >>> deep_interpolating_solution(task, [0.4, 0.05], hidden_layers=1).beta.round(6)
    array([0.943004, 0.628498])
    """
    return _minimise(_deep_bias(task, beta0, hidden_layers, delta))


def closed_form(task: Task, beta0: Any, delta: float) -> Interpolation:
    """The end of one hidden neuron in closed form: β* + |a|NNᵀw, with k² = ‖Nᵀw0‖² and NNᵀw = ±NNᵀw0.

        a² = (k² + δ)/2 + √(((k² + δ)/2)² + ‖β*‖²)

    from a²‖w‖² = ‖β‖², where the part of w in the span of the inputs is β*/a and the rest is kept from the start. This
    is the paper's "Exact solution when interpolating manifold is one-dimensional", for any number of free directions.

    >>> import lazyrich as lr
    >>> task = lr.Task.from_data([[0.5, 1.0]], [[1.1]])
    >>> closed_form(task, [0.4, 0.05], delta=0.0).beta.round(6)
    array([0.943004, 0.628498])
    """
    bias = _single_neuron_bias(task, beta0, delta)
    w = bias.N @ (bias.N.T @ bias.pull) / np.sqrt(2)  # what is kept of w, with the final sign of a
    half, size = (float(w @ w) + delta) / 2, float(np.linalg.norm(bias.target))
    root = np.hypot(half, size)
    a_squared = half + root if half > 0 else (size * (size / (root - half)) if size else 0.0)
    return bias.result(bias.target + np.sqrt(a_squared) * w, "closed form")


def upstream_end(task: Task, beta0: Any) -> Float[Array, " in"]:
    """δ → ∞: β* + NNᵀβ0, the solution nearest to the start, as of linear regression.

    >>> import lazyrich as lr
    >>> upstream_end(lr.Task.from_data([[0.5, 1.0]], [[1.1]]), [0.4, 0.05]).round(6)
    array([0.74, 0.73])
    """
    target, N = _solutions(task)
    beta0 = _start(task, beta0)
    return target + N @ (N.T @ beta0)


def downstream_end(task: Task, beta0: Any) -> Float[Array, " in"]:
    """δ → −∞: β* ± ‖β*‖ NNᵀβ0/‖β0 − NNᵀβ0‖, which keeps the direction of β0 as far as it can; − if β0ᵀΣxy < 0.

    One input direction: β0‖β*‖²/(β*ᵀβ0), on the line of β0. The first thing the flow does is to fit along that line,
    through zero if β0 points the wrong way.

    >>> import lazyrich as lr
    >>> downstream_end(lr.Task.from_data([[0.5, 1.0]], [[1.1]]), [0.4, 0.05]).round(6)
    array([1.76, 0.22])
    """
    target, N = _solutions(task)
    beta0 = _start(task, beta0)
    free = N @ (N.T @ beta0)
    sign, within = np.sign(task.sigma_yx[0] @ beta0), np.linalg.norm(beta0 - free)
    if sign == 0:
        raise InvalidInput("beta0 must not be orthogonal to sigma_yx: δ → −∞ then ends in the saddle β = 0.")
    return target + sign * np.linalg.norm(target) / within * free


def passes_through_zero(task: Task, beta0: Any, delta: float) -> bool:
    """Whether β of one hidden neuron goes through zero, where its output weight a changes sign.

    Not for δ ≥ 0, since a² = δ + ‖w‖²; nor once the loss is below that of β = 0. Otherwise a and w are integrated
    until it is.

    >>> import lazyrich as lr
    >>> task = lr.Task.from_data([[0.5, 1.0]], [[1.1]])
    >>> [passes_through_zero(task, [-0.4, -0.05], delta) for delta in (-4.0, 0.0)]
    [True, False]
    """
    task, delta = _one_output(task), _check.number("delta", delta)
    beta0, b, sigma_xx = _start(task, beta0), task.sigma_yx[0], task.sigma_xx

    def rise(beta: Array) -> float:
        """loss(β) − loss(0)."""
        return float((sigma_xx @ beta / 2 - b) @ beta)

    if delta >= 0 or rise(beta0) <= 0 or not b.any():
        return False
    from scipy.integrate import LSODA

    def velocity(_: float, state: Array) -> Array:
        a, w = state[0], state[1:]
        residual = b - sigma_xx @ (a * w)
        return np.concatenate([[w @ residual], a * residual])

    w0, a0 = (W.ravel() for W in single_neuron(beta0, delta=delta).weights)
    drag, push = float(np.linalg.norm(sigma_xx, 2)) * abs(delta), float(np.linalg.norm(b))
    slowest = 2 * push**2 / (drag + np.hypot(drag, 2 * push))  # rate at which the saddle a = wᵀΣxy = 0 is left
    enough, near = 0.01 * float(b @ task.target[0]) / 2, np.inf
    solver = LSODA(velocity, 0.0, np.append(a0, w0), 100 / slowest, rtol=1e-11, atol=1e-14 * float(a0[0]))
    while solver.status == "running" and near > _SEPARATRIX:
        solver.step()
        a, w = float(solver.y[0]), solver.y[1:]
        near = float(np.hypot(a, w @ b / push) / np.linalg.norm(w))
        if rise(a * w) <= -enough:
            return a < 0
    raise InvalidInput(
        f"beta0 must lie off the separatrix, and for delta = {delta:g} it lies on it: the flow ends in the saddle β = 0"
        " and in no solution."
    )


def predicted_end(problem: Problem) -> Interpolation:
    """Where the flow of a problem ends, before any training: one output, and a start that the theorems know.

    That is one hidden neuron; or any zero-balanced start (with one output, every layer has rank one then); or an
    isotropic one, with W_LW_Lᵀ = aaᵀ + |δ|I and balance below, of square width. Layer rates only rescale.

    >>> import lazyrich as lr
    >>> task = lr.Task.from_data([[0.5, 1.0]], [[1.1]])
    >>> problem = lr.Problem(task, lr.inits.zero_balanced(0, sizes=(2, 3, 3, 1), scale=0.5))
    >>> end = predicted_end(problem)
    >>> end.method, end.kkt_residual < 1e-12
    ('trust-exact', True)
    """
    bias, gain = _bias_of(problem)
    return _in_given_units(_minimise(bias), gain)


def compare_with_flow(problem: Problem, *, rtol: float = 1e-11) -> Comparison:
    """The predicted end of a problem beside that of `lr.flow`, which is given time until it fits.

    >>> import lazyrich as lr
    >>> task = lr.Task.from_data([[0.5, 1.0]], [[1.1]])
    >>> compare_with_flow(lr.Problem(task, lr.inits.single_neuron([0.4, 0.05], delta=-2.0))).distance < 1e-8
    True
    """
    bias, gain = _bias_of(problem)
    predicted = _in_given_units(_minimise(bias), gain)
    network, time, span = problem.network, 0.0, 1 / float(np.linalg.norm(problem.task.sigma_xx, 2))
    for _ in range(_DOUBLINGS):
        traj = flow(Problem(problem.task, network, problem.rates), [span], rtol=rtol)
        network, time, span = traj.network(-1), time + float(traj.times[-1]), 2 * span
        if bias.misfit(gain * network.function[0]) <= _FITTED or traj.status != "complete":
            break
    reached = network.function[0]
    a0, a = problem.network.weights[-1].ravel(), network.weights[-1].ravel()
    size = float(np.linalg.norm(predicted.beta))
    return Comparison(
        predicted=predicted,
        reached=reached,
        distance=float(np.linalg.norm(reached - predicted.beta)) / (size or 1.0),
        kkt_residual=bias.kkt_residual(gain * reached),
        passed_zero=len(a) == 1 and bool(a[0] * a0[0] < 0),
        time=time,
    )


def _bias_of(problem: Any) -> tuple[_Bias, float]:
    """The minimisation that a problem's end solves, and a factor: it is posed for β times that, with unit rates."""
    as_problem(problem)
    network, facts = problem.network, problem.facts
    if network.activation != "linear" or problem.weight_decay or network.depth < 2:
        raise InvalidInput(
            f"problem must have a linear network of two layers or more and no weight decay, and it has {network!r} and"
            f" weight decay {problem.weight_decay:g}."
        )
    task, gain = _one_output(problem.task), problem.canonical.gain
    scaled = replace(
        task,
        sigma_yx=gain * task.sigma_yx,
        sigma_yy=gain**2 * task.sigma_yy,
        targets=None if task.targets is None else gain * task.targets,
    )
    beta0, delta = gain * network.function[0], facts.balance[-1]
    if network.sizes[1:] == (1, 1):
        return _single_neuron_bias(scaled, beta0, delta), gain
    square = set(network.sizes[:-1]) == {task.d_in}
    if facts.balanced and not any(facts.balance[:-1]) and (delta == 0 or (delta < 0 and square)):
        return _deep_bias(scaled, beta0, network.depth - 1, delta), gain
    lam = ", ".join(f"{value:.4g}" for value in facts.balance)
    raise InvalidInput(
        "the end is known from one hidden neuron, a zero-balanced start, or an isotropic one of square width, and"
        f" this is {network!r} with balance {lam} within {facts.balance_error:.1e}: lr.flow(problem, times) goes there."
    )


def _in_given_units(end: Interpolation, gain: float) -> Interpolation:
    return replace(end, beta=end.beta / gain)


def _single_neuron_bias(task: Any, beta0: Any, delta: Any) -> _Bias:
    target, N = _solutions(task)
    beta0, potential = _start(task, beta0), single_neuron_potential(delta)
    passes = passes_through_zero(task, beta0, delta)
    start = -beta0 if passes else beta0
    return _Bias(potential, potential.gradient(start), start, target, N, passes)


def _deep_bias(task: Any, beta0: Any, hidden_layers: int, delta: float) -> _Bias:
    target, N = _solutions(task)
    beta0, potential = _start(task, beta0), deep_potential(hidden_layers, delta)
    if delta == 0 and not beta0.any():
        raise InvalidInput("beta0 must not be zero where delta is: that is a saddle, and nothing moves.")
    return _Bias(potential, potential.gradient(beta0), beta0, target, N)


def _minimise(bias: _Bias) -> Interpolation:
    """The minimum over z, by a trust region; then the root of the gradient, which is known to more digits."""
    potential, pull, start, target, N, _ = bias
    if N.shape[1] == 0:
        return bias.result(target, "unique")
    free, size = N.T @ pull, float(np.linalg.norm(target))
    if not free.any() or (size == 0 and np.linalg.norm(free) <= potential.profile(0.0).slope):
        return bias.result(target, "least norm")  # nothing pulls it off β*, or not more than the kink at zero holds
    from scipy.optimize import minimize, root

    def slope(z: Array) -> Array:
        return N.T @ potential.gradient(target + N @ z) - free

    def curvature(z: Array) -> Array:
        return N.T @ potential.hessian(target + N @ z) @ N

    z0 = N.T @ start
    radius, gtol = size + float(np.linalg.norm(z0)), 1e-5 * float(np.linalg.norm(free))
    found = minimize(
        lambda z: potential.value(target + N @ z) - free @ z, z0, jac=slope, hess=curvature, method="trust-exact",
        options={"initial_trust_radius": radius, "max_trust_radius": 1e3 * radius, "gtol": gtol},
    )  # fmt: skip
    polished = root(slope, found.x, jac=curvature, options={"xtol": 1e-15})
    ends = [bias.result(target + N @ z, "trust-exact", int(found.nit)) for z in (found.x, polished.x)]
    return min(ends, key=lambda end: end.kkt_residual)


def _solutions(task: Any) -> tuple[Float[Array, " in"], Float[Array, "in free"]]:
    """β*, and a basis of the directions that no input has; from the samples where known, at twice the digits."""
    task = _one_output(task)
    eps = float(np.finfo(np.float64).eps)
    if task.inputs is not None:
        few = len(task.inputs) < task.d_in
        _, s, Vt = np.linalg.svd(task.inputs, full_matrices=few)
        rank = int(np.sum(s > max(task.inputs.shape) * eps * s[0]))
    else:
        eigenvalues, V = np.linalg.eigh(task.sigma_xx)
        Vt = V.T[::-1]
        rank = int(np.sum(eigenvalues > task.d_in * eps * eigenvalues[-1]))
    return task.target[0], Vt[rank:].T


def _one_output(task: Any) -> Task:
    task = as_task(task)
    if task.d_out != 1:
        raise InvalidInput(f"task must have one output, and it has {task.d_out}: the end is known for one alone.")
    return task


def _start(task: Task, beta0: Any) -> Float[Array, " in"]:
    beta0 = _check.as_array("beta0", beta0, ndim=1)
    if len(beta0) != task.d_in:
        raise InvalidInput(f"beta0 must have {task.d_in} entries, as the inputs have, and it has {len(beta0)}.")
    return beta0
