"""Which of many solutions the flow ends in, and why: function space, potentials, and what depth prefers."""

from lazyrich.bias.depths import compare_depths, rank_growth
from lazyrich.bias.factorisation import factorise, schatten, small_init
from lazyrich.bias.function_space import function_space_flow, isotropic_preconditioner
from lazyrich.bias.interpolation import (
    closed_form,
    compare_with_flow,
    deep_interpolating_solution,
    downstream_end,
    interpolating_solution,
    predicted_end,
    upstream_end,
)
from lazyrich.bias.measurements import (
    commuting_measurements,
    completion,
    least_nuclear_norm,
    li_luo_lyu,
    random_completion,
    razin_cohen,
    sensing,
)

__all__ = [
    "closed_form",
    "commuting_measurements",
    "compare_depths",
    "compare_with_flow",
    "completion",
    "deep_interpolating_solution",
    "downstream_end",
    "factorise",
    "function_space_flow",
    "interpolating_solution",
    "isotropic_preconditioner",
    "least_nuclear_norm",
    "li_luo_lyu",
    "predicted_end",
    "random_completion",
    "rank_growth",
    "razin_cohen",
    "schatten",
    "sensing",
    "small_init",
    "upstream_end",
]
