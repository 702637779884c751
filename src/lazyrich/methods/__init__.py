"""How a problem becomes a trajectory: closed forms, one per file, and the integrators.

    base            what a closed form is: `Method` and `Solution`
    shallow modes deep_modes riccati        the closed forms
    solve           the closed form that applies, or why none does
    flow descend    gradient flow, integrated; gradient descent, step by step (`_gradients`, `_rkc`)
    linearised      how QQᵀ moves with the initialisation, integrated, where no closed form says it
    lazy_limit      the tangent model at the initialisation, which is not the network

To add a closed form, write its file and enter it in EXACT, cheapest first: `problem.facts` and `solve` then know it.
"""

from lazyrich.methods.base import Method, Solution
from lazyrich.methods.deep_modes import DeepModes
from lazyrich.methods.modes import Modes
from lazyrich.methods.riccati import Riccati
from lazyrich.methods.riccati.family import Family
from lazyrich.methods.shallow import Shallow

__all__ = ["EXACT", "Method", "Solution"]

EXACT: tuple[Method, ...] = (Shallow(), Modes(), Riccati(), Family(), DeepModes())
