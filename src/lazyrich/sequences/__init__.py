"""One task after another: what is learned, what is forgotten, and how much of it was known before."""

from lazyrich.sequences.chain import continual
from lazyrich.sequences.forecast import forgetting, loss_matrix
from lazyrich.sequences.rebalance import rebalance
from lazyrich.sequences.result import Continual

__all__ = ["Continual", "continual", "forgetting", "loss_matrix", "rebalance"]
