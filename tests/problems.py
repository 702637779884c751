"""Random trajectories of every kind that observables are asked of, the same for the same seed.

Observables are functions of what a trajectory holds, so a sampled one may hold any weights at all: no time is spent
on integrating. Exact ones are solved.
"""

from __future__ import annotations

import numpy as np

import lazyrich as lr

TIMES = 4
SEEDS = range(50)


def sizes_of(rng: np.random.Generator, depth: int, largest: int = 7) -> tuple[int, ...]:
    return tuple(int(size) for size in rng.integers(1, largest + 1, size=depth + 1))


def task_of(rng: np.random.Generator, d_in: int, d_out: int, *, samples: int | None = None) -> lr.Task:
    """Samples with correlated inputs; fewer than inputs in some, so that Σxx is singular."""
    P = int(rng.integers(max(2, d_in - 1), 3 * d_in + 3)) if samples is None else samples
    mix = rng.normal(size=(d_in, d_in))
    return lr.Task.from_data(rng.normal(size=(P, d_in)) @ mix, rng.normal(size=(P, d_out)))


def solved(seed: int) -> lr.Trajectory:
    """Two layers, white inputs, λ-balanced: the closed form, with layer rates in every third."""
    rng = np.random.default_rng((1, seed))
    d_in, h, d_out = sizes_of(rng, 2)
    lam = [0.0, 1.0, -1.0, 0.0, 5.0][seed % 5]
    lam = 0.0 if (lam > 0 and h > d_out) or (lam < 0 and h > d_in) else lam
    network = lr.inits.lambda_balanced(rng, sizes=(d_in, h, d_out), lam=lam, scale=float(10 ** rng.uniform(-2, 0.3)))
    rates = None
    if seed % 3 == 0 and lam == 0:
        rates = rng.uniform(0.3, 3, size=2)
        k = [np.sqrt(rate) for rate in rates]  # W_ℓ ∝ √η_ℓ v_ℓ stays balanced under these rates
        network = lr.Network([k_l * W for k_l, W in zip(k, network.weights, strict=True)])
    task = lr.Task.from_data(*white_samples(rng, d_in, d_out))
    return lr.solve(lr.Problem(task, network, rates=rates), np.sort(rng.uniform(0, 4, size=TIMES)))


def white_samples(rng: np.random.Generator, d_in: int, d_out: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs with Σxx = I up to rounding, and any targets."""
    P = int(rng.integers(d_in + 1, 3 * d_in + 3))
    frame = np.linalg.qr(rng.normal(size=(P, d_in)))[0]
    return np.sqrt(P) * frame, rng.normal(size=(P, d_out))


def sampled(seed: int, depth: int | None = None, activation: str | float = "linear") -> lr.Trajectory:
    """Any weights of a network of any depth, as `flow` or `descend` might have recorded them."""
    rng = np.random.default_rng((2, seed))
    L = int(rng.integers(1, 5)) if depth is None else depth
    sizes = sizes_of(rng, L)
    scale = 10 ** rng.uniform(-1, 0.5)
    weights = [scale * rng.normal(size=(TIMES, *shape)) for shape in zip(sizes[1:], sizes[:-1], strict=True)]
    task = task_of(rng, sizes[0], sizes[-1])
    network = lr.Network([W[0] for W in weights], activation)
    problem = lr.Problem(task, network, rates=rng.uniform(0.3, 3, size=L))
    return lr.Trajectory(problem, np.arange(float(TIMES)), "flow", {"weights": weights})


def piecewise_linear(seed: int) -> lr.Trajectory:
    """Two layers with a ReLU or a leaky one between them."""
    return sampled(seed, depth=2, activation=("relu", 0.2, 0.7)[seed % 3])
