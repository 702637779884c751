"""Many networks at once, linear and nonlinear, on CPU or GPU; what stands below is the engine of sweeps too.

`solve`, `flow` and `descend` take the arguments of `lr.solve`, `lr.flow` and `lr.descend`, and are as accurate.

>>> import lazyrich as lr
>>> task = lr.tasks.semantic_hierarchy()
>>> problems = [lr.Problem(task, lr.inits.gaussian(seed, sizes=(8, 14, 8), scale=0.1)) for seed in range(5)]
>>> runs = lr.batch.descend(problems, rate=0.1, steps=1000, at=[0, 100, 1000])
>>> len(runs), runs[0].function.shape
(5, (3, 8, 8))
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
