"""The curvature of the loss: products with the Hessian, the Hessian itself, and its extreme eigenvalues.

A product H·V costs about two gradients, at any depth and with any activation, by differentiating backpropagation
along V (Pearlmutter 1994). Forward, with z_ℓ = W_ℓ a_{ℓ−1} and a_ℓ = σ(z_ℓ), and backward, with δ_ℓ the gradient of
the loss in z_ℓ:

    ż_ℓ = V_ℓ a_{ℓ−1} + W_ℓ ȧ_{ℓ−1},                        ȧ_ℓ = σ'(z_ℓ) ż_ℓ
    (H·V)_ℓ = δ̇_ℓ a_{ℓ−1}ᵀ + δ_ℓ ȧ_{ℓ−1}ᵀ + γ V_ℓ,          δ̇_{ℓ−1} = (V_ℓᵀδ_ℓ + W_ℓᵀδ̇_ℓ) σ' + (W_ℓᵀδ_ℓ) σ'' ż_{ℓ−1}

A linear network sees the data through Σxx and Σyx alone: the same passes with the identity for the samples, and with
δ_L = WΣxx − Σyx. Where a ReLU has its kink, σ'' = 0 is taken: the Hessian of the piece on which the weights lie.

Gradient descent with step size `rate` is stable while the largest eigenvalue, the sharpness, is below 2/rate. At a
minimum W = Σ s_α u_α v_αᵀ of balanced layers on white inputs (Σxx = c·I) the eigenvalues of H that are not zero are
c Σ_ℓ s_α^{2(L−ℓ)/L} s_β^{2(ℓ−1)/L}, one for each pair of an output and an input mode, and the sharpness is
c L s_1^{2−2/L} (theory: section 7).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._observable import observable
from lazyrich._progress import progress
from lazyrich._typing import Array, Float
from lazyrich.problem import Problem, as_problem, needs_squared_loss
from lazyrich.trajectory import Trajectory, as_trajectory

_LARGEST_MATRIX = 4000  # weights: 128 MB
_SMALL = 400  # weights: up to here all eigenvalues cost no more than one by Lanczos, and five times that many than five
_RESTARTS = 300  # of ARPACK, before all eigenvalues are asked for instead
_BATCH = 2**22  # numbers that one batch of products may carry through a layer


class Eigenvalues(NamedTuple):
    """Eigenvalues of the Hessian, and their directions of norm 1: in each layer, one along the first axis for each."""

    values: Float[Array, " count"]
    directions: list[Float[Array, "count _ _"]]


def hessian_vector_product(problem: Problem, weights: Sequence[object], direction: Sequence[object]) -> list[Array]:
    """H·V, layer by layer, at any weights of the problem's network; weight decay γ adds γV.

    With biases, the rows that make the constant are not moved: they count as zero in V, and are zero in H·V.

    Parameters
    ----------
    problem : a task and any network
    weights : where, one matrix per layer
    direction : V, one matrix per layer

    Returns
    -------
    list : H·V, one matrix per layer

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.5]], [[3.0]]]))
    >>> lr.landscape.hessian_vector_product(problem, [[[0.5]], [[3.0]]], [[[1.0]], [[0.0]]])  # loss ½(w₂w₁ − 2)²
    [array([[9.]]), array([[1.]])]
    """
    curvature = _Curvature(problem, _as_layers("weights", weights, problem))
    return problem.network.moves(curvature.times(problem.network.moves(_as_layers("direction", direction, problem))))


def hessian(problem: Problem, weights: Sequence[object]) -> Float[Array, "n n"]:
    """All second derivatives, for small networks; weights are numbered layer after layer, each row by row.

    With biases, the rows that make the constant are no weights, and not among them.

    Parameters
    ----------
    problem : a task and any network
    weights : where, one matrix per layer

    Returns
    -------
    array : H

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.5]], [[3.0]]]))
    >>> lr.landscape.hessian(problem, problem.network.weights)
    array([[9.  , 1.  ],
           [1.  , 0.25]])
    """
    return _Curvature(problem, _as_layers("weights", weights, problem)).matrix()


def extreme_eigenvalues(
    problem: Problem, weights: Sequence[object], count: int = 1, *, smallest: bool = False
) -> Eigenvalues:
    """The largest eigenvalues of the Hessian, largest first, or the smallest, smallest first.

    Small networks have their whole Hessian decomposed, large ones a few eigenvalues found by Lanczos iterations on
    products; those may miss copies of an eigenvalue that occurs several times.

    Parameters
    ----------
    problem : a task and any network
    weights : where, one matrix per layer
    count : how many
    smallest : the smallest instead of the largest

    Returns
    -------
    Eigenvalues : `values`, and `directions` of norm 1 per layer

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.0]], [[0.0]]]))
    >>> lr.landscape.extreme_eigenvalues(problem, problem.network.weights, smallest=True).values
    array([-2.])
    """
    curvature = _Curvature(problem, _as_layers("weights", weights, problem))
    count = _check.count("count", count)
    if count > curvature.size:
        raise InvalidInput(f"count must be at most the number of weights ({curvature.size}), and it is {count}.")
    values, vectors = _extremes(curvature, count, _check.flag("smallest", smallest))
    return Eigenvalues(values, curvature.layers(vectors.T))


@observable(long_name="sharpness: the largest eigenvalue of the Hessian")
def sharpness(traj: Trajectory, *, preconditioned: bool = False) -> Float[Array, " T"]:
    """The largest eigenvalue of the Hessian at each time; weight decay γ adds γ.

    Descent is stable while rate × sharpness < 2.

    Parameters
    ----------
    traj : of any network
    preconditioned : that of η^{1/2} H η^{1/2}, η the layer rates of the problem, where these differ

    Returns
    -------
    array : one number per time

    >>> problem = lr.Problem(lr.Task.from_correlations([[3.0, 0.0], [0.0, 1.0]]), lr.inits.zero_balanced(
    ...     2, sizes=(2, 4, 2), scale=0.1))
    >>> lr.landscape.sharpness(lr.solve(problem, [100.0])).round(9)  # L s^{2−2/L} at the minimum
    array([6.])
    """
    traj, preconditioned = as_trajectory(traj), _check.flag("preconditioned", preconditioned)
    problem = traj.problem
    stretch = np.sqrt(problem.rates) if preconditioned else np.ones(problem.network.depth)
    values = np.empty(len(traj.times))
    with progress(len(values), "sharpness") as advance:
        for i, weights in enumerate(traj.state.layers()):
            values[i] = _extremes(_Curvature(problem, weights, stretch), 1, smallest=False)[0][0]
            advance(1)
    return values


class _Curvature:
    """The Hessian at one state, with the two passes that all products share; `stretch` scales each layer's weights."""

    def __init__(self, problem: Problem, weights: Sequence[Array], stretch: Sequence[float] | Array | None = None):
        needs_squared_loss(problem, "the Hessian", "its second derivative in the outputs is the identity")
        task, activation, L = problem.task, problem.network.activation, len(weights)
        self.weights, self.decay = weights, problem.weight_decay
        self.stretch = np.ones(L) if stretch is None else stretch
        # with biases, the rows that make the constant are no weights: vectors leave them out
        own = [np.ones(W.shape, bool) for W in weights]
        for rows in own[:-1] if problem.network.biased else ():
            rows[-1] = False
        self.free = np.flatnonzero(np.concatenate([rows.ravel() for rows in own]))
        self.size = len(self.free)
        self.samples: Array | None = None  # None: the identity
        if not activation.linear:
            if task.inputs is None or task.targets is None:
                raise InvalidInput(
                    f"the Hessian needs the samples of the task where the network is {problem.network.kind}, and this "
                    "task holds correlations only: try Task.from_data(inputs, targets)."
                )
            self.samples = task.inputs.T
            self.weight = 1 / len(task.inputs) if task.reduction == "mean" else 1.0
        self.sigma_xx = task.sigma_xx
        self.signals: list[Any] = [self.samples]  # a_0 … a_{L−1}
        self.slopes: list[Any] = []  # σ'(z_1) … σ'(z_{L−1})
        z = self._into(weights[0])
        for W in weights[1:]:
            self.signals.append(activation(z))
            self.slopes.append(activation.derivative(z))
            z = W @ self.signals[-1]
        if task.targets is None or activation.linear:
            delta = z @ task.sigma_xx - task.sigma_yx
        else:
            delta = self.weight * (z - task.targets.T)
        self.deltas = [delta]  # δ_1 … δ_L
        self.curvatures: list[Any] = []  # (W_ℓᵀδ_ℓ) σ''(z_{ℓ−1}); None where σ'' = 0
        for i in range(L - 1, 0, -1):
            back = weights[i].T @ self.deltas[0]
            self.curvatures.insert(
                0, -2 * back * self.signals[i] * self.slopes[i - 1] if not activation.homogeneous else None
            )
            self.deltas.insert(0, back * self.slopes[i - 1])

    def times(self, direction: Sequence[Array]) -> list[Array]:
        """H·V of one direction, or of many along the axes before the last two."""
        W, L = self.weights, len(self.weights)
        V = [k * V_l for k, V_l in zip(self.stretch, direction, strict=True)]
        dz = [self._into(V[0])]
        da: list[Any] = [None]
        for i in range(1, L):
            da.append(self.slopes[i - 1] * dz[-1])
            dz.append(V[i] @ self.signals[i] + W[i] @ da[-1])
        d_delta = dz[-1] @ self.sigma_xx if self.samples is None else self.weight * dz[-1]
        product: list[Any] = [None] * L
        for i in range(L - 1, 0, -1):
            product[i] = d_delta @ self.signals[i].T + self.deltas[i] @ np.swapaxes(da[i], -1, -2)
            d_delta = (np.swapaxes(V[i], -1, -2) @ self.deltas[i] + W[i].T @ d_delta) * self.slopes[i - 1]
            if self.curvatures[i - 1] is not None:
                d_delta = d_delta + self.curvatures[i - 1] * dz[i - 1]
        product[0] = d_delta if self.samples is None else d_delta @ self.samples.T
        return [k * (P + self.decay * V_l) for k, P, V_l in zip(self.stretch, product, V, strict=True)]

    def flat(self, vectors: Float[Array, "*count n"]) -> Float[Array, "*count n"]:
        """The same for directions written as vectors."""
        parts = self.times(self.layers(vectors))
        return np.concatenate([part.reshape(*vectors.shape[:-1], -1) for part in parts], axis=-1)[..., self.free]

    def layers(self, vectors: Float[Array, "*count n"]) -> list[Array]:
        """Vectors of all weights, cut into matrices."""
        sizes = [W.size for W in self.weights]
        if self.size < sum(sizes):
            vectors, some = np.zeros((*vectors.shape[:-1], sum(sizes))), vectors
            vectors[..., self.free] = some
        parts = np.split(vectors, np.cumsum(sizes)[:-1], axis=-1)
        return [part.reshape(*vectors.shape[:-1], *W.shape) for part, W in zip(parts, self.weights, strict=True)]

    def matrix(self) -> Float[Array, "n n"]:
        """All of H, from products with many unit vectors at a time."""
        n = self.size
        if n > _LARGEST_MATRIX:
            raise InvalidInput(
                f"the Hessian is formed for up to {_LARGEST_MATRIX} weights, and this network has {n}: "
                "try hessian_vector_product, or a few extreme_eigenvalues."
            )
        widest = max(delta.size for delta in self.deltas)
        step = int(np.clip(_BATCH // max(widest, n), 1, n))
        H = np.concatenate([self.flat(np.eye(min(step, n - i), n, i)) for i in range(0, n, step)])
        return (H + H.T) / 2

    def _into(self, M: Array) -> Array:
        """M a_0."""
        return M if self.samples is None else M @ self.samples


def _extremes(curvature: _Curvature, count: int, smallest: bool) -> tuple[Array, Array]:
    """Extreme eigenvalues, the most extreme first, with eigenvectors as columns."""
    n = curvature.size
    dense = n <= _SMALL * min(count, 5) or count > n // 4
    values, vectors = np.linalg.eigh(curvature.matrix()) if dense else _lanczos(curvature, count, smallest)
    chosen = np.argsort(values if smallest else -values, kind="stable")[:count]
    return values[chosen], vectors[:, chosen]


def _lanczos(curvature: _Curvature, count: int, smallest: bool) -> tuple[Array, Array]:
    """By ARPACK, from the same vector every time."""
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh  # here, to keep `import lazyrich` quick

    n = curvature.size
    # not a seed that weights are drawn with: from the weights themselves, the iterations miss whole symmetry classes
    first = np.random.default_rng((1994, n)).normal(size=n)
    scale = float(np.linalg.norm(curvature.flat(first)) / np.linalg.norm(first))
    if scale == 0:  # a generic vector has a part in every direction: all of H is zero
        return np.zeros(count), np.eye(n, count)
    # ARPACK judges each eigenvalue by its own size: the scale of H is brought to 1, and flat directions away from 0
    shift = -2.0 if smallest else 2.0
    operator = LinearOperator((n, n), lambda v: curvature.flat(v.ravel()) / scale + shift * v.ravel(), dtype=np.float64)
    end, room = "SA" if smallest else "LA", max(2 * count + 1, 60)
    try:
        values, vectors = eigsh(operator, count, which=end, v0=first, ncv=room, tol=1e-12, maxiter=_RESTARTS)
    except ArpackNoConvergence:
        return np.linalg.eigh(curvature.matrix())
    return (values - shift) * scale, vectors


def _as_layers(name: str, value: object, problem: Problem) -> list[Array]:
    """One matrix per layer of the problem's network, or a sentence."""
    as_problem(problem)
    shapes = [(out, into) for into, out in itertools.pairwise(problem.network.sizes)]
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != len(shapes):
        came = f"holds {len(value)}" if isinstance(value, Sequence) else f"is a {type(value).__name__}"
        raise InvalidInput(f"{name} must hold one matrix per layer ({len(shapes)}), and it {came}.")
    return [_check.as_matrix(f"{name}[{i}]", W, shape) for i, (W, shape) in enumerate(zip(value, shapes, strict=True))]
