"""The closed form of two balanced layers as JAX functions of weights, target and times, with all derivatives.

For fits, samplers and optimisers in JAX: `jax.grad`, `jvp`, `vjp`, `hessian`, `vmap` and `jit` go through every
function here. They compute in double precision, and so are called where JAX does, inside `with jax.enable_x64(True):`
or with `jax_enable_x64` set. What is to be called often belongs into `jax.jit`: to compile a loss takes seconds, its
gradient twice as long.

Two linear layers, Σxx = c·I, and W2ᵀW2 − W1W1ᵀ = λI with any λ, which is read from the weights. Known numbers are
checked; traced ones cannot be: of weights that are not balanced the formula would still give numbers, but not those of
the flow. Likewise a derivative with respect to the weights is that of the flow along directions that keep the layers
balanced, with the same λ or another. Such directions come by themselves where the weights are a function of free
parameters and balanced for all of them, as those of `lambda_balanced`; for other directions there is `lr.sensitivity`.
Derivatives with respect to the target need distinct singular values above 0, those with respect to the weights do not:
singular values that are equal up to rounding count as equal, traced ones too. An initialisation within 1e-12 of a
separatrix stays on it, and its derivatives are those of initialisations that stay there too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from lazyrich import _check, _engines
from lazyrich._check import InvalidInput
from lazyrich._typing import JaxArray, Rng
from lazyrich.inits.balanced import BRAUN, draws
from lazyrich.methods.riccati import Riccati
from lazyrich.networks import Network
from lazyrich.problem import Problem
from lazyrich.tasks import Task

__all__ = ["function", "gram", "half_times", "lambda_balanced", "loss", "mode_strengths"]


def function(weights: Sequence[Any], sigma_yx: Any, times: Any, *, input_scale: Any = 1.0) -> JaxArray:
    """W2W1 at the given times.

    Parameters
    ----------
    weights : [W1, W2] at t = 0, balanced
    sigma_yx : Σyx, the correlation of outputs with inputs
    times : one number or an array of any shape, finite and not negative; learning rate × steps
    input_scale : c of Σxx = c·I

    Returns
    -------
    array : of the shape of `times`, then outputs × inputs

    >>> import jax
    >>> with jax.enable_x64(True):
    ...     W = np.asarray(lr.jax.function([[[0.1]], [[0.1]]], [[2.0]], [0.0, 1.0, 10.0]))
    >>> W.ravel().round(6).tolist()
    [0.01, 0.430588, 2.0]
    """
    return _over_times("function", weights, sigma_yx, times, input_scale)


def gram(weights: Sequence[Any], sigma_yx: Any, times: Any, *, input_scale: Any = 1.0) -> JaxArray:
    """QQᵀ at the given times: W1ᵀW1, W2W1 and W2W2ᵀ in one matrix; arguments as of `function`.

    >>> import jax
    >>> with jax.enable_x64(True):
    ...     G = np.asarray(lr.jax.gram([[[0.1]], [[0.1]]], [[2.0]], 10.0))
    >>> G.round(6).tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """
    return _over_times("gram", weights, sigma_yx, times, input_scale)


def mode_strengths(weights: Sequence[Any], sigma_yx: Any, times: Any, *, input_scale: Any = 1.0) -> JaxArray:
    """uᵀW(t)v of each mode of Σyx, strongest first, along the last axis; arguments as of `function`.

    >>> import jax
    >>> with jax.enable_x64(True):
    ...     a = np.asarray(lr.jax.mode_strengths([[[0.1]], [[0.1]]], [[2.0]], [0.0, 1.0]))
    >>> a.round(6).tolist()
    [[0.01], [0.430588]]
    """
    return _over_times("mode_strengths", weights, sigma_yx, times, input_scale)


def loss(weights: Sequence[Any], sigma_yx: Any, times: Any, *, input_scale: Any = 1.0, floor: Any = 0.0) -> JaxArray:
    """The loss at the given times, ½c‖W − Σyx/c‖² + floor.

    Parameters
    ----------
    weights, sigma_yx, times, input_scale : as of `function`
    floor : the least loss of any linear map, `task.loss_floor`

    Returns
    -------
    array : of the shape of `times`

    >>> import jax
    >>> curve = lambda scale, rate: lr.jax.loss(lr.jax.lambda_balanced(0, sizes=(3, 3, 3), lam=0.5, scale=scale),
    ...                                         np.diag([3.0, 2.0, 1.0]), rate * np.linspace(0.0, 5.0, 6))
    >>> with jax.enable_x64(True):
    ...     slope = np.asarray(jax.jacfwd(curve)(0.1, 1.0))
    ...     differences = np.asarray(curve(0.1 + 1e-5, 1.0) - curve(0.1 - 1e-5, 1.0)) / 2e-5
    >>> slope.shape, bool(abs(slope - differences).max() < 1e-6)
    ((6,), True)
    """
    W = function(weights, sigma_yx, times, input_scale=input_scale)
    jnp = _engines.load("jax", "lazyrich.jax").numpy
    error = W - jnp.asarray(sigma_yx, dtype=float) / input_scale
    return jnp.sum(error**2, axis=(-2, -1)) * input_scale / 2 + floor


def half_times(weights: Sequence[Any], sigma_yx: Any, *, input_scale: Any = 1.0) -> JaxArray:
    """When each mode of Σyx is first half way from its strength at first to its end, strongest first.

    Parameters
    ----------
    weights, sigma_yx, input_scale : as of `function`

    Returns
    -------
    array : one time per mode; nan for modes that are never learned (more than hidden units, or beyond a separatrix), or
        that are there already. Derivatives are those of the equation that defines the time

    >>> import jax
    >>> with jax.enable_x64(True):
    ...     t, by = jax.jvp(lambda s: lr.jax.half_times([[[0.1]], [[0.1]]], s), ([[2.0]],), ([[1.0]],))
    >>> np.asarray(t).round(4).tolist(), np.asarray(by).round(4).tolist()
    ([1.3258], [-0.5385])
    """
    traced, given = _checked(weights, sigma_yx, input_scale)
    return traced.half_times(*given)


def lambda_balanced(rng: Rng, *, sizes: Sequence[SupportsIndex], lam: Any, scale: Any) -> list[JaxArray]:
    """The weights of `lr.inits.lambda_balanced` as functions of λ and scale, both of which may be traced.

    Parameters
    ----------
    rng : a seed, or a NumPy Generator: not traced
    sizes : (d_in, hidden, d_out)
    lam : the balance λ; above 0 where the hidden layer is wider than the inputs, below 0 where it is wider than the
        outputs, and 0 where it is wider than both
    scale : standard deviation of the Gaussian weights whose product gives the singular values

    Returns
    -------
    list : W1 and W2. QQᵀ is that of `lr.inits.lambda_balanced`; where λ = 0 the hidden basis is another

    >>> import jax
    >>> with jax.enable_x64(True):
    ...     W1, W2 = map(np.asarray, lr.jax.lambda_balanced(0, sizes=(5, 3, 4), lam=2.0, scale=0.1))
    >>> given = lr.inits.lambda_balanced(0, sizes=(5, 3, 4), lam=2.0, scale=0.1)
    >>> bool(abs(W1 - given.weights[0]).max() < 1e-14)
    True
    """
    widths, jnp = _check.sizes(sizes, depth=2), _in_double().numpy
    (d_in, h, d_out), m = widths, min(widths)
    if h > max(d_in, d_out) and not (isinstance(lam, int | float) and lam == 0):
        raise InvalidInput(
            f"lam must be 0 where the hidden layer ({h}) is wider than inputs and outputs ({d_in}, {d_out}), and it is "
            f"{_check.shown(lam)}."
        )
    s, (right, inner, left) = draws(_check.as_rng(rng), widths, 1.0)
    lam, scale = jnp.asarray(lam, dtype=float), jnp.asarray(scale, dtype=float)
    strength = (BRAUN * scale) ** 2 * s
    size = jnp.where(lam >= 0, lam, -lam)
    big = jnp.sqrt((jnp.sqrt(size**2 + 4 * strength**2) + size) / 2)
    small = strength / big
    first, second = jnp.where(lam >= 0, small, big), jnp.where(lam >= 0, big, small)
    W1, W2 = (inner[:, :m] * first) @ right[:, :m].T, (left[:, :m] * second) @ inner[:, :m].T
    if m < h <= d_out:  # hidden units without inputs: λ is all they have
        W2 = W2 + jnp.sqrt(lam) * (left[:, m:h] @ inner[:, m:h].T)
    elif m < h <= d_in:
        W1 = W1 + jnp.sqrt(-lam) * (inner[:, m:h] @ right[:, m:h].T)
    return [W1, W2]


def _in_double() -> Any:
    """JAX, where it computes in double precision."""
    jax = _engines.load("jax", "lazyrich.jax")
    if jax.numpy.zeros(0).dtype != np.float64:
        raise InvalidInput(
            "lazyrich.jax computes in float64, and JAX is set to float32 here: try it inside "
            "`with jax.enable_x64(True):`."
        )
    return jax


def _checked(weights: Any, sigma_yx: Any, input_scale: Any) -> tuple[Any, tuple[JaxArray, ...]]:
    """The module that traces, and what it asks for: W1, W2, Σyx, c."""
    jax = _in_double()
    jnp = jax.numpy
    if isinstance(weights, str) or not isinstance(weights, Sequence) or len(weights) != 2:
        came = f"has {len(weights)}" if isinstance(weights, list | tuple) else f"is a {type(weights).__name__}"
        raise InvalidInput(f"weights must list two arrays, W1 and W2, and it {came}.")
    given = (*weights, sigma_yx, input_scale)
    if not any(isinstance(value, jax.core.Tracer) for value in jax.tree.leaves(given)):
        _check_balance(*given)
    W1, W2, S = (jnp.asarray(value, dtype=float) for value in (*weights, sigma_yx))
    if not (W1.ndim == W2.ndim == S.ndim == 2 and S.shape == (len(W2), W1.shape[1]) and W2.shape[1] == len(W1)):
        shapes = f"{W1.shape}, {W2.shape} and {S.shape}"
        raise InvalidInput(f"weights and sigma_yx must be h × in, out × h and out × in, and they have shapes {shapes}.")
    from lazyrich.methods.riccati import traced  # only here: it loads JAX

    return traced, (W1, W2, S, jnp.asarray(input_scale, dtype=float))


def _check_balance(W1: Any, W2: Any, sigma_yx: Any, input_scale: Any) -> None:
    """A sentence for known numbers to which the closed form does not apply."""
    S = _check.as_matrix("sigma_yx", sigma_yx)
    c = _check.positive("input_scale", input_scale)
    network = Network([_check.from_any_library(f"weights[{i}]", W) for i, W in enumerate((W1, W2))])
    refusals = Problem(Task.from_correlations(S, c * np.eye(S.shape[1])), network).facts.methods[Riccati.name]
    if refusals:
        raise InvalidInput(f"weights must be balanced: {'; '.join(map(str, refusals))}; try lr.balanced(network).")


def _over_times(what: str, weights: Any, sigma_yx: Any, times: Any, input_scale: Any) -> JaxArray:
    """One of the quantities of `traced` at every time."""
    traced, given = _checked(weights, sigma_yx, input_scale)
    jax: Any = _in_double()
    if not isinstance(times, jax.core.Tracer):
        times = _check.as_array("times", times)
        if times.min() < 0:
            raise InvalidInput(f"times must not be negative, and the least is {times.min():g}.")
    return traced.over_times(what, *given, jax.numpy.asarray(times, dtype=float))
