from .chain import continual, rebalance
from .forecast import forgetting, loss_matrix
from .result import Continual

__all__ = ["Continual", "continual", "forgetting", "loss_matrix", "rebalance"]
