"""Between tasks: a network brought back to the balance that the flow conserves, whatever the task.

With layer rates that of v_ℓ = k_ℓ W_ℓ. A balanced network stays balanced from task to task; what rounding or
integration took off it is not the task's doing.
"""

from __future__ import annotations

from lazyrich._check import InvalidInput
from lazyrich.methods.riccati.balance import rebalanced
from lazyrich.networks import Network
from lazyrich.problem import Problem


def rebalance(problem: Problem, lam: float) -> tuple[Network, float]:
    """The two-layer linear network with D = λI and the same function, and ‖D − λI‖ before.

    >>> import lazyrich as lr
    >>> from lazyrich.sequences import rebalance
    >>> problem = lr.Problem(lr.Task.from_correlations([[1.0]]), lr.Network([[[0.5]], [[0.5 + 1e-9]]]))
    >>> network, departure = rebalance(problem, 0.0)
    >>> W1, W2 = network.weights
    >>> f"{departure:.1e}", bool(abs(W2 - W1) < 1e-15), bool(abs(W2 @ W1 - problem.network.function) < 1e-15)
    ('1.0e-09', True, True)
    """
    if problem.network.depth != 2 or not problem.network.activation.linear:
        raise InvalidInput(f"rebalance needs two linear layers, and the network is {problem.network!r}.")
    k1, k2 = problem.canonical.k
    W1, W2, before = rebalanced(k1 * problem.network.weights[0], k2 * problem.network.weights[1], lam)
    return Network([W1 / k1, W2 / k2]).known_to(problem.network.eps), before
