"""Which of the interpolating solutions the flow reaches, for one output and inputs that leave directions free.

All solutions are β* + Nz: β* of least norm, N an orthonormal basis of the directions that no input has. (Where targets
cannot be met, least squares takes the place of Xβ = y: nothing else changes.) Kunin et al. 2024, Theorems 1 and 15:

    β(∞) = argmin Ψ(β) − cᵀβ  over the solutions,     c = ∇Ψ(β0),     Ψ from `potentials`

if the flow interpolates at all, and does not fall into the saddle β = 0, which is refused. Theorem 1 asks for β(t) ≠ 0
at all times. One neuron with δ < 0 may pass through zero, once, and then c = −∇Ψ(β0): the flow moves w within the span
of the inputs only, so Nᵀw stays, and ∇Ψ_δ = √2 sgn(a) w changes its sign with a. The sign of a itself does not matter:
−a and −w give the same β at all times.

What moves is then a neuron of its own, a and the part m of w in the span, with γ = a² − ‖m‖² = δ + ‖Nᵀw‖² for δ: γ
decides on passing through zero and on the saddle.

Ψ is a function of ‖β‖² = ‖β*‖² + ‖z‖², so z has the direction of Nᵀc whatever the number of free directions: the convex
problem is one in ‖z‖ alone, and the closed form that the paper gives for one free direction holds for all. For L hidden
layers, with x = ‖a‖² in the end and y = x − ‖Nᵀc‖², it is y(y + ‖Nᵀc‖² − δ)^L = ‖β*‖², the equation of Lemma 13 again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.bias.basins import NEAR, final_sign, refuse_the_saddle
from lazyrich.bias.function_space import squared_output_norm
from lazyrich.bias.potentials import RadialPotential, deep_potential, single_neuron_potential
from lazyrich.inits import single_neuron
from lazyrich.inits.balanced import layer_factors
from lazyrich.methods.flow import flow
from lazyrich.problem import Problem, as_problem, needs_no_biases, needs_squared_loss
from lazyrich.tasks import Task
from lazyrich.tasks.task import as_task

_FITTED = 1e-10  # distance from the solutions, relative, at which a flow has arrived
_DOUBLINGS = 40  # of the time a flow is given to arrive
_SOLVED = 1e-10  # KKT residual that a prediction must have


@dataclass(frozen=True, eq=False)
class Interpolation:
    """A predicted solution, and how well it satisfies the conditions of a minimum."""

    beta: Float[Array, " in"]
    kkt_residual: float  # error of β, relative, that Nᵀ(∇Ψ − c) and the distance from the solutions stand for
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
    """argmin Ψ(β) − cᵀβ over β = β* + Nz, whose closed form is z = `factor`·Nᵀc."""

    potential: RadialPotential
    pull: Float[Array, " in"]  # c
    target: Float[Array, " in"]  # β*
    N: Float[Array, "in free"]
    factor: float
    excess: Callable[[float, float], float]  # of ‖β − Nz‖ and ‖z‖: share of ‖β‖ by which ‖z‖ is too large
    initial: float  # ‖β0‖
    passes_zero: bool = False

    @property
    def end(self) -> Float[Array, " in"]:
        return self.target + self.factor * (self.N @ (self.N.T @ self.pull))

    @property
    def size(self) -> float:
        """What errors are relative to: ‖β‖ in the end, and where that is zero, at initialisation."""
        return float(np.linalg.norm(self.end)) or self.initial or 1.0

    def kkt_residual(self, beta: Float[Array, " in"]) -> float:
        z, free = self.N.T @ beta, self.N.T @ self.pull
        size, pull = float(np.linalg.norm(beta)), float(np.linalg.norm(free))
        if size == 0:  # a kink, which holds the pull or does not
            return max(float(bool(self.factor * pull)), self.misfit(beta))
        along = float(z @ free) / pull if pull else 0.0
        across = np.linalg.norm(z - along * free / pull if pull else z) / size
        within = float(np.linalg.norm(beta - self.N @ z))
        excess = self.excess(within, max(along, 0.0)) if pull else 0.0
        return max(float(np.hypot(across, excess)), self.misfit(beta))

    def misfit(self, beta: Float[Array, " in"]) -> float:
        """Distance from the solutions, relative."""
        error = beta - self.target
        return float(np.linalg.norm(error - self.N @ (self.N.T @ error))) / max(float(np.linalg.norm(beta)), self.size)

    def result(self, beta: Float[Array, " in"], method: str, iterations: int = 0) -> Interpolation:
        objective = self.potential.value(beta) - float(self.pull @ beta)
        return Interpolation(beta, self.kkt_residual(beta), objective, method, iterations, self.passes_zero)


def interpolating_solution(task: Task, beta0: object, delta: float) -> Interpolation:
    """Where one hidden neuron with a w = `beta0` and a² − ‖w‖² = `delta` ends: a convex problem, solved by scipy.

    It starts from the closed form, and a KKT residual above 1e-10 would be an error.

    Parameters
    ----------
    task : one output, with inputs that may leave directions free
    beta0 : β at initialisation, one entry per input
    delta : δ = a² − ‖w‖² of the neuron

    Returns
    -------
    Interpolation : with `beta`, its `kkt_residual`, the `objective`, and whether β `passes_zero` on the way

    >>> task = lr.Task.from_data([[0.5, 1.0]], [[1.1]])
    >>> end = lr.bias.interpolating_solution(task, [0.4, 0.05], delta=0.0)
    >>> end.beta.round(6), end.kkt_residual < 1e-12
    (array([0.943004, 0.628498]), True)
    """
    return _minimise(_single_neuron_bias(task, beta0, delta))


def deep_interpolating_solution(task: Task, beta0: object, hidden_layers: int, delta: float = 0.0) -> Interpolation:
    """Where so many hidden layers end that start isotropic with W(0) = `beta0` and δ ≤ 0 (0: zero-balanced).

    Parameters
    ----------
    task : one output, with inputs that may leave directions free
    beta0 : β at initialisation, one entry per input
    hidden_layers : L, of isotropic layers
    delta : δ ≤ 0; 0 is zero-balanced

    Returns
    -------
    Interpolation : as of `interpolating_solution`

    >>> task = lr.Task.from_data([[0.5, 1.0]], [[1.1]])
    >>> lr.bias.deep_interpolating_solution(task, [0.4, 0.05], hidden_layers=1).beta.round(6)
    array([0.943004, 0.628498])
    """
    return _minimise(_deep_bias(task, beta0, hidden_layers, delta))


def closed_form(task: Task, beta0: object, delta: float) -> Interpolation:
    """The end of one hidden neuron in closed form: β* + |a|NNᵀw, with NNᵀw = ±NNᵀw0 and γ = δ + ‖Nᵀw0‖².

        a² = γ/2 + √(γ²/4 + ‖β*‖²)

    from a²‖w‖² = ‖β‖², where the part of w in the span of the inputs is β*/a and the rest stays as it was. This
    is the paper's "Exact solution when interpolating manifold is one-dimensional", for any number of free directions.

    Parameters
    ----------
    task : one output, with inputs that may leave directions free
    beta0 : β at initialisation, one entry per input
    delta : δ = a² − ‖w‖² of the neuron

    Returns
    -------
    Interpolation : as of `interpolating_solution`

    >>> task = lr.Task.from_data([[0.5, 1.0]], [[1.1]])
    >>> lr.bias.closed_form(task, [0.4, 0.05], delta=0.0).beta.round(6)
    array([0.943004, 0.628498])
    """
    bias = _single_neuron_bias(task, beta0, delta)
    return bias.result(bias.end, "closed form")


def upstream_end(task: Task, beta0: object) -> Float[Array, " in"]:
    """δ → ∞: β* + NNᵀβ0, the solution nearest to β0, as of linear regression.

    Parameters
    ----------
    task : one output, with inputs that may leave directions free
    beta0 : β at initialisation, one entry per input

    Returns
    -------
    array : β(∞)

    >>> lr.bias.upstream_end(lr.Task.from_data([[0.5, 1.0]], [[1.1]]), [0.4, 0.05]).round(6)
    array([0.74, 0.73])
    """
    target, _, N = _solutions(_one_output(task))
    beta0 = _as_beta(task, beta0)
    return target + N @ (N.T @ beta0)


def downstream_end(task: Task, beta0: object) -> Float[Array, " in"]:
    """δ → −∞: β* ± ‖β*‖ NNᵀβ0/‖β0 − NNᵀβ0‖, which keeps the direction of β0 as far as it can; − if β0ᵀΣxy < 0.

    One input direction: β0‖β*‖²/(β*ᵀβ0), on the line of β0. The first thing the flow does is to fit along that line,
    through zero if β0 points the wrong way.

    Parameters
    ----------
    task : one output, with inputs that may leave directions free
    beta0 : β at initialisation, one entry per input

    Returns
    -------
    array : β(∞)

    >>> lr.bias.downstream_end(lr.Task.from_data([[0.5, 1.0]], [[1.1]]), [0.4, 0.05]).round(6)
    array([1.76, 0.22])
    """
    target, _, N = _solutions(_one_output(task))
    beta0 = _as_beta(task, beta0)
    free = N @ (N.T @ beta0)
    sign, within = np.sign(task.sigma_yx[0] @ beta0), np.linalg.norm(beta0 - free)
    if sign == 0:
        raise InvalidInput("beta0 must not be orthogonal to sigma_yx: δ → −∞ then ends in the saddle β = 0.")
    return target + sign * np.linalg.norm(target) / within * free


def predicted_end(problem: Problem) -> Interpolation:
    """Where the flow of a problem ends, before any training: one output, and an initialisation that the theorems know.

    That is one hidden neuron; or any zero-balanced network (with one output, every layer has rank one then); or an
    isotropic one, with W_LW_Lᵀ = aaᵀ + |δ|I and balance below, of square width. Layer rates only rescale.

    Parameters
    ----------
    problem : a linear network with one output, of two layers or more, without weight decay

    Returns
    -------
    Interpolation : as of `interpolating_solution`

    >>> task = lr.Task.from_data([[0.5, 1.0]], [[1.1]])
    >>> problem = lr.Problem(task, lr.inits.zero_balanced(0, sizes=(2, 3, 3, 1), scale=0.5))
    >>> end = lr.bias.predicted_end(problem)
    >>> end.method, end.kkt_residual < 1e-12
    ('root of the slope', True)
    """
    bias, gain = _bias_of(problem)
    return _in_given_units(_minimise(bias), gain)


def compare_with_flow(problem: Problem, *, rtol: float = 1e-11) -> Comparison:
    """The predicted end of a problem beside that of `lr.flow`, which is given time until it fits.

    Parameters
    ----------
    problem : as for `predicted_end`
    rtol : of the flow

    Returns
    -------
    Comparison : `predicted`, `reached` by the flow at `time`, and their relative `distance`

    >>> task = lr.Task.from_data([[0.5, 1.0]], [[1.1]])
    >>> lr.bias.compare_with_flow(lr.Problem(task, lr.inits.single_neuron([0.4, 0.05], delta=-2.0))).distance < 1e-8
    True
    """
    bias, gain = _bias_of(problem)
    predicted = _in_given_units(_minimise(bias), gain)
    network, time, span = problem.network, 0.0, 1 / float(np.linalg.norm(problem.task.sigma_xx, 2))
    arrived = max(_FITTED, 10 * rtol)  # a flow of fewer digits comes no closer
    for _ in range(_DOUBLINGS):
        traj = flow(Problem(problem.task, network, problem.rates), [span], rtol=rtol)
        network, time, span = traj.network(-1), time + float(traj.times[-1]), 2 * span
        if bias.misfit(gain * network.function[0]) <= arrived or traj.status != "complete":
            break
    reached = network.function[0]
    a0, a = problem.network.weights[-1].ravel(), network.weights[-1].ravel()
    return Comparison(
        predicted=predicted,
        reached=reached,
        distance=float(np.linalg.norm(reached - predicted.beta)) * gain / bias.size,
        kkt_residual=bias.kkt_residual(gain * reached),
        passed_zero=len(a) == 1 and bool(a[0] * a0[0] < 0),
        time=time,
    )


def _bias_of(problem: Problem) -> tuple[_Bias, float]:
    """The minimisation that a problem's end solves, and a factor: it is posed for β times that, with unit rates."""
    as_problem(problem)
    network, facts = problem.network, problem.facts
    if not network.activation.linear or problem.weight_decay or network.depth < 2:
        raise InvalidInput(
            f"problem must have a linear network of two layers or more and no weight decay, and it has {network!r} and"
            f" weight decay {problem.weight_decay:g}."
        )
    needs_no_biases(network, "the end of this problem")
    needs_squared_loss(problem, "what interpolation ends in")
    task, gain = _one_output(problem.task), problem.canonical.gain
    scaled = replace(
        task,
        sigma_yx=gain * task.sigma_yx,
        sigma_yy=gain**2 * task.sigma_yy,
        targets=None if task.targets is None else gain * task.targets,
    )
    beta0, delta = gain * network.function[0], facts.lam[-1]
    if network.sizes[1:] == (1, 1):
        (w, a), (k_w, k_a) = network.weights, problem.canonical.k
        return _neuron_bias(scaled, k_a * float(a[0, 0]), k_w * w[0], delta), gain
    square = set(network.sizes[:-1]) == {task.d_in}
    if facts.balanced and not any(facts.lam[:-1]) and (delta == 0 or (delta < 0 and square)):
        return _deep_bias(scaled, beta0, network.depth - 1, delta), gain
    lam = ", ".join(f"{value:.4g}" for value in facts.lam)
    raise InvalidInput(
        "the end is known from one hidden neuron, a zero-balanced network, or an isotropic one of square width, and"
        f" this is {network!r} with balance {lam} within {facts.balance_error:.1e}: lr.flow(problem, times) goes there."
    )


def _in_given_units(end: Interpolation, gain: float) -> Interpolation:
    return replace(end, beta=end.beta / gain)


def _single_neuron_bias(task: object, beta0: object, delta: object) -> _Bias:
    task, delta = _one_output(task), _check.number("delta", delta)
    w, a = single_neuron(_as_beta(task, beta0), delta=delta).weights
    return _neuron_bias(task, float(a[0, 0]), w[0], delta)


def _neuron_bias(task: Task, a0: float, w0: Float[Array, " in"], delta: float) -> _Bias:
    """∇Ψ_δ = √2 sgn(a) w, from a and w themselves: β0 = 0 does not tell w, if a0 = 0."""
    target, V, N = _solutions(task)
    m, free = V.T @ w0, float(np.linalg.norm(N.T @ w0))
    terms = min([(free**2, delta), (a0**2, -float(m @ m))], key=lambda pair: max(map(abs, pair)))
    gamma = sum(terms)  # of either pair, and the smaller numbers cancel less
    sign = final_sign(task, V, a0, w0, gamma, blur=1e-15 * max(map(abs, terms)))
    size = float(np.linalg.norm(target))
    root = np.hypot(gamma / 2, size)
    a_squared = gamma / 2 + root if gamma > 0 else (size * (size / (root - gamma / 2)) if size else 0.0)

    def excess(within: float, along: float) -> float:
        """From ‖Nᵀw‖ = ‖Nᵀw0‖, or where ‖w‖ hardly depends on β, from the same equation as a² − ‖m‖² = γ."""
        total = np.hypot(within, along)
        (w,), (a,) = layer_factors(np.array([total]), delta)
        moving = a**2 + (within / a) ** 2
        if (w * along / total) ** 2 <= moving:
            return float(along / total - free / w)
        return float((a**2 - (within / a) ** 2 - gamma) / (moving + abs(gamma)))

    return _Bias(
        single_neuron_potential(delta), np.sqrt(2) * sign * w0, target, N, float(np.sqrt(a_squared / 2)), excess,
        abs(a0) * float(np.linalg.norm(w0)), passes_zero=sign * a0 < 0,
    )  # fmt: skip


def _deep_bias(task: object, beta0: object, hidden_layers: int, delta: float) -> _Bias:
    task = _one_output(task)
    target, V, N = _solutions(task)
    beta0, potential = _as_beta(task, beta0), deep_potential(hidden_layers, delta)
    pull = potential.gradient(beta0)  # ‖a‖β̂
    free, size = float(np.linalg.norm(N.T @ pull)), float(np.linalg.norm(pull))
    if delta == 0 and size == 0 and task.sigma_yx.any():
        raise InvalidInput("beta0 must not be zero where delta is: that is a saddle, and nothing moves.")
    if delta == 0 and free <= NEAR * size:  # otherwise ‖a‖ ≥ ‖Nᵀc‖, and zero is not reached
        refuse_the_saddle(task, V, pull, hidden_layers)
    y = squared_output_norm(float(np.linalg.norm(target)), hidden_layers, delta - free**2)
    factor = (y + free**2 - delta) ** (hidden_layers / 2)

    def excess(within: float, along: float) -> float:
        """From ‖Nᵀ∇Ψ‖ = ‖Nᵀc‖."""
        total = np.hypot(within, along)
        return float(along / total - free / potential.profile(total).slope)

    return _Bias(potential, pull, target, N, float(factor), excess, float(np.linalg.norm(beta0)))


def _minimise(bias: _Bias) -> Interpolation:
    """The minimum over ‖z‖, where the slope changes its sign, sought from half to twice the closed form."""
    target, N = bias.target, bias.N
    free = N.T @ bias.pull
    within, pull = float(np.linalg.norm(target)), float(np.linalg.norm(free))
    if N.shape[1] == 0:
        return bias.result(target, "unique")
    if pull == 0 or bias.factor == 0:
        return bias.result(target, "least norm")  # nothing pulls it off β*, or not more than the kink at zero holds
    from scipy.optimize import brentq

    closed = bias.factor * pull
    low, high = bias.excess(within, closed / 2), bias.excess(within, 2 * closed)
    end = bias.result(bias.end, "closed form")
    if low < 0 < high:
        share, found = brentq(
            lambda share: bias.excess(within, share * closed), 0.5, 2.0, xtol=1e-300, rtol=1e-15, full_output=True
        )
        z = share * closed / pull * free
        end = bias.result(target + N @ z, "root of the slope", int(found.iterations))
    if not end.kkt_residual <= _SOLVED:
        raise RuntimeError(
            f"the conditions of a minimum are met to {end.kkt_residual:.1e} only, and {_SOLVED:g} is asked for: the"
            " numbers differ too much in size; lr.flow(problem, times) goes there."
        )
    return end


def _solutions(task: Task) -> tuple[Float[Array, " in"], Float[Array, "in r"], Float[Array, "in free"]]:
    """β*, and bases of the directions that inputs have and that none has; from the samples where known, at twice the
    digits. Directions below the rounding of the numbers as they came count as none."""
    if task.inputs is not None:
        few = len(task.inputs) < task.d_in
        _, s, Vt = np.linalg.svd(task.inputs, full_matrices=few)
        rank = int(np.sum(s > max(task.inputs.shape) * task.eps * s[0]))
    else:
        eigenvalues, axes = np.linalg.eigh(task.sigma_xx)
        Vt = axes.T[::-1]
        rank = int(np.sum(eigenvalues > task.d_in * task.eps * eigenvalues[-1]))
    target, N = task.target[0], Vt[rank:].T
    if task.eps > np.finfo(np.float64).eps:  # the target does not know that some directions are rounding alone
        target = target - N @ (N.T @ target)
    return target, Vt[:rank].T, N


def _one_output(task: object) -> Task:
    task = as_task(task)
    if task.d_out != 1:
        raise InvalidInput(f"task must have one output, and it has {task.d_out}: the end is known for one alone.")
    return task


def _as_beta(task: Task, beta0: object) -> Float[Array, " in"]:
    beta0 = _check.as_array("beta0", beta0, ndim=1)
    if len(beta0) != task.d_in:
        raise InvalidInput(f"beta0 must have {task.d_in} entries, as the inputs have, and it has {len(beta0)}.")
    return beta0
