"""Section 4: where small, large and zero-balanced starts end, and how fast they get there."""

import numpy as np

from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import layers, product, relative_error
from lazyrich.papers.base.types import Rng
from lazyrich.papers.braun2022.claims.setting import gram
from lazyrich.papers.braun2022.claims.slips import SINGULAR_B
from lazyrich.papers.braun2022.claims.solution import distance_from_separatrix, regular, rich_end, some_target
from lazyrich.tasks import semantic_hierarchy

NOT_CHECKED: tuple[NotChecked, ...] = (
    NotChecked(
        "Section 4",
        "Rich representations may generalise where lazy ones cannot; ŨS̃Ũᵀ reveals the primary groups of items.",
        "A matter of interpretation: no measure of generalisation, and none of revealing, is given.",
    ),
    NotChecked(
        "Section 4, Figure 3F",
        "From large random weights that are not balanced, the loss falls fast and exponentially.",
        "Read off one figure; how large, relative to which width, is not said, and at a fixed width a larger scale "
        "does not make the kernel any more constant. For large balanced starts see braun2022/exponential-limit.",
    ),
)


@claim(
    "braun2022/hierarchy-similarity",
    place="Section 4, on Figure 3B",
    statement="In the representation that the living kingdom calls for, ṼS̃Ṽᵀ, a fish is most similar to the other "
    "fish, less to a bird, and least to a plant; and so on for every item of the tree.",
    formula=r"M_{\text{fish, fish}'} > M_{\text{fish, bird}} > M_{\text{fish, plant}}, \qquad"
    r" M = \tilde V \tilde S \tilde V^\top",
    conditions="The semantic hierarchy of eight items, its features a little unequal.",
    tolerance=0.0,  # an ordering: minus the smallest step between two relations
)
def hierarchy_similarity(rng: Rng) -> float:
    """All items, grouped by how far up the tree they meet; any split of the features up to that of the figure."""
    task = semantic_hierarchy(split=rng.uniform(0.0, 0.1))
    _, s, Vt = np.linalg.svd(task.sigma_yx)
    similarity, items = Vt.T * s @ Vt, range(8)

    def between(least: int, most: int) -> list[float]:
        """Similarities of pairs whose branches meet at these levels: 0 for the pair at the bottom, 2 for the root."""
        pairs = [(i, j) for i in items for j in items if i != j]
        return [similarity[i, j] for i, j in pairs if least <= (i ^ j).bit_length() - 1 <= most]

    return float(max(max(between(1, 1)) - min(between(0, 0)), max(between(2, 2)) - min(between(1, 1))))


@claim(
    "braun2022/small-random-rich",
    place="Section 4, Figure 3C",
    statement="From small random weights, balanced or not, the similarity of the weights at convergence is the task's.",
    formula=r"W_1^\top W_1 \to \tilde V \tilde S \tilde V^\top, \quad W_2 W_2^\top \to \tilde U \tilde S \tilde U^\top"
    r" \qquad \text{as}\ \|W_1(0)\|, \|W_2(0)\| \to 0",
    conditions="White inputs, a hidden layer that is wide enough.",
    tolerance=1e-8,  # weights of 1e-6 leave an imbalance of 1e-12, and the integration 1e-11
)
def small_random_rich(rng: Rng) -> float:
    sigma_yx, U, s, V = some_target(rng, *rng.permutation([2, 3]).tolist())
    weights = draws.gaussian(rng, (len(V), 6, len(U)), 1e-6)
    return relative_error(rich_end(U, s, V), gram(layers(weights, sigma_yx, [45 / s[-1]]))[0])


@claim(
    "braun2022/large-random-lazy",
    place="Section 4, Figure 3D",
    statement="From large random weights the network learns the same function, to the same loss, but not the task's "
    "representation.",
    formula=r"W_2 W_1 \to \Sigma_{yx}, \qquad W_1^\top W_1 \not\to \tilde V \tilde S \tilde V^\top, \qquad"
    r" W_2 W_2^\top \not\to \tilde U \tilde S \tilde U^\top",
    conditions="White inputs; Gaussian weights of order one, not balanced; a hidden layer that is wide enough.",
    tolerance=0.0,  # an inequality: how far from lazy, where lazy is off by more than a tenth with the function right
    seeds=7,
)
def large_random_lazy(rng: Rng) -> float:
    sigma_yx, U, s, V = some_target(rng, *rng.permutation([2, 3]).tolist())
    weights = [layer[0] for layer in layers(draws.gaussian(rng, (len(V), 6, len(U)), 1.0), sigma_yx, [30 / s[-1]])]
    G, rich, d_in = gram(weights), rich_end(U, s, V), len(V)
    off_in = relative_error(G[:d_in, :d_in], rich[:d_in, :d_in])
    off_out = relative_error(G[d_in:, d_in:], rich[d_in:, d_in:])
    return max(0.1 - off_in, 0.1 - off_out, relative_error(product(weights), sigma_yx) - 1e-8)


@claim(
    "braun2022/large-balanced-rich",
    place="Section 4, Figure 3E; also Section 6 on revising structured knowledge",
    statement="Zero-balanced weights may be large and still end in the task's own representation, the very one that "
    "small weights end in.",
    formula=r"QQ^\top(\infty)\big|_{\text{large}} = QQ^\top(\infty)\big|_{\text{small}} ="
    r" \begin{pmatrix} \tilde V \\ \tilde U \end{pmatrix} \tilde S \begin{pmatrix} \tilde V^\top & \tilde U^\top"
    r" \end{pmatrix}",
    conditions="Those of Theorem 3.1, B non-singular among them; any scale.",
    tolerance=1e-9,
)
def large_balanced_rich(rng: Rng) -> float:
    d_in, h, d_out = ((2, 3, 2), (2, 4, 3), (3, 3, 2))[rng.integers(3)]
    sigma_yx, U, s, V = some_target(rng, d_out, d_in)
    small, large = (regular(rng, (d_in, h, d_out), sigma_yx, scale) for scale in (0.01, rng.uniform(2.0, 5.0)))
    ends = [gram(layers(weights, sigma_yx, [40 / s[-1]]))[0] for weights in (small, large)]
    return max(relative_error(ends[1], ends[0]), relative_error(rich_end(U, s, V), ends[1]))


@claim(
    "braun2022/task-agnostic",
    place="Section 4, after Theorem 3.2 is recalled",
    statement="Such a start does not depend on the task: from the same zero-balanced weights the network finds the "
    "rich solution of any task with a well defined input–output correlation.",
    formula=r"W_1 W_1^\top(0) = W_2^\top W_2(0) \ \Rightarrow\ QQ^\top(\infty) ="
    r" \begin{pmatrix} \tilde V \\ \tilde U \end{pmatrix} \tilde S \begin{pmatrix} \tilde V^\top & \tilde U^\top"
    r" \end{pmatrix} \ \text{for all}\ \Sigma_{yx} = \tilde U \tilde S \tilde V^\top",
    conditions="White inputs; zero-balanced start; start and tasks of full rank.",
    tolerance=1e-8,  # what is left at the end of the integration, well before rounding leaves a saddle
)
def task_agnostic(rng: Rng) -> float:
    d_in, h, d_out = ((1, 1, 1), (2, 3, 2), (3, 3, 2), (2, 4, 3))[rng.integers(4)]
    return _worst_of_two_tasks(rng, (d_in, h, d_out))


@task_agnostic.stronger(
    "B non-singular for every one of the tasks, which is so of almost all starts if the numbers of inputs and outputs "
    "differ. Theorem 3.2 itself states this condition; it is what is concluded from it that leaves it out. Where the "
    "numbers are equal, the sign of det W2W1 never changes, and of two tasks that differ in the sign of their "
    "determinant one is out of reach: the flow ends in a saddle.",
    slips=(SINGULAR_B,),
)
def task_agnostic_unequal(rng: Rng) -> float:
    d_in, h, d_out = ((1, 2, 2), (3, 3, 2), (2, 4, 3))[rng.integers(3)]
    return _worst_of_two_tasks(rng, (d_in, h, d_out))


def _worst_of_two_tasks(rng: Rng, sizes: tuple[int, int, int]) -> float:
    """One start and two tasks, the second of which is the first with one output reversed. Starts so close to a
    separatrix that they are late are drawn again, unless there is no other start: on it, where sizes are equal."""
    d_in, _, d_out = sizes
    sigma_yx, U, s, V = draws.target(rng, d_out, d_in)
    sides = [np.eye(d_out), np.diag([-1.0] + [1.0] * (d_out - 1))]
    weights = draws.balanced(rng, sizes, 1.0)
    while d_in != d_out and min(distance_from_separatrix(weights, side @ sigma_yx) for side in sides) < 0.1:
        weights = draws.balanced(rng, sizes, 1.0)
    ends = [gram(layers(weights, side @ sigma_yx, [28 / s[-1]]))[0] for side in sides]
    return max(relative_error(end, rich_end(side @ U, s, V)) for end, side in zip(ends, sides, strict=True))


@task_agnostic.counterexample("One input, one output, W1 = W2 = 2, and the task −1: the function ends at 0")
def _() -> tuple[float, float]:
    W = product(layers([np.array([[2.0]]), np.array([[2.0]])], np.array([[-1.0]]), [30.0]))
    return -1.0, float(W[0, 0, 0])


@claim(
    "braun2022/slow-to-fast",
    place="Abstract; Section 4, Figure 3F; Section 6 on revising structured knowledge",
    statement="Large zero-balanced weights learn fast where small ones wait: when the one loss is all but gone, the "
    "other has hardly begun to fall for the weakest mode.",
    formula=r"\mathcal L_{\text{large}}(t) < 10^{-2}\,\tfrac12 \tilde s_{\min}^2 < 0.9 \cdot \tfrac12 \tilde s_{\min}^2"
    r" < \mathcal L_{\text{small}}(t), \qquad \tilde s_{\min}\,t = 5\tau",
    conditions="Those of Theorem 3.1, B well off being singular; weights of order 1 against 1e-5.",
    tolerance=0.0,  # two inequalities
    seeds=7,
)
def slow_to_fast(rng: Rng) -> float:
    d_in, h, d_out = ((2, 3, 2), (2, 4, 3), (3, 3, 2))[rng.integers(3)]
    sigma_yx, _, s, _ = some_target(rng, d_out, d_in)
    large = regular(rng, (d_in, h, d_out), sigma_yx, rng.uniform(1.5, 3.0), least=0.5)
    small = [1e-5 * W for W in large]
    W = [product(layers(weights, sigma_yx, [5 / s[-1]]))[0] for weights in (large, small)]
    fast, slow = (float(np.sum((end - sigma_yx) ** 2) / s[-1] ** 2) for end in W)
    return max(fast - 0.01, 0.9 - slow)
