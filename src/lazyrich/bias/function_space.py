"""Function space: the flow of W = W_L…W_1 itself, vec(Ẇ) = −M vec(∇L), where M depends on W and δ alone.

Kunin et al. 2024, Theorem 3, Lemmas 8, 9, 13, 14. Shapes are those of the library: W is (d_out, d_in), the
paper's β is Wᵀ, and its vec(β), column by column, is `W.ravel()`. For two layers

    Ẇ = −(A_out ∇L + ∇L A_in),     A_out = η_1 W2W2ᵀ,     A_in = η_2 W1ᵀW1,     M = A_out ⊗ I + I ⊗ A_in

with ∇L = W Σxx − Σyx, for any inputs. What is conserved, D = η_1 W2ᵀW2 − η_2 W1W1ᵀ, gives A_out and A_in:

- one hidden neuron, one output: from β and δ = D (`neuron_preconditioner`; it needs β ≠ 0 if δ < 0);
- isotropic, D = δI: from W and δ (Theorem 3; h = d_in if δ < 0, h = d_out if δ > 0, any h if δ = 0);
- deep isotropic, one output: from β and δ ≤ 0 (Lemmas 13, 14; L hidden layers, all of width d_in unless δ = 0).

Correction to the paper: M → |δ|I for δ → ±∞. The sum of Lemma 14 is a geometric one, and
M = g^L I + L x g^{L−1} β̂β̂ᵀ with x = ‖a‖² and g = x − δ.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._progress import progress
from lazyrich._typing import Array, Float
from lazyrich.inits.balanced import layer_factors
from lazyrich.tasks import Task
from lazyrich.tasks.task import as_task

_MODELS = ("single neuron", "isotropic", "deep")
_RTOL, _ATOL = 1e-13, 1e-15  # of LSODA, which turns implicit where M is large and the flow stiff
_THROUGH_ZERO = 1e-6  # how near to zero, relative, β passes where it passes through: the integrator misses it by less


class Preconditioner(NamedTuple):
    """M of two layers, kept as its two factors: it is never needed as a matrix to apply it."""

    outputs: Float[Array, "out out"]  # η_1 W2W2ᵀ
    inputs: Float[Array, "in in"]  # η_2 W1ᵀW1

    def apply(self, gradient: object) -> Float[Array, "out in"]:
        """M vec(gradient), as a matrix of the shape of W."""
        return self.outputs @ gradient + gradient @ self.inputs

    @property
    def matrix(self) -> Float[Array, "n n"]:
        """M itself, which acts on `W.ravel()`."""
        return np.kron(self.outputs, np.eye(len(self.inputs))) + np.kron(np.eye(len(self.outputs)), self.inputs)


def kappa(beta: object, delta: float) -> float:
    """κ = √(δ² + 4‖β‖²), which is η_w a² + η_a‖w‖².

    >>> kappa([0.0, 2.0], delta=3.0)
    5.0
    """
    return float(np.hypot(delta, 2 * np.linalg.norm(_check.as_array("beta", beta, ndim=1))))


def neuron_preconditioner(beta: object, delta: float) -> Float[Array, "d d"]:
    """M = (κ+δ)/2 I + (κ−δ)/2 β̂β̂ᵀ: in function space the flow is β̇ = −M∇L, for any inputs.

    M stands for η_w a²I + η_a wwᵀ. δ ≫ 0: δI, lazy. δ = 0: ‖β‖(I + β̂β̂ᵀ), rich. δ ≪ 0: |δ|β̂β̂ᵀ, lazy until β
    turns. At β = 0 with δ < 0 the direction of w is not known, and M with it.

    >>> neuron_preconditioner([0.0, 2.0], delta=3.0)
    array([[4., 0.],
           [0., 5.]])
    >>> neuron_preconditioner([0.0, 2.0], delta=-3.0)
    array([[1., 0.],
           [0., 5.]])
    """
    beta, delta = _check.as_array("beta", beta, ndim=1), _check.number("delta", delta)
    size = float(np.linalg.norm(beta))
    if size == 0:
        if delta < 0:
            raise InvalidInput("beta must not be zero where delta is negative: M needs the direction of w.")
        return delta * np.eye(len(beta))
    larger = (kappa(beta, delta) + abs(delta)) / 2
    smaller = size**2 / larger  # (κ − |δ|)/2, without cancellation
    everywhere, along = (larger, smaller) if delta > 0 else (smaller, larger)
    return everywhere * np.eye(len(beta)) + along * np.outer(beta / size, beta / size)


def isotropic_preconditioner(beta: object, delta: float, rates: object = None) -> Preconditioner:
    """M from W = `beta` (d_out, d_in) and D = δI (Theorem 3): h = d_in if δ < 0, h = d_out if δ > 0.

        M = √(η_1η_2 WWᵀ + δ²/4) ⊗ I + I ⊗ √(η_1η_2 WᵀW + δ²/4)

    The factors are A_out and A_in, which hold the two roots plus and minus δ/2.

    Parameters
    ----------
    beta : W, d_out × d_in
    delta : δ of D = δI
    rates : learning rate of each layer

    Returns
    -------
    Preconditioner : `outputs` A_out, `inputs` A_in, `apply(gradient)` and the `matrix` M itself

    >>> lr.bias.isotropic_preconditioner([[0.0, 0.0]], -2.0).matrix
    array([[2., 0.],
           [0., 2.]])
    """
    eta_1, eta_2 = _check.as_rates(rates, 2)
    W1tW1, W2W2t = layer_grams(beta, delta, rates)
    return Preconditioner(eta_1 * W2W2t, eta_2 * W1tW1)


def layer_grams(
    beta: object, delta: float, rates: object = None
) -> tuple[Float[Array, "in in"], Float[Array, "out out"]]:
    """W1ᵀW1 and W2W2ᵀ of isotropic layers, D = δI, from W = `beta` (Lemmas 8 and 9).

        η_2 W1ᵀW1 = −δ/2 + √(η_1η_2 WᵀW + δ²/4)   if δ ≥ 0 or h = d_in
        η_1 W2W2ᵀ = +δ/2 + √(η_1η_2 WWᵀ + δ²/4)   if δ ≤ 0 or h = d_out

    Each singular value is taken apart without cancellation, for any size of δ.

    >>> layer_grams([[6.0]], 5.0)
    (array([[4.]]), array([[9.]]))
    """
    beta, delta = _check.as_matrix("beta", beta), _check.number("delta", delta)
    eta_1, eta_2 = _check.as_rates(rates, 2)
    U, s, Vt = np.linalg.svd(np.sqrt(eta_1 * eta_2) * beta)
    c1, _ = layer_factors(np.pad(s, (0, len(Vt) - len(s))), delta)
    _, c2 = layer_factors(np.pad(s, (0, len(U) - len(s))), delta)
    return (Vt.T * c1**2) @ Vt / eta_2, (U * c2**2) @ U.T / eta_1


def squared_output_norm(size: float, hidden_layers: int, delta: float = 0.0) -> float:
    """x = ‖a‖² of a deep isotropic network with ‖β‖ = `size`: the root of x(x − δ)^L = ‖β‖² (Lemma 13), for δ ≤ 0.

    >>> squared_output_norm(6.0, hidden_layers=1, delta=-5.0)
    4.0
    """
    size, L, gap = _check.positive("size", size, or_zero=True), _layers(hidden_layers), -_not_positive(delta)
    if size == 0 or gap == 0:
        return size ** (2 / (L + 1))
    from scipy.optimize import brentq

    # x = gap·e^u, and u + L log(1 + e^u) = m grows with a slope between 1 and L + 1
    m = 2 * np.log(size) - (L + 1) * np.log(gap)
    top = min(m, m / (L + 1))
    u = brentq(lambda u: u + L * np.logaddexp(0, u) - m, top - L * np.log(2) - 1, top + 1, xtol=1e-300, rtol=1e-15)
    return float(gap * np.exp(u))


def deep_preconditioner(beta: object, hidden_layers: int, delta: float = 0.0) -> Float[Array, "in in"]:
    """M = g^L I + L x g^{L−1} β̂β̂ᵀ for one output, L hidden layers and isotropic ones (Lemma 14).

    x = `squared_output_norm`, g = x − δ. δ = 0: M = ‖β‖^{2L/(L+1)}(I + Lβ̂β̂ᵀ). The layers have aaᵀ − W_LW_Lᵀ = δI and
    W_{ℓ+1}ᵀW_{ℓ+1} = W_ℓW_ℓᵀ below: δ = 0 is any zero-balanced one, δ < 0 needs all hidden widths to be d_in.

    >>> deep_preconditioner([0.0, 8.0], hidden_layers=2)
    array([[16.,  0.],
           [ 0., 48.]])
    """
    across, along, direction = _deep_eigenvalues(beta, hidden_layers, delta)
    return across * np.eye(len(direction)) + (along - across) * np.outer(direction, direction)


def function_space_flow(
    task: Task, beta0: object, delta: float, times: object, *, model: str = "single neuron", hidden_layers: int = 1
) -> Float[Array, "T out in"]:
    """W(t) from W(0) = `beta0` by Ẇ = −M(W, δ)∇L alone, for any inputs and unit rates; no weights are followed.

    A single neuron with δ < 0 may pass through β = 0, where β does not tell M: that is an error.

    Parameters
    ----------
    task : whose loss is followed
    beta0 : W(0), or β of one output
    delta : δ, conserved
    times : when to look
    model : "single neuron" (one output), "isotropic" (two layers, Theorem 3) or "deep" (one output, δ ≤ 0)
    hidden_layers : L of "deep"

    Returns
    -------
    array : W at each time

    >>> task = lr.Task.from_correlations([[0.0, 2.0]])
    >>> lr.bias.function_space_flow(task, [0.15, 0.2], 0.0, [0.0, 100.0]).round(9) + 0.0
    array([[[0.15, 0.2 ]],
    <BLANKLINE>
           [[0.  , 2.  ]]])
    """
    task, delta, checked = as_task(task), _check.number("delta", delta), _check.as_times(times)
    W0 = _check.as_matrix("beta0", np.atleast_2d(_check.as_array("beta0", beta0)), (task.d_out, task.d_in))
    move = _velocity(task, delta, _check.choice("model", model, _MODELS), hidden_layers)
    from scipy.integrate import solve_ivp

    def rise(_: float, state: Array) -> float:
        """loss(W) − loss(0), which falls through zero at most once: at W = 0, if W passes through it."""
        W = state.reshape(W0.shape)
        return float(np.sum((W @ task.sigma_xx / 2 - task.sigma_yx) * W))

    reached = 0.0

    def velocity(t: float, state: Array) -> Array:
        nonlocal reached
        if t > reached:
            move_on(t - reached)
            reached = t
        return move(state.reshape(W0.shape)).ravel()

    sizes = [float(np.abs(W).max()) for W in (W0, task.target) if W.any()]
    fragile = model == "single neuron" and delta < 0
    state, now, states = W0.ravel(), 0.0, []
    with progress(float(checked[-1]), "function_space_flow") as move_on:
        for t in checked:  # each time is the end of a run: interpolation is less accurate than the steps
            if t > now:
                with warnings.catch_warnings():  # what stops it shows in its message
                    warnings.simplefilter("ignore")
                    run = solve_ivp(
                        velocity, (now, t), state, "LSODA", t_eval=[t],
                        rtol=_RTOL, atol=_ATOL * min(sizes, default=1.0), events=rise if fragile else None,
                    )  # fmt: skip
                if not run.success:
                    raise RuntimeError(f"the integration stopped before t = {t:g}: {run.message}")
                for when, where in zip(run.t_events[0], run.y_events[0], strict=True) if fragile else ():
                    if np.linalg.norm(where) <= _THROUGH_ZERO * min(sizes):
                        raise InvalidInput(
                            f"beta passes through zero at t = {when:.6g}, where it does not tell the direction of w:"
                            " lr.flow follows the weights through it; try an earlier end."
                        )
                state, now = run.y[:, -1], float(t)
            states.append(state.reshape(W0.shape))
    return np.stack(states)


def _velocity(task: Task, delta: float, model: str, hidden_layers: int) -> Callable[[Array], Array]:
    """W ↦ Ẇ."""
    if model != "isotropic" and task.d_out != 1:
        raise InvalidInput(f"model = {model!r} has one output, and the task has {task.d_out}: try 'isotropic'.")
    if model == "deep":
        L, delta = _layers(hidden_layers), _not_positive(delta)
    elif _layers(hidden_layers) != 1:
        raise InvalidInput(f"model = {model!r} has one hidden layer, and hidden_layers is {hidden_layers}.")

    def move(W: Array) -> Array:
        gradient = W @ task.sigma_xx - task.sigma_yx
        if model == "isotropic":
            return -isotropic_preconditioner(W, delta).apply(gradient)
        M = neuron_preconditioner(W[0], delta) if model == "single neuron" else deep_preconditioner(W[0], L, delta)
        return -gradient @ M

    return move


def _deep_eigenvalues(beta: object, hidden_layers: int, delta: float) -> tuple[float, float, Float[Array, " in"]]:
    """Eigenvalues of M across β and along it, and the direction of β."""
    beta, L, delta = _check.as_array("beta", beta, ndim=1), _layers(hidden_layers), _not_positive(delta)
    size = float(np.linalg.norm(beta))
    x = squared_output_norm(size, L, delta)
    g = x - delta
    return g**L, g**L + L * x * g ** (L - 1), beta / size if size else beta


def _layers(hidden_layers: object) -> int:
    return _check.count("hidden_layers", hidden_layers)


def _not_positive(delta: object) -> float:
    delta = _check.number("delta", delta)
    if delta > 0:
        raise InvalidInput(
            f"delta must not be above 0, and it is {delta:g}: aaᵀ − W_LW_Lᵀ = δI has no solution for two or more units."
        )
    return delta
