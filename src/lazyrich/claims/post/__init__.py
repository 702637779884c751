"""The post on Saxe et al. 2014, in its order.

    regression   one layer: the gradient, its equation, its solution
    network      one hidden layer: gradients, modes, fixed points, the logistic curve

A topic enters its claims when it is imported, and lists what was judged not checkable.
"""

from lazyrich.claims.post import network, regression

TOPICS = (regression, network)

__all__ = ["TOPICS"]
