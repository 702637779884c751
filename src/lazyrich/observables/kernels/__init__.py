"""The neural tangent kernel: of one network without ever forming it (`algebra`), and along a trajectory (`along`)."""

from lazyrich.observables.kernels.algebra import Comparison, Kernel
from lazyrich.observables.kernels.along import (
    Kernels,
    has_kernel,
    kernel_alignment,
    kernel_distance,
    kernel_distances,
    kernel_movement,
    kernel_norm,
    kernels,
)

__all__ = [
    "Comparison",
    "Kernel",
    "Kernels",
    "has_kernel",
    "kernel_alignment",
    "kernel_distance",
    "kernel_distances",
    "kernel_movement",
    "kernel_norm",
    "kernels",
]
