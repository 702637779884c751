from .api import descend, flow
from .exact import solve

__all__ = ["descend", "flow", "solve"]
