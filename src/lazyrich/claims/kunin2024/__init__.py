"""Kunin et al. 2024, "Get rich quick", main text and appendix, in their order.

    neuron          one hidden neuron: what is conserved, μ and φ, exact solutions, basins, limits
    neuron_bias     its function space, its kernel, and which interpolation it ends in
    wide            many neurons: M and its limits, lazy and rich, isotropic starts
    spectrum        singular values: their flow and their mirror flow
    deep            more layers
    piecewise       piecewise linear networks, and the teacher-student set-up of the experiments

A topic enters its claims when it is imported, and lists what was judged not checkable.
"""

from lazyrich.claims.kunin2024 import deep, neuron, neuron_bias, piecewise, spectrum, wide

TOPICS = (neuron, neuron_bias, wide, spectrum, deep, piecewise)

__all__ = ["TOPICS"]
