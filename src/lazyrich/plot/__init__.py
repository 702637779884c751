"""One-line plots of trajectories, and the look of all figures.

Each returns a matplotlib `Figure`, which a notebook shows and `figure.savefig` writes; `axes=` draws into axes of
your own.
"""

from lazyrich.plot.curves import kernel_distance, loss, modes
from lazyrich.plot.states import fate, forgetting, gram

__all__ = ["fate", "forgetting", "gram", "kernel_distance", "loss", "modes"]
