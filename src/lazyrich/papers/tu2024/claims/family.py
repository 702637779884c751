"""Two linear layers whose D = W2ᵀW2 − W1W1ᵀ has two eigenvalues. The statements are ours, after Tu et al. 2024."""

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.oracles import flow_of, integrate, layers, product, relative_error
from lazyrich.papers.base.types import Rng
from lazyrich.papers.tu2024 import formulas

_TIMES = (0.2, 0.7, 2.0)


def drawn(rng: Rng, share: float | None = None) -> tuple[list[Array], Array, float, float]:
    """Layers of the family, a target, c and δ; `share` is δ/2c where it is given."""
    d_in, d_out = (int(d) for d in rng.integers(1, 5, size=2))
    c = float(10 ** rng.uniform(-1, 0.5))
    delta = 2 * c * float(rng.uniform(-0.9, 0.9) if share is None else share)
    h = d_in + d_out + int(rng.integers(0, 3))
    frame = np.linalg.qr(rng.normal(size=(h, h)))[0][:, : d_in + d_out]
    weights = formulas.network(rng.normal(size=(d_out, d_in)) / np.sqrt(d_in), c, delta, frame)
    return list(weights), rng.normal(size=(d_out, d_in)) / np.sqrt(d_in), c, delta


def grams(W1: Array, W2: Array) -> tuple[Array, Array]:
    """P and R of a stack of layers."""
    return np.swapaxes(W1, 1, 2) @ W1, W2 @ np.swapaxes(W2, 1, 2)


@claim(
    "tu2024/invariance",
    place="ours: theory, section 11",
    statement="Layers whose two Gram matrices are the functions √(AᵀA + c²) + δ/2 and √(AAᵀ + c²) − δ/2 of the network "
    "function A have them for ever, with the same c and δ.",
    formula=r"(W_1^\top W_1 - \tfrac\delta2)^2 = A^\top A + c^2, \qquad "
    r"(W_2W_2^\top + \tfrac\delta2)^2 = AA^\top + c^2",
    conditions="Two linear layers, white inputs, |δ| ≤ 2c, unit rates; it holds at t = 0.",
    tolerance=1e-10,
)
def invariance(rng: Rng) -> float:
    weights, sigma_yx, c, delta = drawn(rng)
    W1, W2 = layers(weights, sigma_yx, _TIMES)
    truth, A = grams(W1, W2), product([W1, W2])
    printed = [formulas.blocks(now, c, delta) for now in A]
    return max(relative_error([now[i] for now in printed], truth[i]) for i in (0, 1))


@claim(
    "tu2024/partner",
    place="ours: theory, section 11",
    statement="The function of such a network learns exactly as that of the λ-balanced network with λ = 2c and the "
    "same function at t = 0, and the Gram matrices are shifted by a constant.",
    formula=r"A(t) = A_\lambda(t), \qquad P = P_\lambda + (c + \tfrac\delta2), \qquad "
    r"R = R_\lambda - (c + \tfrac\delta2), \qquad \lambda = 2c",
    conditions="Two linear layers, white inputs, |δ| ≤ 2c, unit rates.",
    tolerance=1e-10,
)
def partner(rng: Rng) -> float:
    weights, sigma_yx, c, delta = drawn(rng)
    W1, W2 = layers(weights, sigma_yx, _TIMES)
    balanced = formulas.network(product(weights), c, -2 * c, np.eye(sum(sigma_yx.shape)))  # D = 2c on d_out directions
    V1, V2 = layers(list(balanced), sigma_yx, _TIMES)
    (P, R), (P_lam, R_lam), shift = grams(W1, W2), grams(V1, V2), c + delta / 2
    return max(
        relative_error(product([V1, V2]), product([W1, W2])),
        relative_error(P_lam + shift * np.eye(P.shape[1]), P),
        relative_error(R_lam - shift * np.eye(R.shape[1]), R),
    )


@claim(
    "tu2024/boundary",
    place="ours: theory, section 11",
    statement="At |δ| = 2c the network is λ-balanced on the hidden directions that it uses: D = −δ there.",
    formula=r"|\delta| = 2c \implies W_2^\top W_2 - W_1W_1^\top = -\delta\,\Pi, \qquad \Pi = Q^+Q,\quad "
    r"Q = \begin{pmatrix}W_1^\top\\ W_2\end{pmatrix}",
    conditions="Two linear layers of the family.",
    tolerance=1e-10,
    seeds=6,
)
def boundary(rng: Rng) -> float:
    (W1, W2), _, _, delta = drawn(rng, share=float(rng.choice([-1.0, 1.0])))
    Q = np.concatenate([W1.T, W2])
    return relative_error(-delta * np.linalg.pinv(Q, rcond=1e-8) @ Q, W2.T @ W2 - W1 @ W1.T)


@claim(
    "tu2024/delta-is-free",
    place="ours: theory, section 11",
    statement="Function and tangent kernel know c and the function at t = 0; δ only says which layer carries the "
    "features.",
    formula=r"\dot A = \sqrt{AA^\top + c^2}\,E + E\sqrt{A^\top A + c^2}, \qquad "
    r"K(x, x') = x^\top x'\,W_2W_2^\top + x^\top W_1^\top W_1x'\, I",
    conditions="Two linear layers of the family, white inputs, two values of δ, one frame.",
    tolerance=1e-10,
)
def delta_is_free(rng: Rng) -> float:
    weights, sigma_yx, c, _ = drawn(rng)
    d_out, d_in = sigma_yx.shape
    other = formulas.network(product(weights), c, 2 * c * float(rng.uniform(-0.9, 0.9)), np.eye(d_in + d_out))
    kernels, functions = [], []
    for start in (weights, list(other)):
        W1, W2 = layers(start, sigma_yx, _TIMES)
        P, R = grams(W1, W2)
        functions.append(product([W1, W2]))
        # the kernel of all inputs e_i and outputs: what multiplies the error in Ȧ
        kernels.append([np.kron(np.eye(d_in), r) + np.kron(p, np.eye(d_out)) for p, r in zip(P, R, strict=True)])
    return max(relative_error(*functions), relative_error(*kernels))


@claim(
    "tu2024/any-loss",
    place="ours: theory, section 11",
    statement="For any loss and any inputs the function of such a network follows an equation of its own.",
    formula=r"\dot A = \sqrt{AA^\top + c^2}\,E + E\sqrt{A^\top A + c^2}, \qquad E = -\partial L/\partial A",
    conditions="Two linear layers of the family; tried with a quartic loss on correlated inputs.",
    tolerance=1e-8,
)
def any_loss(rng: Rng) -> float:
    weights, sigma_yx, c, _ = drawn(rng)
    X = rng.normal(size=(12, sigma_yx.shape[1])) @ np.diag(rng.uniform(0.3, 1.5, size=sigma_yx.shape[1]))
    Y = X @ sigma_yx.T

    def residuals(A: Array) -> Array:
        return X @ A.T - Y

    def loss(W: list[Array]) -> float:
        r = residuals(W[1] @ W[0])
        return (np.sum(r**2) / 2 + np.sum(r**4) / 4) / len(X)

    def of_function(A: Array) -> Array:
        r = residuals(A)
        return formulas.velocity(A, -(r + r**3).T @ X / len(X), c)

    times = [0.1, 0.4, 1.0]
    return relative_error(integrate(of_function, product(weights), times), product(flow_of(loss, weights, times)))


@claim(
    "tu2024/sequences",
    place="ours: theory, section 11",
    statement="c and δ survive a change of task: after any task, stopped at any time, the network is of the family "
    "with the same two numbers.",
    formula=r"D(t) = D(0) \implies c,\ \delta\ \text{constant over tasks}",
    conditions="Two linear layers of the family, white inputs, three tasks.",
    tolerance=1e-10,
    seeds=6,
)
def sequences(rng: Rng) -> float:
    weights, sigma_yx, c, delta = drawn(rng)
    errors = []
    for _ in range(3):
        weights = [W[0] for W in layers(weights, sigma_yx, [float(rng.uniform(0.2, 2.0))])]
        printed = formulas.blocks(product(weights), c, delta)
        truth = weights[0].T @ weights[0], weights[1] @ weights[1].T
        errors += [relative_error(*pair) for pair in zip(printed, truth, strict=True)]
        sigma_yx = rng.normal(size=sigma_yx.shape) / np.sqrt(sigma_yx.shape[1])
    return max(errors)
