from .chain import continual
from .forecast import forgetting, loss_matrix
from .penalty import Penalty
from .result import Continual
from .schedule import Schedule, curriculum, interleaved, replay, sequential
from .settings import Setting

__all__ = [
    "Continual",
    "Penalty",
    "Schedule",
    "Setting",
    "continual",
    "curriculum",
    "forgetting",
    "interleaved",
    "loss_matrix",
    "replay",
    "sequential",
]
