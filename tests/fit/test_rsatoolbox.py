"""Series of dissimilarity matrices come from rsatoolbox and go back to it: the real package, on both sides."""

from __future__ import annotations

import numpy as np
import pytest

import lazyrich as lr

rsatoolbox = pytest.importorskip("rsatoolbox", reason="rsatoolbox is not installed")


@pytest.mark.long
def test_rdms_go_in_and_come_out():
    task, sizes, times = lr.tasks.semantic_hierarchy(), (8, 10, 8), np.linspace(0.0, 120.0, 30)
    network = lr.inits.aligned(0, task, hidden=10, strengths=0.01)
    states = lr.solve(lr.Problem(task, network), times)
    hidden = np.array([W1 @ np.eye(8) for W1 in states.weights[0]])  # one pattern for each item, at each time
    patterns = [rsatoolbox.data.Dataset(at.T) for at in hidden]
    rdms = rsatoolbox.rdm.concat(*rsatoolbox.rdm.calc_rdm(patterns, method="euclidean"))
    assert rdms.dissimilarities.shape == (30, 28)

    found = lr.fit(task, sizes, times, rdm=rdms.dissimilarities, free={"scale": (1e-4, 0.5), "rate": (0.1, 10.0)})
    assert found.estimates["scale"] == pytest.approx(0.01, rel=0.02)
    assert found.estimates["rate"] == pytest.approx(1.0, rel=0.02)
    again = rsatoolbox.rdm.RDMs(found.predicted["rdm"])
    assert (again.n_rdm, again.n_cond) == (30, 8)
    likeness = rsatoolbox.rdm.compare(again[29], rdms[29], method="corr")
    assert likeness.item() == pytest.approx(1.0, abs=1e-6)
