"""What is to be learned: `Task`, and the named tasks of the literature."""

from lazyrich.tasks.hierarchies import (
    binary_tree,
    colour_hierarchy,
    revised_kingdom,
    semantic_hierarchy,
)
from lazyrich.tasks.regression import linear_teacher, random_regression, reversal
from lazyrich.tasks.task import Modes, Task

__all__ = [
    "Modes",
    "Task",
    "binary_tree",
    "colour_hierarchy",
    "linear_teacher",
    "random_regression",
    "reversal",
    "revised_kingdom",
    "semantic_hierarchy",
]
