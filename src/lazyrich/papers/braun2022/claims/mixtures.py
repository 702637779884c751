"""What follows from section 6 for networks that train on several tasks at once: mixtures, replay, and its frontier.

None of it is in the paper. Eq. 11 takes any task, and a mixture of tasks on the same white inputs is one.
"""

from collections.abc import Sequence

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import correlations, flow_of, layers, relative_error
from lazyrich.papers.base.types import Rng, Values
from lazyrich.papers.braun2022.claims.setting import data_loss, gram
from lazyrich.papers.braun2022.claims.solution import regular
from lazyrich.papers.braun2022.formulas import theorem_3_1

NOT_CHECKED: tuple[NotChecked, ...] = ()

SIZES = ((2, 2, 3), (3, 2, 2), (1, 2, 2), (2, 1, 1))


def _drawn(rng: Rng) -> tuple[list[Array], Array, list[Array], list[Array]]:
    """White inputs, the targets of an old and a new task, their correlations, and a start."""
    d_in, h, d_out = SIZES[rng.integers(len(SIZES))]
    X, _ = draws.white_data(rng, 6, d_in, d_out)
    common = X @ draws.target(rng, d_out, d_in)[0].T
    targets = [common + 0.3 * rng.normal(size=common.shape) for _ in range(2)]
    tasks = [correlations(X, Y)[0] for Y in targets]
    return targets, X, tasks, regular(rng, (d_in, h, d_out), tasks[0], 0.7)


def _trained(weights: Sequence[Array], sigma_yx: Array, left: float = 1e-13) -> list[Array]:
    """Until so much of the slowest mode is left."""
    s = np.linalg.svd(sigma_yx, compute_uv=False)
    return [layer[0] for layer in layers(weights, sigma_yx, [-np.log(left) / s[-1]])]


@claim(
    "braun2022/mixture",
    place="Follows from Theorem 3.1; not in the paper",
    statement="A network that lowers a weighted mean of the losses of several tasks on the same inputs follows the "
    "solution of a single task, whose correlation is the weighted mean of theirs.",
    formula=r"QQ^\top(t) = \mathrm{eq.\,11}\left(\textstyle\sum_k \pi_k \tilde\Sigma^{yx}_k, t\right)",
    conditions="White inputs, the same in every task; Σ π_k = 1, π_k ≥ 0; the conditions of Theorem 3.1.",
    tolerance=1e-8,
    seeds=6,
)
def mixture(rng: Rng) -> float:
    """The flow is that of values of the mixed loss on all samples, and of nothing else."""
    targets, X, (old, new), weights = _drawn(rng)
    share, times = rng.uniform(0.1, 0.9), [0.3, 1.0]

    def loss(state: list[Array]) -> Values:
        return share * data_loss(X, targets[0])(state) + (1 - share) * data_loss(X, targets[1])(state)

    truth = gram(flow_of(loss, weights, times))
    return relative_error(theorem_3_1(weights[0], weights[1], share * old + (1 - share) * new, times), truth)


@claim(
    "braun2022/replay",
    place="Follows from section 6, continual learning; not in the paper",
    statement="If, while a new task is learned, a fraction ρ of what the network sees is the old one, it forgets "
    "(1 − ρ)² of what it would forget without, and misses ρ² of as much of the new task.",
    formula=r"\mathcal L_a - \mathcal L_a(\mathcal T_a) = (1 - \rho)^2 \tfrac12 \|\Sigma_b^{yx} - \Sigma_a^{yx}\|_F^2,"
    r"\qquad \mathcal L_b - \mathcal L_b(\mathcal T_b) = \rho^2 \tfrac12 \|\Sigma_b^{yx} - \Sigma_a^{yx}\|_F^2",
    conditions="White inputs, the same in both tasks; each training ends at the global optimum.",
    tolerance=1e-8,
    seeds=6,
)
def replay(rng: Rng) -> float:
    """One network through the old task and then the mixture; another through the new task. Losses are on samples."""
    targets, X, (old, new), weights = _drawn(rng)
    rho, losses = rng.uniform(0.05, 0.6), [data_loss(X, Y) for Y in targets]
    taught = _trained(weights, old)
    mixed, fresh = _trained(taught, rho * old + (1 - rho) * new), _trained(weights, new)
    apart = np.sum((new - old) ** 2) / 2
    found = [losses[0](mixed) - losses[0](taught), losses[1](mixed) - losses[1](fresh)]
    return relative_error([(1 - rho) ** 2 * apart, rho**2 * apart], found)


@claim(
    "braun2022/frontier",
    place="Follows from section 6, continual learning; not in the paper",
    statement="However a network is trained: roots of what it forgets of the old task and of what it misses of the new "
    "one add up to no less than where replay ends, whatever the fraction.",
    formula=r"\sqrt{\mathcal L_a - \mathcal L_a(\mathcal T_a)} + \sqrt{\mathcal L_b - \mathcal L_b(\mathcal T_b)} \ge"
    r" \tfrac{1}{\sqrt 2} \|\Sigma_b^{yx} - \Sigma_a^{yx}\|_F",
    conditions="White inputs, the same in both tasks; a network that computes a linear map. Equality for replay.",
    tolerance=1e-7,
    seeds=6,
)
def frontier(rng: Rng) -> float:
    """Any network, one that was stopped on the way from old to new, and one that replays, with equality."""
    targets, X, (old, new), weights = _drawn(rng)
    losses, rho = [data_loss(X, Y) for Y in targets], rng.uniform(0.2, 0.6)
    taught = _trained(weights, old)
    least = [losses[0](taught), losses[1](_trained(weights, new))]
    bound = np.linalg.norm(new - old) / np.sqrt(2)

    def above(state: Sequence[Array]) -> float:
        parts = [max(float(loss(list(state)) - floor), 0.0) for loss, floor in zip(losses, least, strict=True)]
        return float((np.sum(np.sqrt(parts)) - bound) / bound)

    stopped = [layer[0] for layer in layers(taught, new, [rng.uniform(0.2, 1.0)])]
    replayed = above(_trained(taught, rho * old + (1 - rho) * new))
    return max(abs(replayed), -above(stopped), -above(weights))
