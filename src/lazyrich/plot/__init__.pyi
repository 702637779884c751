from .concepts import mds, tree
from .curves import kernel_distance, loss, modes
from .ensembles import ensemble, fates
from .limits import limits
from .maps import map
from .states import fate, forgetting, gram
from .tradeoffs import remedies

__all__ = [
    "ensemble",
    "fate",
    "fates",
    "forgetting",
    "gram",
    "kernel_distance",
    "limits",
    "loss",
    "map",
    "mds",
    "modes",
    "remedies",
    "tree",
]
