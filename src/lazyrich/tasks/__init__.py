"""What is to be learned: `Task`, and the named tasks of the literature."""

from lazyrich.tasks.hierarchies import binary_tree, colour_hierarchy, revised_kingdom, semantic_hierarchy
from lazyrich.tasks.regression import linear_teacher, random_regression, reversal
from lazyrich.tasks.task import Modes, Task
from lazyrich.tasks.teacher import Taught, piecewise_teacher

__all__ = [
    "Modes",
    "Task",
    "Taught",
    "binary_tree",
    "colour_hierarchy",
    "linear_teacher",
    "piecewise_teacher",
    "random_regression",
    "reversal",
    "revised_kingdom",
    "semantic_hierarchy",
]
