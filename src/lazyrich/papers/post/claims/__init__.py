"""The post on Saxe et al. 2014, in its order.

    regression     one layer: the gradient, its equation, its solution
    gradients      one hidden layer: gradients, the flow of weights and of modes
    fixed_points   where it rests: minimum, saddles, the best approximation of a given rank
    network        from a decoupled start: strengths of modes, the logistic curve

A topic also lists what was judged not checkable.
"""
