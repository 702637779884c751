"""Braun et al. 2022, in its order.

    setting         2: correlations, Fukumizu's solution, what QQᵀ holds, similarity and kernel
    solution        3, 4: Theorems 3.1 and 3.2, rich and lazy ends
    decoupling      5: Theorem 5.1, two modes, the peak of the coupling, sigmoids and exponentials
    applications    6: continual learning, reversal, revising structured knowledge

A topic enters its claims when it is imported, and lists what was judged not checkable.
"""

from lazyrich.claims.braun2022 import applications, decoupling, setting, solution

TOPICS = (setting, solution, decoupling, applications)

__all__ = ["TOPICS"]
