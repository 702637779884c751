from .chain import continual
from .comparison import Remedies, Remedy, remedies
from .forecast import forgetting, loss_matrix
from .penalty import Penalty
from .result import Continual
from .savings import Relearning, overlap, relearning
from .schedule import Schedule, curriculum, interleaved, replay, sequential
from .settings import Setting

__all__ = [
    "Continual",
    "Penalty",
    "Relearning",
    "Remedies",
    "Remedy",
    "Schedule",
    "Setting",
    "continual",
    "curriculum",
    "forgetting",
    "interleaved",
    "loss_matrix",
    "overlap",
    "relearning",
    "remedies",
    "replay",
    "sequential",
]
