"""Pure functions of a trajectory: what a reader of the papers would measure along it.

What they return has the times along its first axis; the signatures have the others.

`traj.to_xarray("mode_strengths", "kernel_distance")` has those with one value per time under the same names.
"""

from lazyrich.observables.balance import (
    balancedness,
    conserved,
    neuron_balance,
    neuron_balance_distribution,
    neuron_coordinates,
)
from lazyrich.observables.categories import category_coherence, inductive_projection, typicality
from lazyrich.observables.decoupling import coupling, decoupling, peak_time
from lazyrich.observables.differentiation import differentiation, hidden_distances
from lazyrich.observables.distances import cka, function_distance, hamming_distance, parameter_distance
from lazyrich.observables.held_out import loss_on
from lazyrich.observables.illusions import Illusions, illusions, illusory_correlations
from lazyrich.observables.kernels.along import (
    kernel_alignment,
    kernel_distance,
    kernel_movement,
    kernel_norm,
    kernels,
)
from lazyrich.observables.linearisation import linearisation_gap
from lazyrich.observables.modes import half_times, mode_strengths
from lazyrich.observables.regions import activation_patterns, activation_regions, region_colours
from lazyrich.observables.representations import (
    effective_rank,
    input_gram,
    output_gram,
    rsm_in,
    rsm_out,
    stable_rank,
)
from lazyrich.observables.scaling import mds
from lazyrich.observables.singular import (
    mode_alignment,
    off_diagonal_fraction,
    singular_modes,
    singular_values,
)

__all__ = [
    "Illusions",
    "activation_patterns",
    "activation_regions",
    "balancedness",
    "category_coherence",
    "cka",
    "conserved",
    "coupling",
    "decoupling",
    "differentiation",
    "effective_rank",
    "function_distance",
    "half_times",
    "hamming_distance",
    "hidden_distances",
    "illusions",
    "illusory_correlations",
    "inductive_projection",
    "input_gram",
    "kernel_alignment",
    "kernel_distance",
    "kernel_movement",
    "kernel_norm",
    "kernels",
    "linearisation_gap",
    "loss_on",
    "mds",
    "mode_alignment",
    "mode_strengths",
    "neuron_balance",
    "neuron_balance_distribution",
    "neuron_coordinates",
    "off_diagonal_fraction",
    "output_gram",
    "parameter_distance",
    "peak_time",
    "region_colours",
    "rsm_in",
    "rsm_out",
    "singular_modes",
    "singular_values",
    "stable_rank",
    "typicality",
]
