"""Activation patterns, regions and their colours, against loops over samples and units."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from oracles.samples import kind_of
from problems import SEEDS, piecewise_linear, sampled

import lazyrich as lr
from lazyrich.observables.regions import activation_patterns, activation_regions, region_colours


def by_hand(traj, i, inputs):
    """The pattern of each input as a tuple over the units of all hidden layers."""
    network = traj.problem.network
    slope = {"relu": 0.0, "linear": 1.0}.get(kind_of(network), kind_of(network))
    found = []
    for x in inputs:
        pattern = []
        for W in traj.weights[:-1]:
            z = [float(np.dot(row, x)) for row in W[i]]
            x = np.tanh(z) if slope == "tanh" else np.array([value if value > 0 else slope * value for value in z])
            pattern += [value > 0 for value in x]
        found.append(tuple(pattern))
    return found


@pytest.mark.compiles
@pytest.mark.parametrize(
    "kind", [piecewise_linear, lambda seed: sampled(seed, 3, "relu"), lambda s: sampled(s, 2, "tanh")]
)
def test_patterns_regions_and_colours(kind):
    for seed in SEEDS:
        traj = kind(seed)
        for inputs in (None, np.random.default_rng(seed).normal(size=(9, traj.problem.task.d_in))):
            X = traj.problem.task.inputs if inputs is None else inputs
            wanted = [by_hand(traj, i, X) for i in range(len(traj.times))]
            assert np.array_equal(activation_patterns(traj, inputs), np.array(wanted, float))
            assert activation_regions(traj, inputs).tolist() == [len(set(rows)) for rows in wanted]
            assert region_colours(traj, inputs).tolist() == [[sum(row) % 2 for row in rows] for rows in wanted]


def test_many_inputs_find_every_cone_of_an_arrangement(rng):
    """h planes through 0 in d dimensions, in general position, cut space into 2 Σ_{k<d} C(h−1, k) cones."""
    d, h = 3, 6
    network = lr.inits.symmetrised(rng, sizes=(d, 2 * h, 1))  # pairs share their planes
    task = lr.tasks.piecewise_teacher(rng, d=d, samples=5).train
    traj = lr.flow(lr.Problem(task, network), [0.0])
    points = rng.normal(size=(200_000, d))
    assert activation_regions(traj, points).tolist() == [2 * sum(comb(h - 1, k) for k in range(d))]


def test_neighbours_across_one_wall_differ_in_colour(rng):
    task = lr.tasks.piecewise_teacher(rng, d=2, samples=5).train
    network = lr.Network([rng.normal(size=(7, 2)), rng.normal(size=(1, 7))], "relu")
    traj = lr.flow(lr.Problem(task, network), [0.0])
    angles = np.linspace(0, 2 * np.pi, 100_000, endpoint=False)
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    crossed = np.abs(np.diff(activation_patterns(traj, ring)[0], axis=0)).sum(axis=1)
    changed = np.diff(region_colours(traj, ring)[0]) != 0
    assert set(crossed) == {0.0, 1.0} and np.array_equal(crossed == 1, changed) and changed.sum() in (13, 14)


@pytest.mark.compiles
def test_in_xarray(rng):
    taught = lr.tasks.piecewise_teacher(rng, d=3, samples=5)
    traj = lr.flow(lr.Problem(taught.train, lr.inits.symmetrised(rng, sizes=(3, 4, 1))), [0.0, 1.0])
    data = traj.to_xarray("activation_patterns", "activation_regions", "region_colours")
    assert data.activation_patterns.dims == ("time", "sample", "hidden_unit") and data.region_colours.dims == (
        "time",
        "sample",
    )


@pytest.mark.parametrize("measure", [activation_patterns, activation_regions, region_colours])
def test_what_cannot_be_asked(measure, rng):
    one_layer = lr.solve(lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.5]]])), [0.0])
    with pytest.raises(lr.InvalidInput, match=f"^{measure.__name__} needs a hidden layer, and this network has none"):
        measure(one_layer)
    with pytest.raises(lr.InvalidInput, match=r"^inputs must have \d columns for this network, and it has 9\.$"):
        measure(piecewise_linear(1), np.ones((2, 9)))
