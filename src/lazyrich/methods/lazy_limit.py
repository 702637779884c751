"""`lazy_limit`: the tangent model of a network at its initialisation, f_0 + J_0 Δθ, its gradient flow in closed form.

Linear in Δθ, it learns with the kernel of the initialisation, which never moves: exponentials, whatever the network. On
samples, with the loss ½w Σ‖y − f‖² (w = 1/P, or 1 where the loss is a sum) and layer rates η_ℓ (theory: section 12),

    f(t) = y + e^{−Ht}(f_0 − y),     H = w Σ_ℓ η_ℓ J_ℓ J_ℓᵀ      (samples × outputs)

Linear networks see their inputs by Σxx = CCᵀ alone. With X = WC, X* = TC and products A_ℓ = W_{L:ℓ+1}, B_ℓ = W_{ℓ−1:1}
of the initial weights,

    Ẋ = −Σ_ℓ η_ℓ A_ℓA_ℓᵀ (X − X*) (B_ℓC)ᵀ(B_ℓC)                  (outputs × inputs)

Two layers need no Kronecker product: in the eigenvectors of W2W2ᵀ (eigenvalues ρ_i) each row goes by itself,

    x_i(t) = x*_i + (x_i(0) − x*_i) e^{−H_i t},     H_i = η_1 ρ_i CᵀC + η_2 (W1C)ᵀ(W1C)

and where inputs are white, C = √c·I, all H_i share the eigenvectors of W1ᵀW1. Directions of W that no input excites
move along with the others: W(t) = W(0) + Σ_ℓ η_ℓ A_ℓA_ℓᵀ (∫E) B_ℓᵀB_ℓ with E = (T − W)Σxx.

H is never formed: H = FᵀF, and the singular values g of F, of which rates are squares, keep all their digits. Where a
network has fewer weights than samples × outputs, Fᵀ has more rows than columns, and the same singular values come from
the side of the weights: with Fᵀ = Σ_i g_i u_i v_iᵀ,

    Δθ(t) = Σ_i v_i (1 − e^{−g_i²t})/g_i · u_iᵀ(y − f_0)            (in units of √(wη))
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from scipy.linalg import qr

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._progress import progress
from lazyrich._threads import SMALL, one_blas_thread
from lazyrich._typing import Array, Float
from lazyrich.methods._gradients import needs_samples
from lazyrich.methods.base import TangentModel
from lazyrich.networks import Network
from lazyrich.networks.biases import with_constant
from lazyrich.networks.network import forward
from lazyrich.problem import Problem, as_problem, needs_squared_loss
from lazyrich.tasks import Task
from lazyrich.trajectory import Trajectory

LARGEST = 4096  # rows of an eigenproblem: half a minute or so
_VECTORS = 4  # rows of a matrix that are reduced in the time that one row of its singular vectors takes
_RESOLVED = 1e-8  # of the largest g: what is below has lost its digits in g², the kernel
_EPS = float(np.finfo(np.float64).eps)


def lazy_limit(problem: Problem, times: object) -> Trajectory:
    """The trajectory of the tangent model at the initialisation, f_0 + J_0 Δθ: exact, but not the network's own.

    A network is as lazy as it stays close to it: `lr.observables.linearisation_gap(traj)` is the distance, and
    `lr.plot.limits(problem)` the picture.

    Parameters
    ----------
    problem : a task and a network without weight decay. Linear networks of one or two layers may have any size; deeper
        ones at most 4096 inputs × outputs, and those that are not linear 4096 samples × outputs or 4096 weights,
        whichever are fewer
    times : not negative, sorted; np.inf may be the last

    Returns
    -------
    Trajectory : of `.method` "lazy_limit", with `.loss` and the `.function`, or, where a network is not linear, its
        `.outputs` on the samples of the task; `.tangent.answers(times, inputs)` has them at any inputs. It holds no
        weights: the tangent model is no network, and what observables read of one (kernel, balance, representation)
        it does not have

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> lr.lazy_limit(problem, [0.0, 1.0, 10.0, np.inf]).function.ravel().round(3)  # rate 0.1² + 0.1²
    array([0.01 , 0.049, 0.371, 2.   ])
    >>> lr.solve(problem, [0.0, 1.0, 10.0, np.inf]).function.ravel().round(3)  # a small start is not lazy
    array([0.01 , 0.431, 2.   , 2.   ])
    """
    as_problem(problem)
    times = _check.as_times(times, forever=True)
    if problem.weight_decay:
        raise InvalidInput(
            f"lazy_limit has no weight decay, and this problem has {problem.weight_decay:g}: try weight_decay=0."
        )
    needs_samples(problem, "lazy_limit")
    needs_squared_loss(problem, "the closed form of the lazy limit", "its outputs then move exponentially")
    return Trajectory.of_tangent_model(times, _tangent_model(problem))


def _tangent_model(problem: Problem) -> TangentModel:
    """From the side that is smaller."""
    network = problem.network
    if network.activation.linear:
        with one_blas_thread(max(network.sizes) <= SMALL):
            return LinearTangent(problem)
    assert problem.task.targets is not None
    (P, out), weights = problem.task.targets.shape, sum(W.size for W in network.free(network.weights))
    fewer = min(P * out, weights)
    if fewer > LARGEST:
        raise InvalidInput(
            f"lazy_limit of a network that is not linear needs at most {LARGEST} samples × outputs, or as many weights "
            f"and biases, for their eigenproblem, and there are {P} × {out} and {weights}: try fewer samples, or a "
            "narrower network."
        )
    with one_blas_thread(fewer <= SMALL):
        return SampledTangent(problem) if P * out <= weights else WeightTangent(problem)


class Relaxation:
    """x(t) = x* + (x(0) − x*) e^{−FᵀFt} of many rows at once, from the singular values g of F and its right vectors V.

    Directions of rounding (g at most `n` eps of the largest) never move.
    """

    def __init__(self, g: Float[Array, "rows n"], V: Float[Array, "any n n"], x0: Array, target: Array) -> None:
        n = V.shape[-1]
        self.g = np.where(g > n * _EPS * g.max(axis=1, keepdims=True, initial=0.0), g, 0.0)
        self.V = V
        self.x0, self.target = self._turned(x0.reshape(-1, n)), self._turned(target.reshape(-1, n))

    def _turned(self, x: Float[Array, "rows n"]) -> Float[Array, "rows n"]:
        return (x[:, None] @ self.V)[:, 0]

    def _back(self, x: Float[Array, "T rows n"]) -> Float[Array, "T rows n"]:
        return np.swapaxes(np.swapaxes(x, 0, 1) @ np.swapaxes(self.V, 1, 2), 0, 1)

    def at(self, times: Float[Array, " T"]) -> Float[Array, "T rows n"]:
        """x(t); no difference of x(0) and x* is taken, so that a small one keeps its digits."""
        exponent = _exponent(self.g, times)
        return self._back(self.x0 * np.exp(exponent) - self.target * np.expm1(exponent))

    def error(self, times: Float[Array, " T"]) -> Float[Array, " T"]:
        """‖x(t) − x*‖²."""
        return np.sum(((self.x0 - self.target) * np.exp(_exponent(self.g, times))) ** 2, axis=(1, 2))

    def drive(self, times: Float[Array, " T"]) -> Float[Array, "T rows n"]:
        """∫₀ᵗ (x* − x), but for directions that never move, where it would grow for ever and moves no weight."""
        over_g = np.divide(1.0, self.g, out=np.zeros_like(self.g), where=self.g > 0)
        return self._back((self.x0 - self.target) * np.expm1(_exponent(self.g, times)) * over_g**2)


class LinearTangent(TangentModel):
    """W(t) of a linear network of any depth."""

    gives = ("function", "loss")

    def __init__(self, problem: Problem) -> None:
        self.problem, network, task = problem, problem.network, problem.task
        self.Q, self.s = _inputs_seen(task)
        C = self.Q * self.s
        self.after, self.before = _products(network)
        if network.depth <= 2:
            self.U, g, V = self._row_by_row(C)
        else:
            self.U, (g, V) = np.eye(task.d_out), self._all_at_once(C)
        self.x = Relaxation(g, V, self.U.T @ network.function @ C, self.U.T @ task.target @ C)

    def _row_by_row(self, C: Float[Array, "in r"]) -> tuple[Array, Array, Array]:
        """Eigenvectors U of A_1A_1ᵀ, and g and V of each H_i; one V where they share it."""
        (eta, *eta2), r = self.problem.rates, C.shape[1]
        U, sigma, _ = np.linalg.svd(_triangle([self.after[0].T]).T)
        rho = np.sqrt(eta) * np.pad(_without_rounding(sigma, self.after[0].shape), (0, len(U) - len(sigma)))  # roots
        if not eta2:
            return U, np.outer(rho, self.s), np.eye(r)[None]
        shared = _triangle([np.sqrt(eta2[0]) * self.before[1] @ C])
        if self.problem.task.whitening_error == 0:
            own, V = _singular(shared)
            return U, np.hypot(rho[:, None] * self.s, _without_rounding(own, shared.shape)), V
        _check.memory("lazy_limit", 6.0 * len(U) * r**2, "white inputs (task.whitened()), or fewer outputs")
        rows = rho[:, None, None] * np.diag(self.s)
        F = np.concatenate([rows, np.broadcast_to(shared, (len(U), *shared.shape))], axis=1)
        _, g, Vt = np.linalg.svd(F, full_matrices=False)
        return U, g, np.swapaxes(Vt, 1, 2)

    def _all_at_once(self, C: Float[Array, "in r"]) -> tuple[Array, Array]:
        """g and V of the whole H."""
        out, r = self.problem.task.d_out, C.shape[1]
        if out * r > LARGEST:
            raise InvalidInput(
                f"lazy_limit of more than two layers needs at most {LARGEST} inputs × outputs, for their eigenproblem, "
                f"and there are {r} × {out}: try two layers, or task inputs of fewer directions."
            )
        layers = zip(self.problem.rates, self.after, self.before, strict=True)
        blocks = (np.kron(np.sqrt(eta) * _triangle([A.T]), _triangle([B @ C])) for eta, A, B in layers)
        return _singular(_triangle(blocks))

    def function(self, times: Float[Array, " T"]) -> Float[Array, "T out in"]:
        T, out, r = len(times), len(self.U), len(self.s)
        W = self.U @ (self.x.at(times).reshape(T, out, r) / self.s) @ self.Q.T
        if r == len(self.Q):
            return W
        error = self.U @ (self.x.drive(times).reshape(T, out, r) * self.s) @ self.Q.T  # ∫E
        moved = self.problem.network.function + sum(
            eta * (A @ A.T) @ error @ (B.T @ B)
            for eta, A, B in zip(self.problem.rates, self.after, self.before, strict=True)
        )
        return W + moved - moved @ self.Q @ self.Q.T

    def loss(self, times: Float[Array, " T"]) -> Float[Array, " T"]:
        return self.x.error(times) / 2 + self.problem.task.loss_floor

    def _answers(self, times: Float[Array, " T"], inputs: Float[Array, "P in"]) -> Float[Array, "T P out"]:
        return _seen(self.problem.network, inputs) @ np.swapaxes(self.function(times), 1, 2)


class _OnSamples(TangentModel):
    """The outputs of any network, of any depth and activation, on the samples of its task.

    At a kink the slope is that below it, as in the flow.
    """

    gives = ("outputs", "loss")

    def __init__(self, problem: Problem) -> None:
        assert problem.task.inputs is not None and problem.task.targets is not None
        self.problem, self.inputs, self.targets = problem, problem.task.inputs, problem.task.targets
        self.weight = 1 / len(self.inputs) if problem.task.reduction == "mean" else 1.0

    def _features(self, inputs: Float[Array, "P in"]) -> Iterator[Float[Array, "weights n"]]:
        """√(wη) × the derivative of every output by every weight, some weights at a time."""
        for eta, block in zip(self.problem.rates[::-1], _jacobian(self.problem.network, inputs), strict=True):
            for rows in block:
                yield np.sqrt(self.weight * eta) * rows

    @abstractmethod
    def outputs(self, times: Float[Array, " T"]) -> Float[Array, "T P out"]:
        """On the samples."""


class SampledTangent(_OnSamples):
    """By the right vectors of F: those of samples × outputs, where these are few."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        n, weights = self.targets.size, sum(W.size for W in problem.network.weights)
        with progress(weights + _VECTORS * n, "lazy_limit") as advance:
            g, V = _singular(_triangle(self._features(self.inputs), advance))
        self.x = Relaxation(g, V, _outputs(problem.network, self.inputs), self.targets)

    def outputs(self, times: Float[Array, " T"]) -> Float[Array, "T P out"]:
        return self.x.at(times).reshape(-1, *self.targets.shape)

    def loss(self, times: Float[Array, " T"]) -> Float[Array, " T"]:
        return self.x.error(times) * (self.weight / 2)

    def _answers(self, times: Float[Array, " T"], inputs: Float[Array, "P in"]) -> Float[Array, "T P out"]:
        inputs = _seen(self.problem.network, inputs)
        pairs = zip(self._features(inputs), self._features(self.inputs), strict=True)
        kernel = np.asarray(sum(new.T @ known for new, known in pairs))
        first = _outputs(self.problem.network, inputs)
        # 1/g² is then no more than double precision can take back
        resolved = np.minimum(times, (_RESOLVED * max(float(self.x.g.max()), 1e-140)) ** -2)
        return first + (self.x.drive(resolved)[:, 0] @ kernel.T).reshape(len(times), *first.shape)


class WeightTangent(_OnSamples):
    """By the left vectors of F: those of the weights, where these are fewer. F is never held as a whole.

    [Fᵀ, y − f_0] is reduced to a triangle, some samples at a time; its last column then is y − f_0 in the basis of the
    others, to rounding, without that basis.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        n, weights = self.targets.size, sum(W.size for W in problem.network.free(problem.network.weights))
        with progress(n + _VECTORS * weights, "lazy_limit") as advance:
            R = _triangle((np.column_stack(block) for block in self._rows()), advance)
            U, g, Vt = np.linalg.svd(R[:, :-1])
        self.g, self.V = _without_rounding(g, (n,)), Vt[: len(g)].T
        self.missing = U.T @ R[:, -1]  # u_iᵀ(y − f_0), and behind them what no weight can reach

    def _rows(self) -> Iterator[tuple[Float[Array, "n weights"], Float[Array, " n"]]]:
        """Fᵀ and y − f_0, some samples at a time."""
        missing = self.targets - _outputs(self.problem.network, self.inputs)
        for some in _some_samples(self.targets):
            yield self._by_weights(self.inputs[some]), missing[some].ravel()

    def _by_weights(self, inputs: Float[Array, "P in"]) -> Float[Array, "n weights"]:
        return np.concatenate(list(self._features(inputs))).T

    def outputs(self, times: Float[Array, " T"]) -> Float[Array, "T P out"]:
        return self._answered(times, self.inputs)

    def loss(self, times: Float[Array, " T"]) -> Float[Array, " T"]:
        reached, unreached = np.split(self.missing, [len(self.g)])
        left = np.sum((reached * np.exp(_exponent(self.g, times))) ** 2, axis=1)
        return (left + unreached @ unreached) * (self.weight / 2)

    def _answers(self, times: Float[Array, " T"], inputs: Float[Array, "P in"]) -> Float[Array, "T P out"]:
        return self._answered(times, _seen(self.problem.network, inputs))

    def _answered(self, times: Float[Array, " T"], inputs: Float[Array, "P in"]) -> Float[Array, "T P out"]:
        """f_0 + J Δθ."""
        over_g = np.divide(1.0, self.g, out=np.zeros_like(self.g), where=self.g > 0)
        way = over_g * self.missing[: len(self.g)]
        moved = -self.V @ (np.expm1(_exponent(self.g, times)) * way).T
        f = np.repeat(_outputs(self.problem.network, inputs)[None], len(times), axis=0)
        for some in _some_samples(f[0]):
            f[:, some] += (self._by_weights(inputs[some]) @ moved).T.reshape(f[:, some].shape)
        return f


def _exponent(g: Float[Array, "*n"], times: Float[Array, " T"]) -> Float[Array, "T *n"]:
    """−g²t."""
    with np.errstate(over="ignore"):
        return -((g * np.sqrt(times).reshape(-1, *[1] * g.ndim)) ** 2)  # as g² may overflow where t is 0


def _some_samples(outputs: Float[Array, "P out"]) -> Iterator[slice]:
    """So many samples at a time that their Jacobian is no larger than the matrices of the eigenproblem."""
    P, out = outputs.shape
    step = max(1, 2 * LARGEST // out)
    return (slice(start, start + step) for start in range(0, P, step))


def _seen(network: Network, inputs: Float[Array, "P in"]) -> Float[Array, "P _"]:
    """Inputs as the first layer takes them: with the constant of biases."""
    return with_constant(inputs) if network.biased else inputs


def _outputs(network: Network, inputs: Float[Array, "P in"]) -> Float[Array, "P out"]:
    """What the network answers to inputs as the first layer takes them."""
    *_, outputs = forward(network.weights, network.activation, inputs)
    return np.asarray(outputs)


def _inputs_seen(task: Task) -> tuple[Float[Array, "in r"], Float[Array, " r"]]:
    """Q and s > 0 with Σxx = Q diag(s²) Qᵀ, from the samples where they are known: squaring them would lose digits."""
    if task.whitening_error == 0:
        return np.eye(task.d_in), np.full(task.d_in, np.sqrt(task.input_scale))
    if task.inputs is not None:
        _, s, Vt = np.linalg.svd(task.inputs, full_matrices=False)
        seen = s > max(task.inputs.shape) * _EPS * s[0]
        return Vt[seen].T, s[seen] / (np.sqrt(len(task.inputs)) if task.reduction == "mean" else 1.0)
    variances, Q = np.linalg.eigh(task.sigma_xx)
    seen = variances > len(Q) * _EPS * variances[-1]
    return Q[:, seen], np.sqrt(variances[seen])


def _products(network: Network) -> tuple[list[Array], list[Array]]:
    """W_{L:ℓ+1} and W_{ℓ−1:1} of each layer ℓ."""
    after, before = [np.eye(network.sizes[-1])], [np.eye(network.sizes[0])]
    for W in network.weights[:-1]:
        before.append(W @ before[-1])
    for W in network.weights[:0:-1]:
        after.insert(0, after[0] @ W)
    if network.biased:  # what makes the constant of biases stays
        after = [*(A[:, :-1] for A in after[:-1]), after[-1]]
    return after, before


def _jacobian(network: Network, inputs: Float[Array, "P in"]) -> Iterator[Iterator[Float[Array, "weights n"]]]:
    """∂f/∂W_ℓ of all samples and outputs, last layer first; of each layer some units at a time."""
    activity = [inputs, *forward(network.weights, network.activation, inputs)][:-1]
    P, out = len(inputs), network.sizes[-1]
    back = np.broadcast_to(np.eye(out), (P, out, out))  # ∂f/∂z of the layer above, sample by sample

    def rows(back: Float[Array, "P out units"], below: Float[Array, "P h"]) -> Iterator[Float[Array, "weights n"]]:
        step = max(1, LARGEST // below.shape[1])  # the same for any samples
        for start in range(0, back.shape[2], step):
            some = back[:, :, start : start + step]
            yield np.einsum("pok,pj->kjpo", some, below).reshape(-1, P * out)

    for layer in reversed(range(network.depth)):
        stays = network.biased and layer < network.depth - 1  # the last unit, which makes the constant of biases
        yield rows(back[:, :, :-1] if stays else back, activity[layer])
        if layer:
            slope = network.activation.derivative(activity[layer - 1] @ network.weights[layer - 1].T)
            back = (back @ network.weights[layer]) * slope[:, None, :]


def _nothing(amount: float) -> None:
    """Moves no bar."""


def _triangle(
    blocks: Iterable[Float[Array, "rows n"]], advance: Callable[[float], object] = _nothing
) -> Float[Array, "k n"]:
    """R with RᵀR = Σ BᵀB and no more rows than columns; all blocks are never held at once."""
    R: Array | None = None
    for block in blocks:
        stacked = block if R is None else np.concatenate([R, block])
        n = stacked.shape[1]
        R = qr(stacked, mode="r", overwrite_a=R is not None, check_finite=False)[0][:n] if len(stacked) > n else stacked
        advance(len(block))
    assert R is not None
    return R


def _singular(F: Float[Array, "k n"]) -> tuple[Float[Array, "1 n"], Float[Array, "1 n n"]]:
    """Singular values of F, with zeros to the number of its columns, and all right vectors."""
    _, g, Vt = np.linalg.svd(F)
    return np.pad(g, (0, F.shape[1] - len(g)))[None], Vt.T[None]


def _without_rounding(sigma: Float[Array, "*k"], shape: tuple[int, ...]) -> Float[Array, "*k"]:
    """Singular values, with those of rounding set to zero."""
    return np.where(sigma > max(shape) * _EPS * sigma.max(initial=0.0), sigma, 0.0)
