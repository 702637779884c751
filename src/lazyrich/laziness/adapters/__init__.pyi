from .flax import FlaxMonitor
from .huggingface import HuggingFaceMonitor
from .lightning import LightningMonitor

__all__ = ["FlaxMonitor", "HuggingFaceMonitor", "LightningMonitor"]
