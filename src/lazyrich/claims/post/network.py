"""One hidden layer, linear: gradients, modes, fixed points, and the logistic curve."""

from __future__ import annotations

import numpy as np

from lazyrich.claims import draws
from lazyrich.claims.ledger import NotChecked, claim
from lazyrich.claims.oracles import layers, product, relative_error
from lazyrich.exact.letter import saxe2014

NOT_CHECKED: tuple[NotChecked, ...] = ()


@claim(
    "post/equation-9",
    place="Equation 9",
    statement="From a decoupled start with equal layers, the strength of every mode follows a logistic curve of its "
    "own, whatever the other modes do.",
    formula=r"u_\alpha(t) = \frac{s_\alpha e^{2 s_\alpha t}}{e^{2 s_\alpha t} - 1 + s_\alpha / u_\alpha(0)}",
    conditions="White inputs; a start a^α = b^α along orthonormal directions of the hidden layer; time in units of τ.",
    tolerance=1e-9,
)
def equation_9(rng: np.random.Generator) -> float:
    """Against the whole network, all modes together, integrated layer by layer."""
    sigma_yx, U, s, V = draws.target(rng, 3, 3)
    u0 = s * 10.0 ** rng.uniform(-3, -0.5, size=3)
    times = np.linspace(0.0, 3.0, 7) / s[-1]
    W = product(layers(draws.aligned(rng, U, V, u0, (3, 4, 3)), sigma_yx, times))
    return relative_error(saxe2014.logistic(u0, s, times[:, None]), np.einsum("oa,toi,ia->ta", U, W, V))
