"""Layer rates in the experiments do what α does to layers: two programs, one network at every record.

By hand: W/α with gradient α ∂L moves by α² as much in units of W under gradient descent, and by α under Adam.
"""

from __future__ import annotations

import numpy as np
import pytest

import lazyrich as lr

pytestmark = [pytest.mark.compiles, pytest.mark.timeout(240)]

_CASES = {
    "rhm": ({"points": [32], "seed": [0]}, "train_loss", 1e-5),
    "filters": ({"samples": 32, "epochs": 9, "at": [0, 2, 5]}, "smoothness", 1e-3),
    "grokking": ({"seed": [0], "at": [0, 50, 100]}, "validation_loss", 1e-4),
    "lenet": ({}, "kernel_distance", 1e-5),
    "lenet by adam": ({"optimiser": "adam"}, "parameter_distance", 1e-3),
}


@pytest.mark.parametrize("case", _CASES)
def test_rates_do_what_scales_do(case: str) -> None:
    changes, name, tolerance = _CASES[case]
    experiment = lr.papers.experiment(case.split()[0], "quick").changed(
        **changes, through=["scales", "rates"], alpha=[0.3, 1.0, 3.0]
    )
    result = experiment.compute(experiment.with_block(experiment.cells).block_at(0))
    along = {axis: place for place, axis in enumerate(experiment.axes)}
    values = np.moveaxis(result.values[name], (along["through"], along["alpha"]), (0, 1))
    scales, rates = values.reshape(2, 3, -1)
    assert np.ptp(scales, axis=0).max() > 0.02  # α does something
    np.testing.assert_allclose(rates, scales, atol=tolerance * np.ptp(scales), rtol=0)


@pytest.mark.parametrize("kind", ["rhm", "filters", "grokking", "lenet"])
def test_what_alpha_does_is_one_of_two(kind: str) -> None:
    with pytest.raises(lr.InvalidInput, match=r"through must be one of 'scales', 'rates', and it is 'both'"):
        lr.papers.experiment(kind, "quick").changed(through="both")
