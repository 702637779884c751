"""Two balanced layers: QQᵀ(t) in closed form.

method          the method, and its solution
grading         the initialisation in the basis of the task's modes, split into what grows fast and what grows slowly
evaluation      QQᵀ at any times, on any array library (`on_device`); `evaluation_blas` is faster from 16 columns on
tangent         how QQᵀ moves with the initialisation; `traced` is all of it for JAX, with derivatives
release         when modes have settled and leave that computation
weights         from QQᵀ to weights in the given hidden basis
balance         layers balanced again after rounding
"""

from lazyrich.methods.riccati.method import Riccati

__all__ = ["Riccati"]
