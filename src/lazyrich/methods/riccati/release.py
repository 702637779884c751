"""When modes have settled, and need not be computed any more.

QQᵀ is the same for all columns that span the same. Let H be the inverse of the rows of L that are pivots and grow. The
columns of LH are 1 at one of these rows and 0 at the others, and N in the rows that are left. In them the first J modes
stand alone, with 2w exactly, as soon as, for all j ≤ J,

    e^{−w_j t} √(2w_j) |h_ij| ≤ ε  for all i,     e^{(w_i⁺ − w_j)t} √(2w_j t) |n_ij| ≤ ε  for all rows i left.

The other columns may stay what they are, for they are zero in the first J rows. So a mode need not wait until it has
outgrown the next: e^{(w_i − w_j)t} does not appear unless row i lies on the separatrix.
"""

from __future__ import annotations

import numpy as np

from lazyrich._typing import Array, Float

NEGLIGIBLE = 45.0  # e^{−45} ≈ 3e-20


def release_times(
    ratio: Float[Array, "n k"], log_l: Float[Array, " k"], piv: Array, w: Float[Array, " n"], modes: int
) -> Float[Array, " J"]:
    """For the first J = 1, 2, … modes, in rising order."""
    last, top = 0, int(np.count_nonzero(w[piv] > 0))
    while last < min(len(piv), modes) and piv[last] == last and w[last] > 0:
        last += 1
    if last == 0:
        return np.empty(0)
    own, left = w[:last], np.delete(np.arange(len(w)), piv[:top])
    with np.errstate(all="ignore"):
        H = np.linalg.inv(ratio[piv[:top], :top])[:, :last]  # in units of the pivots
        N = ratio[left, :top] @ H
        log_h = np.max(np.log(np.abs(H)) - log_l[:top, None], axis=0)
        settled = (NEGLIGIBLE + 0.5 * np.log(2 * own) + log_h) / own
        gap = own - np.maximum(w[left, None], 0.0)
        need = np.maximum(NEGLIGIBLE + np.log(np.abs(N)), 0.0)
        apart = (need + 0.5 * np.log1p(2 * own * need / gap) + 1) / gap
        apart[N == 0] = 0.0
        apart[(N != 0) & (gap <= 0)] = np.inf
        release = np.maximum(settled, apart.max(axis=0, initial=0.0))
    release[~np.isfinite(release)] = np.inf
    return np.maximum.accumulate(np.maximum(release, 0.0))
