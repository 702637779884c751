from .api import fit
from .recovery import Recovery
from .result import Comparison, Fit, Interval

__all__ = ["Comparison", "Fit", "Interval", "Recovery", "fit"]
