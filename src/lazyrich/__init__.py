"""lazyrich: exact learning dynamics of deep linear networks, from lazy to rich.

A task and a network make a problem; a problem and a method make a trajectory; everything else reads
trajectories.
"""

from lazyrich import exact, inits, observables, tasks
from lazyrich._check import InvalidInput
from lazyrich.certificate import Certificate
from lazyrich.descend import descend
from lazyrich.flow import flow
from lazyrich.landscape import Fate, Regime, fate
from lazyrich.networks import Network
from lazyrich.problem import Facts, Problem
from lazyrich.solve import NoExactSolution, solve
from lazyrich.tasks import Task
from lazyrich.trajectory import Trajectory

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "Facts",
    "Fate",
    "InvalidInput",
    "Network",
    "NoExactSolution",
    "Problem",
    "Regime",
    "Task",
    "Trajectory",
    "__version__",
    "descend",
    "exact",
    "fate",
    "flow",
    "inits",
    "observables",
    "solve",
    "tasks",
]
