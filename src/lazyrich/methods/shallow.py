"""ShallowSolution networks: gradient flow of linear regression, for any input correlation.

    Ẇ = η (Σyx − W (Σxx + γI))        W(t) = T + (W(0) − T) e^{−η(Σxx + γI)t},   T = Σyx (Σxx + γI)⁻¹

Directions that the inputs never excite (null space of Σxx, without weight decay) stay as they are for ever,
which is what the formula says when T is the least-norm solution. Conditions: one layer, linear. Source:
Saxe et al. 2019; theory: section 3.

>>> problem = lr.Problem(lr.Task.from_correlations([[2.0, 1.0]]), lr.Network([[[0.0, 0.0]]]))
>>> lr.solve(problem, [np.log(2)], method="shallow").function.round(12)
array([[[1. , 0.5]]])
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.facts import Facts, Refusal
from lazyrich.methods.base import Method, Solution, linear_layers

if TYPE_CHECKING:
    from lazyrich.problem import Problem


class Shallow(Method):
    """One linear layer."""

    name = "shallow"
    citations = ("saxe2019",)

    def refusals(self, facts: Facts) -> Iterator[Refusal]:
        yield from linear_layers(facts, "one layer", least=1, most=1)

    def solution(self, problem: Problem) -> ShallowSolution:
        return ShallowSolution(problem, problem.network.weights[0])


class ShallowSolution(Solution):
    """W(t), exact for every direction of the inputs."""

    def __init__(self, problem: Problem, W0: Float[Array, "out in"]) -> None:
        d, self.V = np.linalg.eigh(problem.task.sigma_xx)  # Σxx = V diag(d) Vᵀ
        seen = d > len(d) * np.finfo(np.float64).eps * d[-1]
        d = np.where(seen, d, 0.0) + problem.weight_decay
        self.problem, self.W0 = problem, W0
        self.rate = problem.rates[0] * d
        S = np.where(seen, problem.task.sigma_yx @ self.V, 0.0)
        self.T = S / np.where(d > 0, d, 1.0)
        self.T[:, d == 0] = 0.0

    def function(self, times: Array) -> Array:
        """The input–output map W(t) at each time, also at complex times."""
        exponent = -self.rate * times[:, None, None]  # no difference of W0 and target: a small W0 keeps its digits
        return ((self.W0 @ self.V) * np.exp(exponent) - self.T * np.expm1(exponent)) @ self.V.T

    def weights(self, times: Float[Array, " T"]) -> list[Float[Array, "T out in"]]:
        return [self.function(times)]

    def analytic(self, times: Array) -> dict[str, Any]:
        return {"weights": [self.function(times)]}

    def restarted(self, time: float) -> ShallowSolution:
        return ShallowSolution(self.problem, self.function(np.array([time]))[0])
