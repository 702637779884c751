"""Many networks of one shape at once: the engine of sweeps, for linear and nonlinear networks, on CPU or GPU.

>>> import lazyrich as lr
>>> task = lr.tasks.semantic_hierarchy()
>>> problems = [lr.Problem(task, lr.inits.gaussian(seed, sizes=(8, 14, 8), scale=0.1)) for seed in range(5)]
>>> runs = lr.batch.descend(problems, rate=0.1, at=[0, 100, 1000])
>>> len(runs), runs[0].function.shape
(5, (3, 8, 8))
"""

from lazyrich.batch.many import descend, flow

__all__ = ["descend", "flow"]
