"""Section 2: the data, Fukumizu's solution and its conditions, and what can be read off QQᵀ."""

from collections.abc import Sequence

import numpy as np

from lazyrich import InvalidInput
from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import correlations, gradient, layers, relative_error
from lazyrich.papers.base.types import Loss, Rng
from lazyrich.papers.braun2022.formulas import fukumizu

NOT_CHECKED: tuple[NotChecked, ...] = (
    NotChecked(
        "Section 1",
        "What we know already shapes how we learn, in people and in machines; a survey of earlier work.",
        "History and motivation: nothing that a computation could settle.",
    ),
    NotChecked(
        "Section 2, implementation and simulation",
        "All simulations and plots take less than six hours on one AMD Ryzen 5950x.",
        "It speaks of the authors' program on one processor, and both would be needed.",
    ),
)


def gram(weights: Sequence[Array]) -> Array:
    """QQᵀ of Q = [W1ᵀ; W2], also of stacks (T, …)."""
    W1, W2 = weights
    Q = np.concatenate([np.swapaxes(W1, -1, -2), W2], axis=-2)
    return Q @ np.swapaxes(Q, -1, -2)


def data_loss(X: Array, Y: Array) -> Loss:
    """Eq. 2, ½⟨‖ŷ − y‖²⟩, as a function of [W1, W2]; the rows of X and Y are samples."""
    return lambda weights: np.sum((X @ weights[0].T @ weights[1].T - Y) ** 2) / (2 * len(X))


def matrix_F(sigma_yx: Array) -> Array:
    """F of eq. 4."""
    d_out, d_in = np.shape(sigma_yx)
    return np.block([[np.zeros((d_in, d_in)), sigma_yx.T], [sigma_yx, np.zeros((d_out, d_out))]])


@claim(
    "braun2022/non-convex",
    place="Section 1, introduction",
    statement="The loss of a deep linear network is not convex in the weights: between two of its points it can lie "
    "above the chord.",
    formula=r"\mathcal L\left(\tfrac12(\theta + \theta')\right) > "
    r"\tfrac12 \mathcal L(\theta) + \tfrac12 \mathcal L(\theta')\ \text{for some}\ \theta, \theta'",
    conditions="Two layers; a task with Σyx ≠ 0.",
    tolerance=0.0,  # an inequality: minus the height above the chord
)
def non_convex(rng: Rng) -> float:
    """θ and −θ compute the same function; halfway between them is the network that computes nothing."""
    d_in, d_out, h = rng.integers(1, 4, size=3)
    X, Y = draws.white_data(rng, 5, int(d_in), int(d_out))
    loss, (u, s, vt) = data_loss(X, Y), np.linalg.svd(correlations(X, Y)[0])
    W1, W2 = np.zeros((h, d_in)), np.zeros((d_out, h))
    W1[0], W2[:, 0] = np.sqrt(s[0]) * vt[0], np.sqrt(s[0]) * u[:, 0]
    chord = (loss([W1, W2]) + loss([-W1, -W2])) / 2
    return float((chord - loss([0 * W1, 0 * W2])) / s[0] ** 2)


@claim(
    "braun2022/riccati",
    place="Section 2, eqs 2, 3 and 4",
    statement="Gradient flow on the mean squared error is a matrix Riccati equation for QQᵀ, with Q = [W1ᵀ; W2], in "
    "which the data appear through Σyx alone.",
    formula=r"\tau\,\frac{d}{dt} QQ^\top = F\,QQ^\top + QQ^\top F - (QQ^\top)^2, \qquad "
    r"F = \begin{pmatrix} 0 & \Sigma_{yx}^\top \\ \Sigma_{yx} & 0 \end{pmatrix}",
    conditions="White inputs; weights zero-balanced at the time.",
    tolerance=1e-13,
    seeds=4,
)
def riccati(rng: Rng) -> float:
    """Against the derivative of the loss itself, on samples; any sizes and ranks, bottlenecks too."""
    d_in, h, d_out = (int(n) for n in rng.integers(1, 5, size=3))
    X, Y = draws.white_data(rng, 7, d_in, d_out)
    weights = draws.balanced(rng, (d_in, h, d_out), rng.uniform(0.3, 2.0))
    dW1, dW2 = (-slope for slope in gradient(data_loss(X, Y), weights))
    Q, dQ = (np.concatenate([W1.T, W2]) for W1, W2 in (weights, (dW1, dW2)))
    G, F = gram(weights), matrix_F(correlations(X, Y)[0])
    return relative_error(F @ G + G @ F - G @ G, dQ @ Q.T + Q @ dQ.T)


@claim(
    "braun2022/equation-5",
    place="Section 2, eq. 5",
    statement="Fukumizu's solution: QQᵀ at any time, from the start Q(0) and the task.",
    formula=r"QQ^\top(t) = e^{F t/\tau} Q_0 \left[I + \tfrac12 Q_0^\top \left(e^{F t/\tau} F^{-1} e^{F t/\tau} - F^{-1}"
    r"\right) Q_0\right]^{-1} Q_0^\top e^{F t/\tau}",
    conditions="Assumptions 2.1 to 2.4: as many outputs as inputs, white inputs, zero-balanced start, Σyx and W2W1(0) "
    "of full rank.",
    tolerance=1e-10,  # eq. 5 itself loses digits with time, see braun2022/equation-5-unstable
)
def equation_5(rng: Rng) -> float:
    """On both sides of the separatrix: det W2W1(0) takes either sign. Equal singular values now and then."""
    n = int(rng.integers(1, 4))
    s = np.full(n, 1.3) if rng.random() < 0.3 else None
    sigma_yx, *_, tau = *draws.target(rng, n, n, s), rng.uniform(0.5, 2.0)
    weights = draws.balanced(rng, (n, n + int(rng.integers(0, 3)), n), rng.uniform(0.1, 1.5))
    times = np.array([0.0, 0.3, 1.0, 2.0, 4.0]) * tau / np.linalg.norm(sigma_yx, 2)
    truth = gram(layers(weights, sigma_yx, times, rates=(1 / tau, 1 / tau)))
    return relative_error(fukumizu(weights[0], weights[1], sigma_yx, times / tau), truth)


@claim(
    "braun2022/equation-5-unstable",
    place="Section 2, limitations of eq. 5",
    statement="Evaluated as it stands, eq. 5 is often unstable: its bracket grows exponentially, in some directions "
    "more than in others, while the answer does not grow. Measured here: by the time at which the strongest mode has "
    "ŝt = 30, more than half of the digits of a double are gone.",
    formula=r"\|QQ^\top_{\text{eq. 5, doubles}}(t) - QQ^\top(t)\| > 10^{-8}\,\|QQ^\top(t)\|, \qquad \hat s\,t = 30\tau",
    conditions="As for eq. 5; weights of order one; the other modes less than a third of the strongest.",
    tolerance=0.0,  # an inequality: 8 minus the digits lost
)
def equation_5_unstable(rng: Rng) -> float:
    s = np.array([3.0, rng.uniform(0.7, 0.9), rng.uniform(0.5, 0.7)])
    sigma_yx, *_ = draws.target(rng, 3, 3, s)
    weights = draws.balanced(rng, (3, 4, 3), 1.0)
    W1, W2 = weights
    early, late = times = np.array([1.0, 30.0]) / s[0]
    truth = gram(layers(weights, sigma_yx, times))
    # the same formula is right at first: else it would be wrong, and not unstable
    sound = float(10 + np.log10(relative_error(fukumizu(W1, W2, sigma_yx, [early])[0], truth[0]) + 1e-16))
    try:
        error = relative_error(fukumizu(W1, W2, sigma_yx, [late])[0], truth[1])
    except InvalidInput:  # rounding has made the bracket singular: no digit is left
        return max(sound, -8.0)
    return max(sound, float(-8 - np.log10(error)))


@claim(
    "braun2022/equation-5-square",
    place="Section 2, limitations of eq. 5",
    statement="Eq. 5 needs as many outputs as inputs: otherwise F has no inverse, whatever the task.",
    formula=r"\operatorname{rank} F = 2 \operatorname{rank} \Sigma_{yx} \le 2\min(N_i, N_o), \qquad "
    r"F^{-1}\ \text{exists only if}\ N_i = N_o",
    conditions="Any task.",
    tolerance=0.0,  # a count
    seeds=7,
)
def equation_5_square(rng: Rng) -> float:
    """Ranks counted from the singular values of F; tasks of full rank and of rank one."""
    d_in, d_out = rng.integers(1, 6, size=2)
    task = rng.normal(size=(d_out, d_in)) if rng.random() < 0.7 else np.outer(rng.normal(size=d_out), np.ones(d_in))
    F, full = matrix_F(task), d_in == d_out == np.linalg.matrix_rank(task)
    found = np.linalg.matrix_rank(F)
    return float(abs(found - 2 * np.linalg.matrix_rank(task)) + ((found == d_in + d_out) != full))


@claim(
    "braun2022/balance-persists",
    place="Section 2, assumption 2.3",
    statement="Weights that are zero-balanced at the start stay so throughout training.",
    formula=r"W_1 W_1^\top(0) = W_2^\top W_2(0) \ \Rightarrow\ W_1 W_1^\top(t) = W_2^\top W_2(t)",
    conditions="Gradient flow (steps of finite size keep it to the order of the rate); inputs need not be white.",
    tolerance=1e-11,
)
def balance_persists(rng: Rng) -> float:
    d_in, h, d_out = (int(n) for n in rng.integers(1, 5, size=3))
    X = rng.normal(size=(6, d_in)) * rng.uniform(0.5, 1.5, size=d_in)
    sigma_yx, sigma_xx = correlations(X, rng.normal(size=(6, d_out)))
    weights = draws.balanced(rng, (d_in, h, d_out), rng.uniform(0.1, 1.5))
    W1, W2 = layers(weights, sigma_yx, [0.5, 2.0], sigma_xx)
    return relative_error(W1 @ np.swapaxes(W1, 1, 2), np.swapaxes(W2, 1, 2) @ W2)


@claim(
    "braun2022/full-rank-no-bottleneck",
    place="Section 2, assumption 2.4",
    statement="A start of full rank implies that the hidden layer is no bottleneck: with fewer units than inputs and "
    "outputs, some singular value of W2W1 is zero, whatever the weights.",
    formula=r"\operatorname{rank}(W_2 W_1) = \min(N_i, N_o) \ \Rightarrow\ N_h \ge \min(N_i, N_o)",
    conditions="Any weights.",
    tolerance=1e-12,
)
def full_rank_no_bottleneck(rng: Rng) -> float:
    """The converse: the smallest singular value behind a bottleneck, relative to the largest."""
    d_in, d_out = rng.integers(2, 6, size=2)
    h = int(rng.integers(1, min(d_in, d_out)))
    s = np.linalg.svd(rng.normal(size=(d_out, h)) @ rng.normal(size=(h, d_in)), compute_uv=False)
    return float(s[-1] / s[0])


@claim(
    "braun2022/equations-6-7",
    place="Section 2, eqs 6 and 7",
    statement="The blocks of QQᵀ hold the function of the network, W2W1, which applied to the inputs gives its "
    "predictions, and the correlations of the weights of either layer.",
    formula=r"QQ^\top = \begin{pmatrix} W_1^\top W_1 & W_1^\top W_2^\top \\ W_2 W_1 & W_2 W_2^\top \end{pmatrix}, "
    r"\qquad \hat Y = W_2 W_1 X",
    conditions="Any weights and inputs.",
    tolerance=1e-13,
)
def equations_6_7(rng: Rng) -> float:
    """Against the network run forward: one sample at a time, and one unit vector at a time."""
    d_in, h, d_out = (int(n) for n in rng.integers(1, 5, size=3))
    W1, W2 = draws.gaussian(rng, (d_in, h, d_out))
    G, X = gram([W1, W2]), rng.normal(size=(d_in, 5))
    predictions = np.stack([W2 @ (W1 @ x) for x in X.T], axis=1)
    within = [[W1[:, i] @ W1[:, j] for j in range(d_in)] for i in range(d_in)]
    without = [[W2[i] @ W2[j] for j in range(d_out)] for i in range(d_out)]
    return max(
        relative_error(G[d_in:, :d_in] @ X, predictions),
        relative_error(G[:d_in, d_in:].T @ X, predictions),
        relative_error(G[:d_in, :d_in], within),
        relative_error(G[d_in:, d_in:], without),
    )


def rsm_input(gram_in: Array, X: Array) -> Array:
    """RSM_I of eq. 8 from W1ᵀW1; here the columns of X are samples, as in the source."""
    return X.T @ gram_in @ X


def rsm_output(gram_out: Array, Y: Array) -> Array:
    """RSM_O of eq. 8 from W2W2ᵀ."""
    return Y.T @ np.linalg.pinv(gram_out, rcond=1e-10, hermitian=True) @ Y


def tangent_kernel(gram_in: Array, gram_out: Array, X: Array) -> Array:
    """Eq. 9, output by output, and within each sample by sample."""
    return np.kron(np.eye(len(gram_out)), X.T @ gram_in @ X) + np.kron(gram_out, X.T @ X)


def jacobian_kernel(weights: Sequence[Array], X: Array) -> Array:
    """The tangent kernel by brute force: derivatives of every output for every sample, by every weight."""

    def output(o: int, x: Array) -> list[Array]:
        return gradient(lambda layer: (layer[1] @ (layer[0] @ x))[o], weights)

    rows = [output(o, x) for o in range(len(weights[1])) for x in X.T]
    J = np.array([np.concatenate([part.ravel() for part in row]) for row in rows])
    return J @ J.T


@claim(
    "braun2022/rsm-input",
    place="Section 2, eq. 8",
    statement="The similarity of the hidden representations of two inputs, φ(x)ᵀφ(x′), is read off W1ᵀW1.",
    formula=r"\mathrm{RSM}_I = X^\top W_1^\top W_1 X",
    conditions="Any weights and inputs; columns of X are samples.",
    tolerance=1e-12,
)
def rsm_of_inputs(rng: Rng) -> float:
    d_in, h, d_out = (int(n) for n in rng.integers(1, 5, size=3))
    weights, X = draws.gaussian(rng, (d_in, h, d_out)), rng.normal(size=(d_in, 4))
    hidden = [weights[0] @ x for x in X.T]
    return relative_error(rsm_input(gram(weights)[:d_in, :d_in], X), [[a @ b for b in hidden] for a in hidden])


@claim(
    "braun2022/rsm-output",
    place="Section 2, eq. 8",
    statement="Seen from the outputs, the similarity of hidden representations is read off W2W2ᵀ: of all hidden states "
    "that give a target as well as can be, the representation is the smallest.",
    formula=r"\mathrm{RSM}_O = Y^\top (W_2 W_2^\top)^+ Y",
    conditions="Any weights and targets, W2 of any rank; columns of Y are samples.",
    tolerance=1e-9,  # the pseudoinverse of W2W2ᵀ squares the condition number of W2
    seeds=4,
)
def rsm_of_outputs(rng: Rng) -> float:
    """Against the hidden states of least norm, found by least squares for every target."""
    d_in, h, d_out = (int(n) for n in rng.integers(1, 5, size=3))
    rank = int(rng.integers(1, min(h, d_out) + 1))
    W2 = draws.orthogonal(rng, d_out, rank) * rng.uniform(0.3, 2.0, size=rank) @ draws.orthogonal(rng, h, rank).T
    Y = rng.normal(size=(d_out, 4))
    hidden = [np.linalg.lstsq(W2, y, rcond=1e-10)[0] for y in Y.T]
    G = gram([np.zeros((h, d_in)), W2])
    return relative_error(rsm_output(G[d_in:, d_in:], Y), [[a @ b for b in hidden] for a in hidden])


@claim(
    "braun2022/equation-9",
    place="Section 2, eq. 9",
    statement="The neural tangent kernel at finite width follows from the two diagonal blocks of QQᵀ.",
    formula=r"\mathrm{NTK} = I_{N_o} \otimes X^\top W_1^\top W_1 X + W_2 W_2^\top \otimes X^\top X",
    conditions="Any weights and inputs; entries ordered by output, then by sample.",
    tolerance=1e-12,
)
def equation_9(rng: Rng) -> float:
    d_in, h, d_out = (int(n) for n in rng.integers(1, 4, size=3))
    weights, X = draws.gaussian(rng, (d_in, h, d_out), 1.0), rng.normal(size=(d_in, 3))
    G = gram(weights)
    return relative_error(tangent_kernel(G[:d_in, :d_in], G[d_in:, d_in:], X), jacobian_kernel(weights, X))
