from .chain import continual
from .forecast import forgetting, loss_matrix
from .result import Continual

__all__ = ["Continual", "continual", "forgetting", "loss_matrix"]
