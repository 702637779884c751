"""What would be measured of a network that learns: by SciPy, mode by mode, with no formula of the library."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp


def strengths(s, a0, lam, times):
    """ȧ = √(λ² + 4a²)(s − a), integrated: (T, m)."""
    s = np.asarray(s, dtype=float)
    run = solve_ivp(
        lambda _, a: np.sqrt(lam**2 + 4 * a**2) * (s - a),
        (0.0, times[-1]),
        np.full(len(s), float(a0)),
        method="DOP853",
        rtol=1e-12,
        atol=1e-16,
        t_eval=times,
    )
    return run.y.T


def softmax(drive, temperature, lapse):
    """Probabilities along the last axis, one at a time."""
    p = np.empty_like(drive)
    for place in np.ndindex(drive.shape[:-1]):
        raised = [np.exp(x / temperature) for x in drive[place]]
        p[place] = [(1 - lapse) * x / sum(raised) + lapse / len(raised) for x in raised]
    return p
