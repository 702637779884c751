from .course import Course
from .definition import USUAL, Judgement, RegimeName, Thresholds, judge
from .measuring import measure
from .result import Laziness
from .scaling import rescaled

__all__ = ["USUAL", "Course", "Judgement", "Laziness", "RegimeName", "Thresholds", "judge", "measure", "rescaled"]
