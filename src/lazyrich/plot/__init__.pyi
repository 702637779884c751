from .curves import kernel_distance, loss, modes
from .limits import limits
from .states import fate, forgetting, gram

__all__ = ["fate", "forgetting", "gram", "kernel_distance", "limits", "loss", "modes"]
