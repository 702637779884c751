"""What learns: `Network`, weight matrices of any depth and an activation."""

from lazyrich.networks.network import Network

__all__ = ["Network"]
