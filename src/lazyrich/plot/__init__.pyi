from .curves import kernel_distance, loss, modes
from .ensembles import ensemble, fates
from .limits import limits
from .states import fate, forgetting, gram
from .tradeoffs import remedies

__all__ = ["ensemble", "fate", "fates", "forgetting", "gram", "kernel_distance", "limits", "loss", "modes", "remedies"]
