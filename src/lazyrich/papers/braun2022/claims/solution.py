"""Section 3: Theorems 3.1 and 3.2, and what is said about using them."""

from collections.abc import Sequence

import numpy as np
from scipy.linalg import null_space, orthogonal_procrustes
from scipy.spatial.transform import Rotation

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import correlations, gradient, layers, relative_error
from lazyrich.papers.base.types import Rng
from lazyrich.papers.braun2022.claims.setting import (
    data_loss,
    gram,
    jacobian_kernel,
    rsm_input,
    rsm_output,
    tangent_kernel,
)
from lazyrich.papers.braun2022.formulas import alignment_matrices, theorem_3_1

NOT_CHECKED: tuple[NotChecked, ...] = (
    NotChecked(
        "Figures 1 and 2",
        "Simulation and theory lie on top of each other in the examples drawn.",
        "Their random draws are not given; the theorems behind the curves are entries of their own.",
    ),
)

SIZES = ((1, 1, 1), (2, 2, 2), (3, 3, 3), (3, 5, 3), (2, 2, 3), (3, 4, 2), (4, 3, 2), (2, 5, 4), (1, 3, 3))


def distance_from_separatrix(weights: Sequence[Array], sigma_yx: Array) -> float:
    """The smallest singular value of B (at most 2)."""
    return float(np.linalg.svd(alignment_matrices(weights[0], weights[1], sigma_yx).B, compute_uv=False)[-1])


def regular(rng: Rng, sizes: Sequence[int], sigma_yx: Array, scale: float, least: float = 0.2) -> list[Array]:
    """A zero-balanced start with B non-singular, and by so much that an integration can tell."""
    while True:
        weights = draws.balanced(rng, sizes, scale)
        if distance_from_separatrix(weights, sigma_yx) > least:
            return weights


def some_target(rng: Rng, d_out: int, d_in: int) -> tuple[Array, Array, Array, Array]:
    """Of full rank; now and then with equal singular values."""
    s = np.full(min(d_out, d_in), rng.uniform(0.8, 2.0)) if rng.random() < 0.3 else None
    return draws.target(rng, d_out, d_in, s)


def rich_end(U: Array, s: Array, V: Array) -> Array:
    """QQᵀ(∞) of Theorem 3.2: ṼS̃Ṽᵀ, ŨS̃Ṽᵀ and ŨS̃Ũᵀ in their places."""
    both = np.concatenate([V, U])
    return both @ np.diag(s) @ both.T


@claim(
    "braun2022/completing-bases",
    place="Section 3, after eq. 10",
    statement="For more inputs than outputs, as printed in the main text, Ũ is completed to a square orthogonal matrix "
    "by Ũ⊥, which has N_o − N_i columns.",
    formula=r"N_i > N_o: \quad \tilde U_\perp \in \mathbb R^{N_o \times (N_o - N_i)}",
    conditions="Σyx of full rank, N_i > N_o.",
    tolerance=0.0,  # a count
)
def completing_bases(rng: Rng) -> float:
    """Columns that are missing, counted by the null space of Ũᵀ."""
    d_out = int(rng.integers(1, 4))
    return _miscounted_columns(rng, d_out, d_out + int(rng.integers(1, 4)))


@completing_bases.corrected(
    "That is the case of more outputs than inputs. (With more inputs, Ũ is square already; Ṽ⊥ is printed rightly.)",
    formula=r"N_o > N_i: \quad \tilde U_\perp \in \mathbb R^{N_o \times (N_o - N_i)}",
)
def completing_bases_of_outputs(rng: Rng) -> float:
    d_in = int(rng.integers(1, 4))
    return _miscounted_columns(rng, d_in + int(rng.integers(1, 4)), d_in)


def _miscounted_columns(rng: Rng, d_out: int, d_in: int) -> float:
    U, *_ = np.linalg.svd(rng.normal(size=(d_out, d_in)), full_matrices=False)
    return float(abs((d_out - d_in) - null_space(U.T).shape[1]))


@completing_bases.counterexample("Two inputs and one output: Ũ = (1) lacks no column, and −1 are printed")
def _() -> tuple[float, float]:
    U, *_ = np.linalg.svd(np.array([[3.0, 4.0]]), full_matrices=False)
    return 1.0 - 2.0, float(null_space(U.T).shape[1])


@claim(
    "braun2022/theorem-3.1",
    place="Section 3, Theorem 3.1, eqs 11 and 12",
    statement="QQᵀ at any time, for any numbers of inputs and outputs, in falling exponentials of the singular values "
    "of the task; B and C tell how the start is turned against it.",
    formula=r"\begin{aligned} QQ^\top(t) = Z \big[& 4 e^{-\tilde S t/\tau} B^{-1} S^{-1} B^{-\top} e^{-\tilde S t/\tau}"
    r" + (I - e^{-2\tilde S t/\tau}) \tilde S^{-1} \\ &- e^{-\tilde S t/\tau} B^{-1} C (e^{-2\tilde S t/\tau} - I)"
    r" \tilde S^{-1} C^\top B^{-\top} e^{-\tilde S t/\tau} \\ &+ 4\tfrac{t}{\tau} e^{-\tilde S t/\tau} B^{-1}"
    r" (V^\top \tilde V_\perp \tilde V_\perp^\top V + U^\top \tilde U_\perp \tilde U_\perp^\top U) B^{-\top}"
    r" e^{-\tilde S t/\tau} \big]^{-1} Z^\top \end{aligned}, \qquad"
    r" Z = \begin{pmatrix} \tilde V (I - e^{-\tilde S t/\tau} C^\top B^{-\top} e^{-\tilde S t/\tau})"
    r" + 2 \tilde V_\perp \tilde V_\perp^\top V B^{-\top} e^{-\tilde S t/\tau} \\"
    r" \tilde U (I + e^{-\tilde S t/\tau} C^\top B^{-\top} e^{-\tilde S t/\tau})"
    r" + 2 \tilde U_\perp \tilde U_\perp^\top U B^{-\top} e^{-\tilde S t/\tau} \end{pmatrix}",
    conditions="White inputs, zero-balanced start, Σyx and W2W1(0) of full rank min(N_i, N_o), B = UᵀŨ + VᵀṼ "
    "non-singular.",
    tolerance=1e-10,  # the theorem and the integration both lose digits near the separatrix
    seeds=8,
)
def theorem_3_1_holds(rng: Rng) -> float:
    d_in, h, d_out = SIZES[rng.integers(len(SIZES))]
    sigma_yx, _, s, _ = some_target(rng, d_out, d_in)
    weights, tau = regular(rng, (d_in, h, d_out), sigma_yx, rng.uniform(0.1, 1.5)), rng.uniform(0.5, 2.0)
    times = np.array([0.0, 0.2, 1.0, 3.0]) * tau / s[-1]
    truth = gram(layers(weights, sigma_yx, times, rates=(1 / tau, 1 / tau)))
    return relative_error(theorem_3_1(weights[0], weights[1], sigma_yx, times / tau), truth)


@claim(
    "braun2022/observables",
    place="Section 3, after Theorem 3.1",
    statement="From QQᵀ alone follow the loss, the function, both similarity matrices and the tangent kernel at every "
    "time of training.",
    formula=r"\mathcal L = \tfrac12 \operatorname{tr}(W^\top W) - \operatorname{tr}(W^\top \Sigma_{yx}) + \tfrac12"
    r" \langle \|y\|^2 \rangle, \quad \mathrm{RSM}_I,\ \mathrm{RSM}_O,\ \mathrm{NTK}\ \text{by eqs 8, 9 from eq. 11}",
    conditions="As for Theorem 3.1.",
    tolerance=1e-10,  # RSM_O inverts W2W2ᵀ
    seeds=6,
)
def observables(rng: Rng) -> float:
    """Against the integrated weights: the loss sample by sample, hidden states of every sample, all derivatives."""
    d_in, h, d_out = SIZES[rng.integers(len(SIZES))]
    X, Y = draws.white_data(rng, 5, d_in, d_out)
    sigma_yx, _ = correlations(X, Y)
    weights, times = regular(rng, (d_in, h, d_out), sigma_yx, 0.8), rng.uniform(0.2, 1.5, size=1)
    G = theorem_3_1(weights[0], weights[1], sigma_yx, times)[0]
    gram_in, gram_out, W = G[:d_in, :d_in], G[d_in:, d_in:], G[d_in:, :d_in]
    W1, W2 = (layer[0] for layer in layers(weights, sigma_yx, times))
    loss = np.sum(W * W) / 2 - np.sum(W * sigma_yx) + np.sum(Y * Y) / (2 * len(Y))
    states, targets = W1 @ X.T, np.linalg.lstsq(W2, Y.T, rcond=1e-7)[0]
    return max(
        relative_error(loss, data_loss(X, Y)([W1, W2])),
        relative_error(W @ X.T, np.stack([W2 @ (W1 @ x) for x in X], axis=1)),
        relative_error(rsm_input(gram_in, X.T), states.T @ states),
        relative_error(rsm_output(gram_out, Y.T), targets.T @ targets),
        relative_error(tangent_kernel(gram_in, gram_out, X.T), jacobian_kernel([W1, W2], X.T)),
    )


@claim(
    "braun2022/numerically-stable",
    place="Section 3, after Theorem 3.1; Section 1.2",
    statement="Since eq. 11 contains falling exponentials only, it is numerically stable and of high precision. "
    "Measured here: the relative error of QQᵀ by eq. 11 in double precision against the integrated flow, up to "
    "s1·t = 3, of three modes from starts at an angle of 10⁻⁶ to 1 from the separatrix.",
    formula=r"QQ^\top_{\text{eq. 11, doubles}}(t) = QQ^\top(t)\,(1 + O(\text{rounding})) \quad \text{for all}\ t",
    conditions="As for Theorem 3.1.",
    tolerance=1e-10,  # a million roundings
)
def numerically_stable(rng: Rng) -> float:
    return _error_at_angle(rng, 10 ** rng.uniform(-6, 0))


@numerically_stable.stronger(
    "B well conditioned. Towards the separatrix digits are lost with the square of its condition number, because eq. "
    "11 recovers what is small from differences of what is large; late times do no harm."
)
def numerically_stable_far_from_the_separatrix(rng: Rng) -> float:
    return _error_at_angle(rng, rng.uniform(0.3, 2.0))


def _error_at_angle(rng: Rng, epsilon: float) -> float:
    """A start turned against its target by π − ε about a random axis. The times are short enough for the integration
    to be sure, whatever ε is: this close to the separatrix, the flow does not yet feel on which side it is."""
    sigma_yx, U, s, V = draws.target(rng, 3, 3)
    axis = draws.orthogonal(rng, 3)[0]
    start = Rotation.from_rotvec(axis * (np.pi - epsilon)).as_matrix() @ U @ V.T
    V0, R, a = draws.orthogonal(rng, 3), draws.orthogonal(rng, 3), rng.uniform(0.5, 2.0, size=3)
    weights, times = [R * np.sqrt(a) @ V0.T, start @ V0 * np.sqrt(a) @ R.T], np.array([0.0, 0.3, 1.0, 3.0]) / s[0]
    return relative_error(theorem_3_1(weights[0], weights[1], sigma_yx, times), gram(layers(weights, sigma_yx, times)))


@numerically_stable.counterexample(
    "W1 = I, W2 a turn by π − 10⁻⁶ about the axis (1, 2, 2), target I: the entry of QQᵀ that is off most, between t = "
    "0 and 2"
)
def _() -> tuple[float, float]:
    W1, target, times = np.eye(3), np.eye(3), np.array([0.0, 0.5, 1.0, 2.0])
    W2 = Rotation.from_rotvec(np.array([1, 2, 2]) / 3 * (np.pi - 1e-6)).as_matrix()
    found, truth = theorem_3_1(W1, W2, target, times).ravel(), gram(layers([W1, W2], target, times)).ravel()
    worst = np.argmax(np.abs(found - truth))
    return float(found[worst]), float(truth[worst])


@claim(
    "braun2022/weights",
    place="Section 3, after Theorem 3.1",
    statement="The weights themselves are known from there up to an orthogonal transformation of the hidden units, "
    "which changes with time.",
    formula=r"Q(t) = \hat Q(t) R(t), \qquad \hat Q \hat Q^\top = QQ^\top\ \text{of eq. 11}, \qquad R R^\top = I",
    conditions="As for Theorem 3.1.",
    tolerance=1e-10,
    seeds=6,
)
def weights_up_to_rotation(rng: Rng) -> float:
    """A root of eq. 11 against the integrated weights, after the best rotation of the hidden units."""
    d_in, h, d_out = 2, 3, 3
    sigma_yx, _, s, _ = some_target(rng, d_out, d_in)
    weights, times = regular(rng, (d_in, h, d_out), sigma_yx, 0.7), np.array([0.5, 2.0]) / s[0]
    errors = []
    for G, W1, W2 in zip(
        theorem_3_1(weights[0], weights[1], sigma_yx, times), *layers(weights, sigma_yx, times), strict=True
    ):
        values, vectors = np.linalg.eigh(G)
        root = np.pad(vectors[:, -d_in:] * np.sqrt(values[-d_in:]), ((0, 0), (0, h - d_in)))
        Q = np.concatenate([W1.T, W2])
        errors.append(relative_error(root @ orthogonal_procrustes(root, Q)[0], Q))
    return max(errors)


@claim(
    "braun2022/steady-state",
    place="Section 3, after Theorem 3.1",
    statement="Every term that depends on time falls exponentially, so the network approaches a steady state. (With "
    "unequal numbers of inputs and outputs one of them is t·e^{−2S̃t}, which falls too.)",
    formula=r"\lim_{t\to\infty} \frac{d}{dt} QQ^\top(t) = 0",
    conditions="As for Theorem 3.1.",
    tolerance=1e-10,
    seeds=5,
)
def steady_state(rng: Rng) -> float:
    """The largest slope of the loss itself where the integrated flow has come to, relative to that at its start."""
    d_in, h, d_out = SIZES[rng.integers(len(SIZES))]
    sigma_yx, _, s, _ = some_target(rng, d_out, d_in)
    X, _ = draws.white_data(rng, 6, d_in, d_out)
    loss = data_loss(X, X @ sigma_yx.T)
    weights = regular(rng, (d_in, h, d_out), sigma_yx, 0.7)
    late = [layer[0] for layer in layers(weights, sigma_yx, [35 / s[-1]])]
    start, end = (max(np.abs(slope).max() for slope in gradient(loss, at)) for at in (weights, late))
    return float(end / start)


@claim(
    "braun2022/theorem-3.2",
    place="Section 3, Theorem 3.2",
    statement="The network learns the task, and ends with representations that are the task's own: both layers share "
    "its singular values evenly.",
    formula=r"W_2 W_1 \to \tilde U \tilde S \tilde V^\top, \qquad W_1^\top W_1 \to \tilde V \tilde S \tilde V^\top,"
    r" \qquad W_2 W_2^\top \to \tilde U \tilde S \tilde U^\top",
    conditions="Those of Theorem 3.1, B non-singular among them.",
    tolerance=1e-10,
)
def theorem_3_2(rng: Rng) -> float:
    d_in, h, d_out = SIZES[rng.integers(len(SIZES))]
    sigma_yx, U, s, V = some_target(rng, d_out, d_in)
    weights = regular(rng, (d_in, h, d_out), sigma_yx, rng.uniform(0.2, 2.0))
    return relative_error(rich_end(U, s, V), gram(layers(weights, sigma_yx, [35 / s[-1]]))[0])


@claim(
    "braun2022/learning-rate",
    place="Section 3, Figure 2C",
    statement="The deviation of gradient descent from the theory falls with the learning rate; the loss curves differ "
    "in proportion to it.",
    formula=r"\left\langle (\hat{\mathcal L} - \mathcal L_\eta)^2 \right\rangle^{1/2} = k\,\eta + O(\eta^2)",
    conditions="As for Theorem 3.1; time is learning rate × steps.",
    tolerance=1e-7,  # of the ratio 2 for rates η, η/2, after three extrapolations from η = 0.02
    seeds=8,
)
def learning_rate(rng: Rng) -> float:
    """The deviation at rates halved four times; its ratio from one to the next, extrapolated to η → 0, must be 2."""
    d_in, h, d_out = SIZES[rng.integers(1, len(SIZES))]
    sigma_yx, *_ = draws.target(rng, d_out, d_in, rng.uniform(0.8, 1.2, size=min(d_in, d_out)))
    weights = regular(rng, (d_in, h, d_out), sigma_yx, 0.5)
    times = np.array([0.4, 0.8, 1.2])
    W = theorem_3_1(weights[0], weights[1], sigma_yx, times)[:, d_in:, :d_in]
    theory = np.sum((W - sigma_yx) ** 2, axis=(1, 2)) / 2
    deviation = [
        np.sqrt(np.mean((descended(weights, sigma_yx, eta, times) - theory) ** 2)) for eta in 0.02 / 2.0 ** np.arange(5)
    ]
    ratios = np.array(deviation[:-1]) / deviation[1:]
    for order in (1, 2, 3):  # the remainder of each row is of the next order in η
        ratios = (2**order * ratios[1:] - ratios[:-1]) / (2**order - 1)
    return relative_error(2.0, ratios[-1])


def descended(weights: Sequence[Array], sigma_yx: Array, eta: float, times: Array) -> Array:
    """The loss (without its constant) along gradient descent, at times η × steps."""
    W1, W2 = weights
    steps, losses = np.rint(np.asarray(times) / eta).astype(int), []
    for step in range(steps[-1] + 1):
        error = sigma_yx - W2 @ W1
        if step in steps:
            losses.append(np.sum(error * error) / 2)
        W1, W2 = W1 + eta * W2.T @ error, W2 + eta * error @ W1.T
    return np.array(losses)
