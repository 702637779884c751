"""The post on Saxe et al. 2014, in its order.

regression   one layer: the gradient, its equation, its solution
network      one hidden layer: gradients, modes, fixed points, the logistic curve
"""

from lazyrich.claims.post import network, regression

TOPICS = ()

__all__ = ["TOPICS"]
