"""Networks with biases as one vector of parameters, by brute force: their flow by scipy's integrator, and that of their
tangent model by the Jacobian in complex steps, parameter by parameter, and expm.

An output multiplier τ is what Chizat et al. say: f → τf, learned at rate/τ², in every layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp
from scipy.linalg import expm

SIGMA = {"linear": lambda z: z, "relu": lambda z: np.where(z.real > 0, z, 0), "tanh": np.tanh}


@dataclass
class Biased:
    weights: list
    biases: list
    activation: str
    tau: float
    rates: list
    inputs: np.ndarray
    targets: np.ndarray

    def __post_init__(self):
        parts = [part for pair in zip(self.weights, self.biases, strict=True) for part in pair]
        self.shapes = [part.shape for part in parts]
        self.theta = np.concatenate([part.ravel() for part in parts])
        each = [rate / self.tau**2 for rate in self.rates for _ in range(2)]
        self.eta = np.concatenate([np.full(part.size, rate) for part, rate in zip(parts, each, strict=True)])

    def f(self, theta, inputs):
        """(P, out), analytic in θ."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])[:-1]
        parts = [p.reshape(shape) for p, shape in zip(np.split(theta, ends), self.shapes, strict=True)]
        h = inputs
        for i, (W, b) in enumerate(zip(parts[::2], parts[1::2], strict=True)):
            h = (SIGMA[self.activation](h) if i else h) @ W.T + b
        return self.tau * h

    def jacobian(self, theta, inputs):
        """(P·out, parameters)."""
        step = 1e-30j * np.eye(len(theta))
        return np.stack([self.f(theta + d, inputs).imag.ravel() / 1e-30 for d in step], axis=1)

    def flow(self, times):
        """Outputs on the samples, (T, P, out)."""

        def velocity(_, theta):
            missing = (self.targets - self.f(theta, self.inputs)).ravel() / len(self.inputs)
            return self.eta * (self.jacobian(theta, self.inputs).T @ missing)

        run = solve_ivp(velocity, (0, times[-1]), self.theta, "DOP853", times, rtol=1e-10, atol=1e-12)
        return np.array([self.f(theta, self.inputs) for theta in run.y.T])

    def tangent(self, times, inputs):
        """Outputs of f_0 + J_0 Δθ at any inputs, (T, P, out)."""
        root = np.sqrt(self.eta)
        J, here = (self.jacobian(self.theta, X) * root for X in (self.inputs, inputs))
        missing = (self.targets - self.f(self.theta, self.inputs)).ravel()
        p, found = len(root), []
        affine = np.zeros((p + 1, p + 1))
        affine[:p, :p], affine[:p, p] = -J.T @ J / len(self.inputs), J.T @ missing / len(self.inputs)
        for time in times:
            moved = expm(affine * time)[:p, p]
            found.append(self.f(self.theta, inputs) + (here @ moved).reshape(len(inputs), -1))
        return np.array(found)
