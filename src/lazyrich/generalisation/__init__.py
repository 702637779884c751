"""The error on data that training does not see: along the whole course, mode by mode, and when it is best to stop."""

from lazyrich.generalisation.modes import ByMode
from lazyrich.generalisation.result import Curve, curve
from lazyrich.generalisation.stopping import Stopping

__all__ = ["ByMode", "Curve", "Stopping", "curve"]
