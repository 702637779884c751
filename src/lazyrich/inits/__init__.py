"""Where learning starts: balanced, random, neuron by neuron, aligned with a task, or shaped by an earlier one."""

from lazyrich.inits.balanced import lambda_balanced, single_neuron, zero_balanced
from lazyrich.inits.informed import aligned, prior_knowledge
from lazyrich.inits.neurons import rescaled, symmetrised
from lazyrich.inits.random import gaussian, orthogonal, pytorch

__all__ = [
    "aligned",
    "gaussian",
    "lambda_balanced",
    "orthogonal",
    "prior_knowledge",
    "pytorch",
    "rescaled",
    "single_neuron",
    "symmetrised",
    "zero_balanced",
]
