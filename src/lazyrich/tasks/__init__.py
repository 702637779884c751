"""What is to be learned: `Task`, and the named tasks of the literature."""

from lazyrich.tasks.hierarchies import binary_tree, colour_hierarchy, revised_kingdom, semantic_hierarchy
from lazyrich.tasks.mixture import mixture
from lazyrich.tasks.regression import NoisyTeacher, linear_teacher, noisy_teacher, random_regression, reversal
from lazyrich.tasks.task import Modes, Task
from lazyrich.tasks.teacher import Taught, piecewise_teacher

__all__ = [
    "Modes",
    "NoisyTeacher",
    "Task",
    "Taught",
    "binary_tree",
    "colour_hierarchy",
    "linear_teacher",
    "mixture",
    "noisy_teacher",
    "piecewise_teacher",
    "random_regression",
    "reversal",
    "revised_kingdom",
    "semantic_hierarchy",
]
