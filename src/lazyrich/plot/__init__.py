"""One-line plots of trajectories, and the look of all figures.

Each returns a matplotlib `Figure`, which a notebook shows and `figure.savefig` writes; `axes=` draws into axes of
your own.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
