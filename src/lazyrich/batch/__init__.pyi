from .api import descend, flow
from .exact import solve
from .fates import fate

__all__ = ["descend", "fate", "flow", "solve"]
