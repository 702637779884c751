"""What learns: `Network`, weight matrices of any depth with an `Activation` between them."""

from lazyrich.networks.activation import Activation
from lazyrich.networks.network import Network

__all__ = ["Activation", "Network"]
