"""What lazy and rich mean, said once: the definition, and the movement of a kernel that it judges."""

from lazyrich.laziness.course import Course
from lazyrich.laziness.definition import USUAL, Judgement, RegimeName, Thresholds, judge

__all__ = ["USUAL", "Course", "Judgement", "RegimeName", "Thresholds", "judge"]
