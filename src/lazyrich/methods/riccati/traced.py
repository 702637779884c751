"""The graded closed form of two balanced layers as JAX functions, from the weights and the target on: to be
differentiated, compiled and mapped (`lazyrich.jax`).

The same four steps as `grading` and `evaluation`, in operations that JAX can trace, and without LAPACK, which deadlocks
in JAX on the CPU: singular vectors by one-sided Jacobi rotations, the echelon form by Gram–Schmidt with
re-orthogonalisation, and A⁻¹ by elimination, which for positive definite matrices needs no pivoting.

Derivatives do not go through iterations. Singular vectors have the derivative that Σ = U S Vᵀ implies, A⁻¹ that of a
linear equation, and half times that of their equation: so derivatives of any order are those of the closed form. That
of singular vectors divides by differences of singular values: with respect to the target, derivatives need these to be
distinct and above 0, and those with respect to the weights do not.

A row whose new part is below 1e-12 of the weights counts as one on the separatrix and stays there, as in `solve`; the
choice is made by comparison inside the trace, so that its derivative is that of starts which stay there too.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lazyrich import _engines
from lazyrich._typing import JaxArray

jax: Any = _engines.load("jax", "lazyrich.jax")
jnp, lax = jax.numpy, jax.lax

_SWEEPS = 40  # of Jacobi rotations, at most; six to ten are the rule
_NEW = 1e-12  # of the weights
_FAR, _GRID, _HALVINGS = 31, 200, 60
_STILL = 1e-9  # as in `observables.half_times`


class Modes(NamedTuple):
    """Σ = U diag(s) Vᵀ with square U and V, s falling."""

    U: JaxArray
    s: JaxArray
    V: JaxArray


class Start(NamedTuple):
    """A graded initialisation: rows are +w of each mode, directions without a partner, −w from the weakest mode."""

    modes: Modes
    a: JaxArray
    b: JaxArray
    w: JaxArray
    excess: JaxArray  # w − |λ|/2 of the rows that grow
    L: JaxArray
    pivots: JaxArray
    used: JaxArray  # which columns of L are


def _rotations(columns: int) -> Any:
    """The order of a tournament in which each column meets each other once a sweep; the first stays."""
    half = columns // 2
    top, bottom = list(range(half)), list(range(half, columns))
    return np.array([0, bottom[0], *top[1:-1], *bottom[1:], top[-1]] if half > 1 else [0, 1])


def _jacobi(A: JaxArray) -> tuple[JaxArray, JaxArray]:
    """AV with orthogonal columns, longest first, and V; A has no more columns than rows."""
    rows, m = A.shape
    even, eps = m + m % 2, np.finfo(np.float64).eps
    order = _rotations(even)
    Z = jnp.zeros((rows + even, even)).at[:rows, :m].set(A).at[rows:].set(jnp.eye(even))

    def turn(_: Any, state: Any) -> Any:
        Z, off = state
        x, y = Z[:, : even // 2], Z[:, even // 2 :]
        alpha, beta, gamma = (jnp.sum(p[:rows] * q[:rows], axis=0) for p, q in ((x, x), (y, y), (x, y)))
        needed = jnp.abs(gamma) > eps * jnp.sqrt(alpha * beta)
        zeta = (beta - alpha) / jnp.where(needed, 2 * gamma, 1.0)
        tangent = jnp.where(zeta >= 0, 1.0, -1.0) / (jnp.abs(zeta) + jnp.sqrt(1 + zeta**2))
        tangent = jnp.where(needed, tangent, 0.0)
        c = 1 / jnp.sqrt(1 + tangent**2)
        s = c * tangent
        Z = jnp.concatenate([c * x - s * y, s * x + c * y], axis=1)[:, order]
        return Z, off | jnp.any(needed)

    def sweep(state: Any) -> Any:
        Z, _, count = state
        Z, off = lax.fori_loop(0, even - 1, turn, (Z, False))
        return Z, off, count + 1

    going = (Z, True, 0)
    Z, _, _ = lax.while_loop(lambda state: state[1] & (state[2] < _SWEEPS), sweep, going)
    falling = jnp.argsort(-jnp.sum(Z[:rows, :m] ** 2, axis=0), stable=True)
    return Z[:rows, :m][:, falling], Z[rows : rows + m, :m][:, falling]


def _completed(X: JaxArray) -> tuple[JaxArray, JaxArray]:
    """A square orthogonal matrix whose first columns are those of X over their lengths, and the lengths.

    Householder reflections: a column of zeros becomes one of those that were missing.
    """
    rows, m = X.shape
    places = jnp.arange(rows)

    def reflect(state: Any, j: Any) -> tuple[Any, Any]:
        X, Q = state
        x = jnp.where(places >= j, X[:, j], 0.0)
        length = jnp.sqrt(x @ x)
        sign = jnp.where(X[j, j] >= 0, 1.0, -1.0)
        v = x + jnp.where(places == j, sign * length, 0.0)
        v = v / jnp.where(length > 0, jnp.sqrt(v @ v), 1.0)
        return (X - 2 * jnp.outer(v, v @ X), Q - 2 * jnp.outer(Q @ v, v)), jnp.where(length > 0, -sign, 1.0)

    (_, Q), signs = lax.scan(reflect, (X, jnp.eye(rows)), jnp.arange(m))
    return Q * jnp.concatenate([signs, jnp.ones(rows - m)]), jnp.sqrt(jnp.sum(X**2, axis=0))


@jax.custom_jvp  # type: ignore[untyped-decorator]
def modes_of(sigma: JaxArray) -> Modes:
    """The full singular value decomposition."""
    tall = sigma.shape[0] >= sigma.shape[1]
    AV, right = _jacobi(sigma if tall else sigma.T)
    left, s = _completed(AV)
    return Modes(left, s, right) if tall else Modes(right, s, left)


@modes_of.defjvp  # type: ignore[untyped-decorator]
def _modes_moved(primals: Any, tangents: Any) -> tuple[Modes, Modes]:
    """dU = UΩ and dV = VΨ, antisymmetric, from UᵀdΣV = ΩS + dS − SΨ; directions outside Σ do not turn into each other.

    Where two singular values are equal, or one is 0, they do not turn into each other either, and the derivative is
    right for moves of the target that leave it so.
    """
    (sigma,), (dsigma,) = primals, tangents
    U, s, V = modes = modes_of(sigma)
    m = len(s)
    C = U.T @ dsigma @ V
    core, size = C[:m, :m], jnp.where(s[0] > 0, s[0], 1.0)
    gap = (s - s[:, None]) * (s + s[:, None])  # s_j² − s_i²
    over = _inverse(gap, 1e-15 * size**2)
    turn_U, turn_V = (core * s + s[:, None] * core.T) * over, (s[:, None] * core + core.T * s) * over
    inverse = _inverse(s, 1e-15 * size)
    dU = U @ _with_border(turn_U, C[m:, :m] * inverse)
    dV = V @ _with_border(turn_V, (inverse[:, None] * C[:m, m:]).T)
    return modes, Modes(dU, jnp.diagonal(core), dV)


def _inverse(x: JaxArray, least: JaxArray) -> JaxArray:
    """1/x, and 0 where x is nothing but rounding."""
    near = jnp.abs(x) <= least
    return jnp.where(near, 0.0, 1 / jnp.where(near, 1.0, x))


def _with_border(core: JaxArray, below: JaxArray) -> JaxArray:
    """[[core, −belowᵀ], [below, 0]]."""
    return jnp.block([[core, -below.T], [below, jnp.zeros((len(below), len(below)))]])


def start_of(W1: JaxArray, W2: JaxArray, target: JaxArray) -> Start:
    """Steps 1 and 2: spectrum of F and echelon form; λ is read from the weights."""
    (h, d_in), d_out = W1.shape, W2.shape[0]
    m, wide = min(d_in, d_out), h > max(d_in, d_out)
    lam = 0.0 * jnp.sum(W1) if wide else (jnp.sum(W2**2) - jnp.sum(W1**2)) / h  # no λ but 0 leaves room for more units
    modes = modes_of(target)
    U, s, V = modes
    upward = lam >= 0
    half = jnp.where(upward, lam, -lam) / 2
    square = s**2 + half**2
    omega = jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)
    r = omega + half
    rr = jnp.where(r > 0, r, 1.0)
    slope = jnp.where(r > 0, s / rr, 1.0)  # of the weaker part to the stronger
    strong = 1 / jnp.sqrt(1 + slope**2)
    weak = slope * strong
    a, b = jnp.where(upward, weak, strong), jnp.where(upward, strong, weak)
    alone = jnp.full(abs(d_out - d_in), 0.5) * (lam if d_out > d_in else -lam)
    w = jnp.concatenate([omega, alone, -omega[::-1]])
    excess = jnp.concatenate([s * slope * (r > 0), jnp.zeros(len(w) - m)])
    inputs, outputs = V.T @ W1.T, U.T @ W2
    plus, minus = a[:, None] * inputs[:m] + b[:, None] * outputs[:m], b[:, None] * inputs[:m] - a[:, None] * outputs[:m]
    P = jnp.concatenate([plus, inputs[m:], outputs[m:], minus[::-1]])
    k = m if wide else h
    L, pivots, used = _echelon(P, k)
    return Start(modes, a, b, w, excess, L, pivots, used)


def _echelon(P: JaxArray, k: int) -> tuple[JaxArray, JaxArray, JaxArray]:
    """L, the pivot row of each of its k columns, and which columns there are."""
    n, h = P.shape
    columns, least = jnp.arange(k), _NEW**2 * lax.stop_gradient(jnp.sum(P**2))

    def add(state: Any, entry: Any) -> tuple[Any, None]:
        B, count, pivots = state
        row, i = entry
        rest = row
        for _ in range(2):
            rest = rest - (B @ rest) @ B
        square = rest @ rest
        new = (square > least) & (count < k)
        here = (columns == count) & new
        unit = rest / jnp.sqrt(jnp.where(new, square, 1.0))
        return (B + jnp.where(here[:, None], unit, 0.0), count + new, jnp.where(here, i, pivots)), None

    first = (jnp.zeros((k, h)), 0, jnp.zeros(k, dtype=int))
    (B, count, pivots), _ = lax.scan(add, first, (P, jnp.arange(n)))
    used = columns < count
    return jnp.where((jnp.arange(n)[:, None] >= pivots) & used, P @ B.T, 0.0), pivots, used


def _factors(start: Start, t: JaxArray) -> tuple[JaxArray, JaxArray]:
    """Y and A of `evaluation` at one time."""
    w, piv, used, grows = start.w, start.pivots, start.used, start.w > 0
    up, u = jnp.where(grows, w, 0.0), jnp.where(grows, w, -w)
    below = w - up
    up_j = jnp.where(used, up[piv], 0.0)
    both = grows[:, None] & grows[piv]
    apart = jnp.where(both, start.excess[:, None] - start.excess[piv], up[:, None] - up_j)
    lies = (jnp.arange(len(w))[:, None] >= piv) & used
    g = _grown(u, t)
    x = jnp.exp(-2 * up_j * t)
    diagonal = jnp.where(used, start.L[piv, jnp.arange(len(piv))], 1.0)
    scale = (x + g[piv] * diagonal**2) ** -0.5
    scale = jnp.where(used, scale, 1.0)
    E = start.L * jnp.exp(jnp.where(lies, jnp.minimum(apart, 0.0), 0.0) * t) * scale
    A = E.T @ (g[:, None] * E) + jnp.diag(jnp.where(used, x * scale**2, 1.0))
    return jnp.exp(below * t)[:, None] * E, A


def _grown(u: JaxArray, t: JaxArray) -> JaxArray:
    """ĝ = (1 − e^{−2ut})/2u, by its series where ut is small, so that u = 0 has all derivatives."""
    z = 2 * u * t
    small = z < 1e-2
    zz = jnp.where(small, z, 0.0)
    series = 1 - zz / 2 * (1 - zz / 3 * (1 - zz / 4 * (1 - zz / 5 * (1 - zz / 6 * (1 - zz / 7)))))
    return jnp.where(small, t * series, -jnp.expm1(-jnp.where(small, 1.0, z)) / jnp.where(small, 1.0, 2 * u))


def _solved(A: JaxArray, right: JaxArray) -> JaxArray:
    """A⁻¹·right for a positive definite A, by elimination of one column after the other."""
    k, held = len(A), lax.stop_gradient(A)

    def eliminate(j: Any, M: JaxArray) -> JaxArray:
        row = M[j] / M[j, j]
        return (M - jnp.outer(M[:, j], row)).at[j].set(row)

    def solve(_: Any, b: JaxArray) -> JaxArray:
        return lax.fori_loop(0, k, eliminate, jnp.concatenate([held, b], axis=1))[:, k:]

    return lax.custom_linear_solve(lambda x: A @ x, right, solve, symmetric=True)


def _in_modes(start: Start, rows: JaxArray, d_in: int) -> tuple[JaxArray, JaxArray]:
    """Rows of Y along v_α and u_α."""
    m, n = len(start.a), len(rows)
    a, b, plus, minus = start.a[:, None], start.b[:, None], rows[:m], rows[n - m :][::-1]
    inputs, outputs, alone = a * plus + b * minus, b * plus - a * minus, rows[m : n - m]
    return (jnp.concatenate([inputs, alone]), outputs) if d_in > m else (inputs, jnp.concatenate([outputs, alone]))


def _both(start: Start, t: JaxArray) -> tuple[JaxArray, JaxArray, JaxArray]:
    """OY along the modes, inputs and outputs, and A."""
    Y, A = _factors(start, t)
    return *_in_modes(start, Y, len(start.modes.V)), A


def function_at(start: Start, t: JaxArray) -> JaxArray:
    inputs, outputs, A = _both(start, t)
    return (start.modes.U @ outputs) @ _solved(A, (start.modes.V @ inputs).T)


def gram_at(start: Start, t: JaxArray) -> JaxArray:
    inputs, outputs, A = _both(start, t)
    rows = jnp.concatenate([start.modes.V @ inputs, start.modes.U @ outputs])
    G = rows @ _solved(A, rows.T)
    return (G + G.T) / 2


def strengths_at(start: Start, t: JaxArray) -> JaxArray:
    """uᵀWv of each mode."""
    inputs, outputs, A = _both(start, t)
    m = len(start.a)
    return jnp.sum(outputs[:m] * _solved(A, inputs[:m].T).T, axis=1)


@partial(jax.jit, static_argnums=0)  # type: ignore[untyped-decorator]
def over_times(what: str, W1: JaxArray, W2: JaxArray, sigma: JaxArray, c: JaxArray, times: JaxArray) -> JaxArray:
    """One of these at every time; compiled once for arrays of these sizes."""
    at = {"function": function_at, "gram": gram_at, "mode_strengths": strengths_at}[what]
    values = jax.vmap(partial(at, start_of(W1, W2, sigma / c)))(c * times.ravel())
    return values.reshape(times.shape + values.shape[1:])


@jax.jit  # type: ignore[untyped-decorator]
def half_times(W1: JaxArray, W2: JaxArray, sigma: JaxArray, c: JaxArray) -> JaxArray:
    """When each mode is first half way to what it learns; nan where it is not learned, or there already."""
    return _half_times(start_of(W1, W2, sigma / c)) / c


def _half_times(start: Start) -> JaxArray:
    s, m = start.modes.s, len(start.a)
    at, held = jax.vmap(partial(strengths_at, start)), lax.stop_gradient(start)
    at_held = jax.vmap(partial(strengths_at, held))
    learned = jnp.any((held.pivots == jnp.arange(m)[:, None]) & held.used, axis=1) & (held.modes.s > 0)
    first = strengths_at(held, 0.0)
    scale = jnp.maximum(jnp.max(jnp.abs(first)), held.modes.s[0])
    reached = learned & (jnp.abs(held.modes.s - first) > _STILL * scale)
    fastest = jnp.sum(held.L**2) + held.modes.s[0]
    far = 0.01 / fastest * 4.0 ** jnp.arange(_FAR)
    near = 1e-3 * jnp.minimum(held.modes.s, jnp.abs(held.modes.s - first))
    resting = jnp.all((jnp.abs(at_held(far) - held.modes.s) <= near) | ~reached, axis=1)
    last = jnp.where(jnp.any(resting), jnp.argmax(resting), _FAR - 1)
    grid = jnp.concatenate([jnp.zeros(1), jnp.geomspace(far[0], far[jnp.maximum(last, 1)], _GRID)])
    way = jnp.where(reached, held.modes.s - first, 1.0)

    def past(strengths: JaxArray) -> JaxArray:
        return (strengths - first) / way >= 0.5

    after = jnp.argmax(past(at_held(grid)), axis=0)
    reached &= after > 0

    def own(times: JaxArray) -> JaxArray:
        """The strength of each mode at a time of its own."""
        return jnp.diagonal(at(times))

    def halve(_: Any, ends: Any) -> Any:
        low, high = ends
        middle = (low + high) / 2
        there = past(jnp.diagonal(at_held(middle)))
        return jnp.where(there, low, middle), jnp.where(there, middle, high)

    def equation(times: JaxArray) -> JaxArray:
        return jnp.where(reached, own(times) - (strengths_at(start, 0.0) + s) / 2, times)

    ends = (grid[jnp.maximum(after - 1, 0)], grid[after])
    found = lax.fori_loop(0, _HALVINGS, halve, ends)[1]
    times = lax.custom_root(
        equation, jnp.where(reached, found, 0.0), lambda f, guess: guess, lambda g, y: y / g(jnp.ones_like(y))
    )
    return jnp.where(reached, times, jnp.nan)
