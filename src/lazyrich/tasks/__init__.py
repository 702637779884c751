"""What is to be learned: `Task`, and the named tasks of the literature."""

from lazyrich.tasks.hierarchies import binary_tree, colour_hierarchy, revised_kingdom, semantic_hierarchy
from lazyrich.tasks.mixture import mixture
from lazyrich.tasks.regression import NoisyTeacher, linear_teacher, noisy_teacher, random_regression, reversal
from lazyrich.tasks.structure_modes import clusters_modes, cross_cutting_modes, order_modes, ring_modes, tree_modes
from lazyrich.tasks.structures import (
    clusters,
    cross_cutting,
    from_covariance,
    graph,
    order,
    random_graph,
    ring,
    tree,
    with_random_features,
)
from lazyrich.tasks.task import Modes, Task
from lazyrich.tasks.teacher import Taught, piecewise_teacher

__all__ = [
    "Modes",
    "NoisyTeacher",
    "Task",
    "Taught",
    "binary_tree",
    "clusters",
    "clusters_modes",
    "colour_hierarchy",
    "cross_cutting",
    "cross_cutting_modes",
    "from_covariance",
    "graph",
    "linear_teacher",
    "mixture",
    "noisy_teacher",
    "order",
    "order_modes",
    "piecewise_teacher",
    "random_graph",
    "random_regression",
    "reversal",
    "revised_kingdom",
    "ring",
    "ring_modes",
    "semantic_hierarchy",
    "tree",
    "tree_modes",
    "with_random_features",
]
