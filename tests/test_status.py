"""How a run ended is data: which end, what happened and the advice, in copies and other processes too."""

import copy
import pickle

import numpy as np
import pytest

import lazyrich as lr
from lazyrich._status import COMPLETE, End, Status


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda status: pickle.loads(pickle.dumps(status))])
def test_parts_and_sentence(again):
    status = again(Status(End.STALLED, "stalled at t = 3", "smaller weights"))
    assert type(status) is Status and status == "stalled at t = 3: try smaller weights"
    assert (status.end, status.what, status.advice) == (End.STALLED, "stalled at t = 3", "smaller weights")


def test_of_runs():
    problem = lr.Problem(lr.Task.from_correlations([[4.0]]), lr.Network([[[2.0]], [[1.0]]]))
    assert lr.solve(problem, [1.0]).status is COMPLETE
    wild = lr.descend(problem, rate=1.0, steps=50)
    assert wild.status.end is End.DIVERGED and wild.status.what.startswith("diverged at step ")
    assert wild.status.advice == "a smaller rate" and np.isfinite(wild.loss).all()
