"""Piecewise linear networks with δ_k ≪ 0, δ_k = 0 and δ_k ≫ 0: what moves, how fast, and what stands still."""

from collections.abc import Callable

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import along, relative_error
from lazyrich.papers.base.types import Rng
from lazyrich.papers.kunin2024.claims.measures import even_limit, rates, tangent, velocity
from lazyrich.papers.kunin2024.claims.piecewise import Eta, beta_parts, drawn, loss_of, sigma, spherical, xi_of

NOT_CHECKED = (
    NotChecked(
        "Section 5, Balanced",
        "Each neuron aligns to fixed points that depend on the data; then the radial dynamics dominate and the data "
        "are fitted, perhaps in several stages.",
        "A description, with references to other work. What it rests on, the separation of speeds, is entered.",
    ),
    NotChecked(
        "Section 5, Connections to infinite width",
        "The phase diagram over scale and δ is analogous to that of infinitely wide networks over scale and relative "
        "variance.",
        "An analogy to the results of another paper.",
    ),
)

_FAR = 1e3  # |δ| of the first of two values from which a limit is extrapolated
_NOTHING = 1e-9  # of a speed of order one


def with_delta(coordinates: Array, delta: float, eta: Eta) -> list[Array]:
    """[a, W] with given μ_k and β̂_k: η|·|² of the heavy layer is |δ|, so that δ_k = δ(1 − O(δ⁻²)); δ = 0 exactly."""
    mu, direction = coordinates[:, :1], coordinates[:, 1:]
    if delta == 0:
        norms = np.sqrt(np.abs(mu) * np.sqrt(eta[1] / eta[0]))
    else:
        norms = np.sqrt(-delta / eta[0]) * np.ones_like(mu) if delta < 0 else np.abs(mu) / np.sqrt(delta / eta[1])
    return [(mu / norms)[:, 0], norms * direction]


def true_spherical_velocity(coordinates: Array, delta: float, X: Array, y: Array, gamma: float, eta: Eta) -> Array:
    start = with_delta(coordinates, delta, eta)
    return along(spherical, start, velocity(loss_of(X, y, gamma), start, eta))


@claim(
    "kunin2024/piecewise-balanced",
    place="Section 5, Balanced",
    statement="For δ_k = 0 directions turn at a speed that does not depend on their strength, and strengths grow in "
    "proportion to themselves.",
    formula=r"M_k = \sqrt{\eta_a\eta_w}|\mu_k|(I_d + \hat\beta_k\hat\beta_k^\top), \quad \dot{\hat\beta}_k ="
    r" -\sqrt{\eta_a\eta_w}\operatorname{sgn}(\mu_k)(I_d - \hat\beta_k\hat\beta_k^\top)\xi_k, \quad"
    r" \dot\mu_k = -2\sqrt{\eta_a\eta_w}|\mu_k|\hat\beta_k^\top\xi_k",
    conditions="δ_k = 0, β_k ≠ 0.",
    tolerance=1e-9,
    seeds=4,
)
def piecewise_balanced(rng: Rng) -> float:
    start, X, y, gamma, eta = drawn(rng)
    gain, coordinates = np.sqrt(eta[0] * eta[1]), spherical(start)
    start = with_delta(coordinates, 0.0, eta)
    mu, direction, xi = coordinates[:, :1], coordinates[:, 1:], xi_of(start, X, y, gamma)
    radial = (direction * xi).sum(axis=1, keepdims=True)
    printed = np.hstack([-2 * gain * np.abs(mu) * radial, -gain * np.sign(mu) * (xi - direction * radial)])
    Ms = [gain * abs(m) * (np.eye(len(b)) + np.outer(b, b)) for m, b in zip(mu[:, 0], direction, strict=True)]
    followed = -np.einsum("kij,kj->ki", Ms, xi)
    moving = velocity(loss_of(X, y, gamma), start, eta)
    return max(
        relative_error(printed, along(spherical, start, moving)),
        relative_error(followed, along(beta_parts, start, moving)),
    )


def _limit_error(rng: Rng, sign: int, printed: Callable[[Array, Array], Array]) -> float:
    """Velocities over |δ| for δ → ±∞, against what is printed from coordinates and ξ."""
    start, X, y, gamma, eta = drawn(rng)
    coordinates, xi = spherical(start), xi_of(start, X, y, gamma)
    truth = even_limit(lambda x: true_spherical_velocity(coordinates, sign * x, X, y, gamma, eta) / x, _FAR)
    return relative_error(printed(coordinates, xi), truth)


@claim(
    "kunin2024/piecewise-downstream",
    place="Section 5, Downstream",
    statement="For δ_k ≪ 0 only the strength of a neuron moves, and its direction stands still.",
    formula=r"\dot{\hat\beta}_k \approx 0, \qquad \dot\mu_k \approx -|\delta_k|\hat\beta_k^\top\xi_k",
    conditions="δ_k → −∞ at fixed β_k ≠ 0; both sides are divided by |δ_k|.",
    tolerance=1e-8,
)
def piecewise_downstream(rng: Rng) -> float:
    def printed(coordinates: Array, xi: Array) -> Array:
        direction = coordinates[:, 1:]
        return np.hstack([-(direction * xi).sum(axis=1, keepdims=True), np.zeros_like(direction)])

    return _limit_error(rng, -1, printed)


@claim(
    "kunin2024/piecewise-upstream",
    place="Section 5, Upstream",
    statement="For δ_k ≫ 0 a neuron moves by plain gradient flow: its direction turns faster the weaker it is.",
    formula=r"M_k \approx \delta_k I_d, \qquad \dot{\hat\beta}_k \approx"
    r" -\delta_k\mu_k^{-1}(I_d - \hat\beta_k\hat\beta_k^\top)\xi_k, \qquad"
    r" \dot\mu_k \approx -\delta_k\hat\beta_k^\top\xi_k",
    conditions="δ_k → ∞ at fixed β_k ≠ 0; both sides are divided by δ_k.",
    tolerance=1e-8,
    seeds=5,
)
def piecewise_upstream(rng: Rng) -> float:
    def printed(coordinates: Array, xi: Array) -> Array:
        mu, direction = coordinates[:, :1], coordinates[:, 1:]
        radial = (direction * xi).sum(axis=1, keepdims=True)
        return np.hstack([-radial, -(xi - direction * radial) / mu])

    return _limit_error(rng, 1, printed)


def kernel_slope(start: list[Array], X: Array, y: Array, gamma: float, eta: Eta) -> float:
    """‖K̇‖/‖K‖ at fixed activation patterns, where K is quadratic in the weights and a central difference exact."""
    active = X @ start[1].T > 0

    def seen(p: list[Array]) -> Array:
        return (np.where(active, 1.0, gamma) * (X @ p[1].T)) @ p[0]

    moving = velocity(loss_of(X, y, gamma), start, eta)
    ahead, behind = ([p + sign * v for p, v in zip(start, moving, strict=True)] for sign in (1, -1))
    slope = (tangent(seen, ahead, eta) - tangent(seen, behind, eta)) / 2
    return float(np.linalg.norm(slope) / np.linalg.norm(tangent(seen, start, eta)))


def frozen(rng: Rng, sign: int) -> tuple[float, float]:
    """Relative speeds, for δ → ±∞ in the time |δ|t, of the kernel at fixed patterns and of all parameters."""
    start, X, y, _, eta = drawn(rng)
    gamma, coordinates = 0.3, spherical(start)  # leaky: every neuron sees every sample, and no kernel is zero

    def speeds(size: float) -> Array:
        weights = with_delta(coordinates, sign * size, eta)
        moving = velocity(loss_of(X, y, gamma), weights, eta)
        lengths = [np.sqrt(sum(np.sum(p**2) for p in parts)) for parts in (moving, weights)]
        return np.array([kernel_slope(weights, X, y, gamma, eta), lengths[0] / lengths[1]]) / size

    kernel, _ = even_limit(speeds, 10 * _FAR)
    (_, slower), (_, faster) = speeds(20 * _FAR), speeds(10 * _FAR)
    return abs(float(kernel)), abs(float(2 * slower - faster))  # which is odd in 1/δ


@claim(
    "kunin2024/piecewise-downstream-kernel",
    place="Section 5, Downstream",
    statement="For δ_k ≪ 0 neither the partition nor the activation patterns nor M_k change while strengths are "
    "fitted, so that the tangent kernel stays constant.",
    formula=r"\delta_k \to -\infty \;\Rightarrow\; \frac{1}{|\delta|}\frac{\|\dot K\|}{\|K\|} \to 0",
    conditions="β_k ≠ 0 fixed; time is measured by |δ|t, in which strengths move.",
    tolerance=1e-8,
    seeds=8,
)
def piecewise_downstream_kernel(rng: Rng) -> float:
    return frozen(rng, -1)[0]


def after_lazy_learning(directions: Array, X: Array, y: Array, gamma: float) -> Array:
    """μ_k and β̂_k when strengths alone have fitted the data as far as the h features σ(β̂_kᵀx_i) can."""
    features = sigma(X @ directions.T, gamma)
    return np.hstack([np.linalg.lstsq(features, y, rcond=None)[0][:, None], directions])


def turning_after(coordinates: Array, X: Array, y: Array, gamma: float, eta: Eta) -> float:
    """‖K̇‖/‖K‖ at 2|δ| over that at |δ|, for δ → −∞; 0 where nothing turns."""

    largest = float(np.abs(coordinates[:, 0]).max())  # what |δ| has to exceed

    def turning(size: float) -> float:
        return kernel_slope(with_delta(coordinates, -size * largest, eta), X, y, gamma, eta)

    turns = _FAR * turning(_FAR) > _NOTHING
    return float(even_limit(lambda x: turning(2 * x) / turning(x), _FAR)) if turns else 0.0


def too_few(rng: Rng, gamma: float, below_inputs: bool) -> tuple[Array, Array, Array, float, Eta]:
    """Directions of h neurons, and more than h samples, which no h features fit; if asked, more than h inputs too."""
    h = int(rng.integers(1, 4))
    d = h + int(rng.integers(1, 3)) if below_inputs else int(rng.integers(1, 4))
    n = h + int(rng.integers(1, 4))
    directions = rng.normal(size=(h, d))
    X, y = rng.normal(size=(n, d)), rng.normal(size=n)
    return directions / np.linalg.norm(directions, axis=1)[:, None], X, y, gamma, rates(rng)


def _error_of_alignment(directions: Array, X: Array, y: Array, gamma: float, eta: Eta) -> float:
    """Of what follows from what is printed: strengths rest, and the kernel turns, half as fast for twice the |δ|."""
    coordinates = after_lazy_learning(directions, X, y, gamma)
    moving = true_spherical_velocity(coordinates, -_FAR, X, y, gamma, eta)[:, 0] / _FAR
    return max(float(np.abs(moving).max()), abs(turning_after(coordinates, X, y, gamma, eta) - 0.5))


@claim(
    "kunin2024/piecewise-delayed-rich",
    place="Section 5, Downstream, last sentence",
    statement="If there are too few neurons to fit the data, a delayed rich phase follows, in which neurons align and "
    "the kernel changes, and |δ_k| sets the delay. Read as: the strengths, which move alone at first, leave a loss; "
    "then the kernel turns, at a rate inversely proportional to |δ|.",
    formula=r"\min_\mu \sum_i \Big(\sum_k \mu_k\sigma(\hat\beta_k^\top x_i) - y_i\Big)^2 > 0 \;\Rightarrow\;"
    r" \lim_{\delta\to-\infty} |\delta|\,\frac{\|\dot K\|}{\|K\|} = \mathrm{const} \ne 0",
    conditions="δ_k → −∞, fewer neurons than samples, at the end of the lazy phase, where μ is that of the least loss.",
    tolerance=1e-6,
    seeds=4,
)
def piecewise_delayed_rich(rng: Rng) -> float:
    return _error_of_alignment(*too_few(rng, float(rng.choice([0.0, rng.uniform(0.05, 0.9)])), below_inputs=False))


@piecewise_delayed_rich.stronger(
    "The lazy phase does not end at a critical point: some neuron sees an error that it could lessen by turning. So it "
    "is for almost all leaky networks, γ > 0, with fewer neurons than inputs. Where as many neurons as inputs are "
    "active on the same samples, their strengths alone have fitted all that turning could; and a ReLU that sees one "
    "sample only never turns to the others."
)
def piecewise_delayed_rich_where_errors_are_seen(rng: Rng) -> float:
    return _error_of_alignment(*too_few(rng, float(rng.uniform(0.05, 0.9)), below_inputs=True))


@piecewise_delayed_rich.counterexample(
    "One ReLU, w along (1, 0), unit rates, samples (1, 1) and (−1, 0), y = 1 for both: the second is never seen, the "
    "loss stays at ½, and nothing turns. The rate of the kernel at 2|δ| over that at |δ|, which should be ½, put at 0"
)
def _() -> tuple[float, float]:
    direction, X, y = np.array([[1.0, 0.0]]), np.array([[1.0, 1.0], [-1.0, 0.0]]), np.ones(2)
    return 0.5, turning_after(after_lazy_learning(direction, X, y, 0.0), X, y, 0.0, (1.0, 1.0))


@claim(
    "kunin2024/piecewise-upstream-frozen",
    place="Section 5, Upstream",
    statement="For δ_k ≫ 0 M_k stays constant, so that the kernel changes by the activation patterns alone, and the "
    "parameters do not move far.",
    formula=r"\delta_k \to \infty \;\Rightarrow\; \frac1\delta\frac{\|\dot M_k\|}{\|M_k\|} \to 0, \qquad"
    r" \frac1\delta\frac{\|\dot\theta\|}{\|\theta\|} \to 0",
    conditions="β_k ≠ 0 fixed; time is measured by δt, in which β_k moves.",
    tolerance=1e-8,
    seeds=13,
)
def piecewise_upstream_frozen(rng: Rng) -> float:
    return max(frozen(rng, 1))


def symmetric(rng: Rng) -> tuple[Array, Array, Array, float, Eta]:
    """μ_k and β̂_k of neurons in pairs of opposite strength, so that f = 0 at any scale; and data."""
    start, X, y, gamma, eta = drawn(rng)
    mu, direction = spherical(start)[:, :1], spherical(start)[:, 1:]
    return np.vstack([np.hstack([mu, direction]), np.hstack([-mu, direction])]), X, y, gamma, eta


@claim(
    "kunin2024/piecewise-phase-one",
    place="Section 5, Balanced, Phase I",
    statement="As the scale of a start vanishes, the vector that drives a neuron becomes independent of all other "
    "neurons.",
    formula=r"\xi_k \to -\sum_i c_{ki}x_iy_i \quad (\|\beta_k(0)\| \to 0)",
    conditions="All β_k shrink together, directions fixed.",
    tolerance=1e-10,
)
def piecewise_phase_one(rng: Rng) -> float:
    """ξ_k read off the velocity of w_k, which is −η_w a_k ξ_k."""
    start, X, y, gamma, eta = drawn(rng)

    def driving(shrinking: float) -> Array:
        weights = [p / np.sqrt(shrinking) for p in start]
        return -velocity(loss_of(X, y, gamma), weights, eta)[1] / (eta[1] * weights[0][:, None])

    limit = 2 * driving(2e4) - driving(1e4)  # f is proportional to the scale, exactly
    return relative_error(-(np.where(X @ start[1].T > 0, 1.0, gamma) * y[:, None]).T @ X, limit)


@claim(
    "kunin2024/piecewise-speeds",
    place="Section 5, Balanced and Upstream",
    statement="At a small scale s of all β_k, a balanced network turns its neurons at a speed that does not depend on "
    "s and changes their strengths at a speed proportional to s; an upstream one turns them at a speed proportional to "
    "1/s and changes strengths at one that does not depend on s.",
    formula=r"\text{balanced: } |\dot\mu_k| \propto s,\ \|\dot{\hat\beta}_k\| \propto s^0; \qquad"
    r" \text{upstream: } |\dot\mu_k| \propto s^0,\ \|\dot{\hat\beta}_k\| \propto s^{-1}",
    conditions="s → 0; δ_k = 0, or δ_k > 0 fixed.",
    tolerance=1e-8,
    seeds=11,
)
def piecewise_speeds(rng: Rng) -> float:
    """Exponents between s = 1e-6 and 2e-6, from starts that predict 0."""
    coordinates, X, y, gamma, eta = symmetric(rng)
    errors = []
    for delta, powers in ((0.0, (1, 0)), (1.0, (0, -1))):
        slow, fast = (
            true_spherical_velocity(coordinates * np.array([s, *[1.0] * X.shape[1]]), delta, X, y, gamma, eta)
            for s in (1e-6, 2e-6)
        )
        parts = [(slice(0, 1), powers[0])] + [(slice(1, None), powers[1])] * (X.shape[1] > 1)  # one input cannot turn
        errors += [relative_error(2.0**power * slow[:, part], fast[:, part]) for part, power in parts]
    return max(errors)
