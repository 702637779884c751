"""Where learning starts: balanced, random, aligned with a task, or shaped by an earlier one."""

from lazyrich.inits.balanced import lambda_balanced, single_neuron, zero_balanced
from lazyrich.inits.informed import aligned, prior_knowledge
from lazyrich.inits.random import gaussian, orthogonal

__all__ = [
    "aligned",
    "gaussian",
    "lambda_balanced",
    "orthogonal",
    "prior_knowledge",
    "single_neuron",
    "zero_balanced",
]
