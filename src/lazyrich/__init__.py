"""lazyrich: exact learning dynamics of deep linear networks, from lazy to rich.

A task and a network make a problem; a problem and a method make a trajectory; everything else reads
trajectories.
"""

from lazyrich import (
    batch,
    bias,
    claims,
    exact,
    experiments,
    inits,
    landscape,
    laziness,
    observables,
    plot,
    sweeps,
    tasks,
)
from lazyrich._check import InvalidInput
from lazyrich._version import __version__
from lazyrich.certificate import Certificate
from lazyrich.descend import descend
from lazyrich.flow import flow
from lazyrich.landscape import Fate, Regime, RegimePrediction, fate, predict_regime, regime
from lazyrich.networks import Network
from lazyrich.problem import Facts, Problem, Refusal
from lazyrich.sequences import Continual, continual, forgetting
from lazyrich.solve import NoExactSolution, solve
from lazyrich.tasks import Task
from lazyrich.trajectory import Trajectory

__all__ = [
    "Certificate",
    "Continual",
    "Facts",
    "Fate",
    "InvalidInput",
    "Network",
    "NoExactSolution",
    "Problem",
    "Refusal",
    "Regime",
    "RegimePrediction",
    "Task",
    "Trajectory",
    "__version__",
    "batch",
    "bias",
    "claims",
    "continual",
    "descend",
    "exact",
    "experiments",
    "fate",
    "flow",
    "forgetting",
    "inits",
    "landscape",
    "laziness",
    "observables",
    "plot",
    "predict_regime",
    "regime",
    "solve",
    "sweeps",
    "tasks",
]
