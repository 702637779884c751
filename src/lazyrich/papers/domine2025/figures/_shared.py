"""What the figures on the balance λ share."""

import numpy as np

from lazyrich import Task
from lazyrich._typing import Array, Float, Rng
from lazyrich.inits import random


def task_of_strengths(rng: Rng, d_in: int, d_out: int, strengths: Float[Array, " m"]) -> Task:
    """White inputs, modes of given strengths in random directions."""
    generator = np.random.default_rng(rng)
    m = len(strengths)
    U, V = random.random_frame(generator, d_out, m), random.random_frame(generator, d_in, m)
    return Task.from_correlations((U * strengths) @ V.T)


def signed(value: float) -> str:
    """A number as it is written in text."""
    text = f"{abs(value):g}".replace("e-0", "e-")
    return f"−{text}" if value < 0 else text
