"""lazyrich: exact learning dynamics of deep linear networks, from lazy to rich.

A task and a network make a problem; a problem and a method make a trajectory; everything else reads
trajectories. Names are loaded when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
