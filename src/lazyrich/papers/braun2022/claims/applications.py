"""Section 6, one task after another: continual learning and what it forgets. Reversal is in its own topic."""

from collections.abc import Callable, Sequence

import numpy as np

from lazyrich import InvalidInput
from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import correlations, gradient, layers, product, relative_error
from lazyrich.papers.base.types import Rng, Values
from lazyrich.papers.braun2022.claims.setting import data_loss, gram
from lazyrich.papers.braun2022.claims.slips import SINGULAR_B
from lazyrich.papers.braun2022.claims.solution import distance_from_separatrix, regular
from lazyrich.papers.braun2022.formulas import theorem_3_1

NOT_CHECKED: tuple[NotChecked, ...] = (
    NotChecked(
        "Section 6, Figures 5B, 5D and 5E",
        "Networks with tanh or ReLU typically forget more than linear ones, and forgetting computed before training "
        "does not predict what they do.",
        "Averages over experiments whose settings the text does not give, and 'typically' leaves room for any draw.",
    ),
    NotChecked(
        "Section 6",
        "The solutions provide a tool to study the mechanisms of catastrophic forgetting, and counter measures to it.",
        "An outlook, which later work has to bear out.",
    ),
)

UNEQUAL = ((2, 3, 3), (3, 3, 2), (2, 2, 3), (1, 2, 2))
SQUARE = ((1, 1, 1), (2, 2, 2), (2, 3, 2))


@claim(
    "braun2022/any-balanced-start",
    place="Section 6, continual learning",
    statement="From any zero-balanced start the network reaches the global optimum, so that what it knew before is "
    "overwritten completely.",
    formula=r"W_1 W_1^\top(0) = W_2^\top W_2(0) \ \Rightarrow\ W_2 W_1(t) \to \tilde U \tilde S \tilde V^\top",
    conditions="White inputs; Σyx and W2W1(0) of full rank.",
    tolerance=1e-8,
    seeds=5,
)
def any_balanced_start(rng: Rng) -> float:
    d_in, h, d_out = (*SQUARE, *UNEQUAL)[rng.integers(len(SQUARE) + len(UNEQUAL))]
    sigma_yx, _, s, _ = draws.target(rng, d_out, d_in)
    return _distance_from_optimum(draws.balanced(rng, (d_in, h, d_out), rng.uniform(0.3, 1.5)), sigma_yx, s)


@any_balanced_start.stronger(
    "B non-singular. Theorem 3.2 itself states this condition; it is what is concluded from it that leaves it out. Of "
    "random starts with as many outputs as inputs half violate it: where det W2W1(0) and det Σyx differ in sign, the "
    "flow ends in the saddle that misses the weakest mode.",
    slips=(SINGULAR_B,),
)
def any_balanced_start_off_the_separatrix(rng: Rng) -> float:
    d_in, h, d_out = (*SQUARE, *UNEQUAL)[rng.integers(len(SQUARE) + len(UNEQUAL))]
    sigma_yx, _, s, _ = draws.target(rng, d_out, d_in)
    return _distance_from_optimum(regular(rng, (d_in, h, d_out), sigma_yx, rng.uniform(0.3, 1.5)), sigma_yx, s)


def _distance_from_optimum(weights: Sequence[Array], sigma_yx: Array, s: Array) -> float:
    """Not later than 28/s, when rounding would begin to carry the flow off a saddle."""
    return relative_error(product(layers(weights, sigma_yx, [28 / s[-1]]))[0], sigma_yx)


@any_balanced_start.counterexample("One input, one output, W1 = 1, W2 = −1, task 1: the function goes from −1 to 0")
def _() -> tuple[float, float]:
    W = product(layers([np.array([[1.0]]), np.array([[-1.0]])], np.array([[1.0]]), [30.0]))
    return 1.0, float(W[0, 0, 0])


def end_of_task(weights: Sequence[Array], sigma_yx: Array, span: float) -> list[Array]:
    """Weights by Theorem 3.1 after training for a while: a root of QQᵀ, as wide as its rank."""
    G, d_in = theorem_3_1(weights[0], weights[1], sigma_yx, [span])[0], np.shape(sigma_yx)[1]
    values, vectors = np.linalg.eigh(G)
    rank = min(np.shape(sigma_yx))
    Q = vectors[:, -rank:] * np.sqrt(values[-rank:])
    return [Q[:d_in].T, Q[d_in:]]


@claim(
    "braun2022/continual-solution",
    place="Section 6, continual learning, Figure 5A",
    statement="Any sequence of tasks is solved exactly, with the state at the end of one task as the start of the "
    "next; so the course of forgetting is known as well.",
    formula=r"QQ^\top(t_1 + \dots + t_k) = \mathrm{eq.\,11}\left(\Sigma_k, t_k;\ \mathrm{eq.\,11}(\Sigma_{k-1},"
    r" t_{k-1};\ \dots)\right)",
    conditions="White inputs, zero-balanced start of full rank, arbitrary tasks of full rank.",
    tolerance=1e-8,
    seeds=6,
)
def continual_solution(rng: Rng) -> float:
    d_in, h, d_out = (*SQUARE, *UNEQUAL)[rng.integers(len(SQUARE) + len(UNEQUAL))]
    tasks = [draws.target(rng, d_out, d_in)[0] for _ in range(3)]
    return _error_of_sequence(draws.balanced(rng, (d_in, h, d_out), 0.7), tasks)


@continual_solution.stronger(
    "B non-singular at every change of task. Theorems 3.1 and 3.2 themselves state this condition; it is what is "
    "concluded from them that leaves it out. With as many outputs as inputs a network that has learned one task lies "
    "on the separatrix of every task whose determinant has the other sign, and eq. 11 has no value there.",
    slips=(SINGULAR_B,),
)
def continual_solution_off_the_separatrix(rng: Rng) -> float:
    """Tasks near to each other, or of unequal sizes."""
    d_in, h, d_out = (*SQUARE, *UNEQUAL)[rng.integers(len(SQUARE) + len(UNEQUAL))]
    first, U, s, V = draws.target(rng, d_out, d_in)
    tasks = [first]
    while len(tasks) < 3:
        task = first + 0.3 * s[-1] * rng.uniform(-1, 1, size=first.shape) / np.sqrt(first.size)
        half = [np.sqrt(s)[:, None] * V.T, U * np.sqrt(s)]
        if distance_from_separatrix(half, task) > 0.2:
            tasks.append(task)
    return _error_of_sequence(regular(rng, (d_in, h, d_out), first, 0.7), tasks)


def _error_of_sequence(weights: Sequence[Array], tasks: Sequence[Array]) -> float:
    spans = [1.5 / float(np.linalg.norm(task, 2)) for task in tasks]
    predicted, found, errors = list(weights), list(weights), []
    for task, span in zip(tasks, spans, strict=True):
        try:
            predicted = end_of_task(predicted, task, span)
        except InvalidInput:  # B is singular
            return np.inf
        found = [layer[0] for layer in layers(found, task, [span])]
        errors.append(relative_error(gram(predicted), gram(found)))
    return max(errors)


@continual_solution.counterexample(
    "One input, one output, W1 = W2 = 1, which has learned the task 1, and then the task −1 to t = 1: B is 0"
)
def _() -> tuple[float, float]:
    one = np.ones((1, 1))
    try:
        printed = float(theorem_3_1(one, one, -one, [1.0])[0, 1, 0])
    except InvalidInput:
        printed = np.nan
    return printed, float(product(layers([one, one], -one, [1.0]))[0, 0, 0])


@claim(
    "braun2022/loss-of-other-tasks",
    place="Section 6, continual learning",
    statement="After training on task j to convergence, the loss of task i is half the squared distance of the two "
    "input–output correlations, and a constant that the data of task i alone decide.",
    formula=r"\mathcal L_i(\mathcal T_j) = \tfrac12 \|\Sigma_j^{yx} - \Sigma_i^{yx}\|_F^2 + c_i",
    conditions="White inputs in every task; training on j ends at the global optimum.",
    tolerance=1e-9,
    seeds=5,
)
def loss_of_other_tasks(rng: Rng) -> float:
    """Two networks are trained, on i and on j; the loss of the first on its own samples is the constant."""
    (i, j), weights, (X, targets) = _tasks(rng, 2)
    own, other = (data_loss(X, targets[0])(_trained(weights, task)) for task in (i, j))
    return relative_error(np.sum((j - i) ** 2) / 2 + own, other)


@claim(
    "braun2022/forgetting-known-before",
    place="Section 6, continual learning, Figures 5B and 5E",
    statement="How much of task a is forgotten when task c is trained after task b follows from the similarity of the "
    "tasks alone, before any training.",
    formula=r"\mathcal L_a(\mathcal T_c) - \mathcal L_a(\mathcal T_b) = \tfrac12 \|\Sigma_c^{yx} - \Sigma_a^{yx}\|_F^2"
    r" - \tfrac12 \|\Sigma_b^{yx} - \Sigma_a^{yx}\|_F^2",
    conditions="White inputs in every task; each training ends at the global optimum.",
    tolerance=1e-9,
    seeds=5,
)
def forgetting_known_before(rng: Rng) -> float:
    """One network through a, b and c, each to convergence; the losses on the samples of a."""
    tasks, weights, (X, targets) = _tasks(rng, 3)
    losses = []
    for task in tasks:
        weights = _trained(weights, task)
        losses.append(data_loss(X, targets[0])(weights))
    a, b, c = tasks
    forgotten = (np.sum((c - a) ** 2) - np.sum((b - a) ** 2)) / 2
    return relative_error(losses[1] + forgotten, losses[2])  # the difference alone may be near zero


def _tasks(rng: Rng, count: int) -> tuple[list[Array], list[Array], tuple[Array, list[Array]]]:
    """Correlations of tasks on the same white inputs, a start, and the samples. What is common to the targets keeps
    the tasks on one side of the separatrix."""
    d_in, h, d_out = ((2, 3, 2), *UNEQUAL)[rng.integers(1 + len(UNEQUAL))]
    X, _ = draws.white_data(rng, 6, d_in, d_out)
    common = X @ draws.target(rng, d_out, d_in)[0].T
    targets = [common + 0.15 * rng.normal(size=common.shape) for _ in range(count)]
    tasks = [correlations(X, Y)[0] for Y in targets]
    return tasks, regular(rng, (d_in, h, d_out), tasks[0], 0.7), (X, targets)


def _trained(weights: Sequence[Array], sigma_yx: Array) -> list[Array]:
    s = np.linalg.svd(sigma_yx, compute_uv=False)
    return [layer[0] for layer in layers(weights, sigma_yx, [30 / s[-1]])]


@claim(
    "braun2022/nonlinear-unbalanced",
    place="Section 6, continual learning, Figure 5C",
    statement="With tanh or ReLU between the layers the weights rapidly become unbalanced. Measured here: at a "
    "balanced start the balance is being lost at more than a thousandth of the rate at which the weights move; in a "
    "linear network at none.",
    formula=r"\left\|\frac{d}{dt}\left(W_2^\top W_2 - W_1 W_1^\top\right)\right\| >"
    r" 10^{-3} \left(\|W_1\|\|\dot W_1\| + \|W_2\|\|\dot W_2\|\right)",
    conditions="Zero-balanced weights of order one, Gaussian data, four hidden units. (ReLUs that are all active on "
    "the same samples would stay balanced.)",
    tolerance=0.0,  # an inequality
)
def nonlinear_unbalanced(rng: Rng) -> float:
    """From the derivatives of the loss itself; a linear network must lose nothing."""
    X, Y, smooth = rng.normal(size=(8, 2)), rng.normal(size=(8, 2)), rng.random() < 0.5
    W1, W2 = weights = draws.balanced(rng, (2, 4, 2), 1.2)

    def lost(activation: Callable[[Array], Array]) -> float:
        def loss(weights: Sequence[Array]) -> Values:
            return np.sum((activation(X @ weights[0].T) @ weights[1].T - Y) ** 2) / (2 * len(X))

        dW1, dW2 = (-slope for slope in gradient(loss, weights))
        half = dW2.T @ W2 - dW1 @ W1.T
        moved = np.linalg.norm(W1) * np.linalg.norm(dW1) + np.linalg.norm(W2) * np.linalg.norm(dW2)
        return float(np.linalg.norm(half + half.T) / moved)

    nonlinear = lost(np.tanh if smooth else lambda z: np.where(np.real(z) > 0, z, 0.0))
    return max(1e-3 - nonlinear, lost(lambda z: z) - 1e-12)
