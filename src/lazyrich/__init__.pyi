from . import (
    batch,
    bias,
    generalisation,
    inits,
    jax,
    landscape,
    laziness,
    methods,
    observables,
    papers,
    plot,
    sequences,
    sweeps,
    tasks,
)
from ._check import InvalidInput
from ._version import __version__
from .certificate import Certificate
from .facts import Facts, Refusal
from .fit import Fit, fit
from .inits.nearest import Balanced, balanced
from .landscape import Fate, Regime, RegimePrediction, fate, predict_regime, regime
from .losses import Loss
from .methods.descend import descend
from .methods.flow import flow
from .methods.lazy_limit import lazy_limit
from .methods.solve import NoExactSolution, solve
from .networks import Activation, Network
from .noise import Noise
from .predict import predict
from .prediction import Prediction
from .problem import Problem
from .sensitivity import Sensitivity, sensitivity
from .sequences import Continual, continual, forgetting
from .tasks import Task
from .trajectory import Trajectory

__all__ = [
    "Activation",
    "Balanced",
    "Certificate",
    "Continual",
    "Facts",
    "Fate",
    "Fit",
    "InvalidInput",
    "Loss",
    "Network",
    "NoExactSolution",
    "Noise",
    "Prediction",
    "Problem",
    "Refusal",
    "Regime",
    "RegimePrediction",
    "Sensitivity",
    "Task",
    "Trajectory",
    "__version__",
    "balanced",
    "batch",
    "bias",
    "continual",
    "descend",
    "fate",
    "fit",
    "flow",
    "forgetting",
    "generalisation",
    "inits",
    "jax",
    "landscape",
    "laziness",
    "lazy_limit",
    "methods",
    "observables",
    "papers",
    "plot",
    "predict",
    "predict_regime",
    "regime",
    "sensitivity",
    "sequences",
    "solve",
    "sweeps",
    "tasks",
]
