"""Which initialisation, balance and learning rate measured learning speaks of: `lr.fit`, and how sure that is.

A task and a few numbers (`parameters`) make a course of learning (`models`); the course and a way of looking at it
(`readouts`) make what would be measured; that and its noise (`noise`) make a likelihood, many parameter vectors at
once (`likelihood`). It is climbed from many places (`search`), followed along each parameter (`profiles`), and reported
(`result`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
