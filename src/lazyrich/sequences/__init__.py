"""One task after another: what is learned, what is forgotten, and how much of it was known before."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
