from . import adapters
from .course import Course
from .definition import USUAL, Judgement, RegimeName, Thresholds, judge
from .measuring import measure
from .monitor import Monitor
from .result import Laziness
from .scaling import rescaled

__all__ = [
    "USUAL",
    "Course",
    "Judgement",
    "Laziness",
    "Monitor",
    "RegimeName",
    "Thresholds",
    "adapters",
    "judge",
    "measure",
    "rescaled",
]
