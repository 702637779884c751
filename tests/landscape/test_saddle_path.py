"""The path of saddles: against the rule written out saddle by saddle, against modes whose times are known, and where
there is none to visit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from oracles import integrate
from problems import SEEDS, sizes_of, solved, task_of
from scipy.integrate import quad

import lazyrich as lr
from lazyrich.landscape.saddle_path import saddle_path


def saddles_of(task):
    """Σxx^½, its pseudo-inverse, and U, σ, V of TΣxx^½; from the samples where there are some, without inverting."""
    if task.inputs is None:
        d, E = np.linalg.eigh(task.sigma_xx)
        S, target = np.sqrt(d), task.sigma_yx @ E @ np.diag(d**-0.5) @ E.T
    else:
        P = len(task.inputs)
        left, S, Et = np.linalg.svd(task.inputs / np.sqrt(P), full_matrices=False)
        used = S / S[0] > 1e-7
        left, S, E = left[:, used], S[used], Et[used].T
        target = task.targets.T / np.sqrt(P) @ left @ E.T
    U, sigma, Vt = np.linalg.svd(target, full_matrices=False)
    keep = sigma > 1e-10 * sigma[0]
    return E @ np.diag(S) @ E.T, E @ np.diag(1 / S) @ E.T, U[:, keep], sigma[keep], Vt[keep].T


def deviation(problem, weights):
    """The rule, for one state, over all sets of modes: (modes, largest deviation, relative distance) of the nearest."""
    root, _, U, sigma, V = saddles_of(problem.task)
    L, M = len(weights), np.linalg.multi_dot([*weights[::-1], root])
    told = []
    for u, s, v in zip(U.T, sigma, V.T, strict=True):
        rate = 0.0
        for layer in range(L):
            back, on = u, root @ v
            for W in weights[:layer:-1]:
                back = W.T @ back
            for W in weights[:layer]:
                on = W @ on
            rate += problem.rates[layer] * (back @ back) * (on @ on)
        # at the balanced minimum, W_ℓ has c·√η_ℓ for this mode, with c^L Π√η = s/√d
        d = v @ problem.task.sigma_xx @ v
        c = (s / np.sqrt(d) / np.prod(np.sqrt(problem.rates))) ** (1 / L)
        others = [np.prod([c**2 * problem.rates[j] for j in range(L) if j != layer]) for layer in range(L)]
        full = d * sum(rate_l * other for rate_l, other in zip(problem.rates, others, strict=True))
        told.append((rate / full) ** (L / (2 * L - 2)))
    found = []
    for count in range(len(sigma) + 1):
        for modes in itertools.combinations(range(len(sigma)), count):
            chosen = list(modes)
            E = M - U[:, chosen] @ np.diag(sigma[chosen]) @ V[:, chosen].T
            along = np.diag(U.T @ E @ V)
            rest = np.linalg.norm(E - U @ np.diag(along) @ V.T)
            parts = [
                *np.abs(along / sigma),
                rest / sigma.min(),
                *(told[i] for i in range(len(sigma)) if i not in modes),
            ]
            found.append((np.linalg.norm(E), modes, max(parts)))
    distance, modes, largest = min(found)
    return modes, largest, distance / np.linalg.norm(sigma)


def at_saddle(rng, task, sizes, modes):
    """Weights of a critical point: W_S, split evenly over the layers, and nothing else."""
    _, back, U, sigma, V = saddles_of(task)
    chosen, L = list(modes), len(sizes) - 1
    frames = [np.linalg.qr(rng.normal(size=(h, h)))[0][:, : len(chosen)] for h in sizes[1:-1]]
    share = np.diag(sigma[chosen] ** (1 / L))
    right, left = [back @ V[:, chosen], *frames], [*frames, U[:, chosen]]
    return [b @ share @ a.T for a, b in zip(right, left, strict=True)]


def recorded(problem, weights):
    """A trajectory that was recorded: a list of states."""
    layers = [np.stack(layer) for layer in zip(*weights, strict=True)]
    return lr.Trajectory(problem, np.arange(float(len(weights))), "flow", {"weights": layers})


def staircase(scale=1e-6, seed=0, sizes=(3, 5, 3), s=(4.0, 1.0, 0.25)):
    return lr.Problem(lr.Task.from_correlations(np.diag(s)), lr.inits.zero_balanced(seed, sizes=sizes, scale=scale))


def modes_of(path):
    return [visit.modes for visit in path.visits]


def test_it_is_the_rule_on_random_networks_of_any_depth():
    """Past a random saddle of a random task (correlated, some singular Σxx, layer rates): every number by enumeration.

    The edges tell both deviations: nearness is interpolated as an exponential between them.
    """
    worst = 0.0
    for seed in SEEDS:
        rng = np.random.default_rng((31, seed))
        L = 2 + seed % 3
        sizes = sizes_of(rng, L, largest=5)
        task = task_of(rng, sizes[0], sizes[-1])
        rank = len(saddles_of(task)[3])
        count = int(rng.integers(0, min(rank, *sizes) + 1))
        modes = tuple(sorted(int(i) for i in rng.choice(rank, size=count, replace=False)))
        exact = at_saddle(rng, task, sizes, modes)
        far = [rng.normal(size=W.shape) * 3 for W in exact]
        problem = lr.Problem(task, lr.Network(far), rates=rng.uniform(0.3, 3, size=L))
        noise, near, size = [rng.normal(size=W.shape) for W in exact], far, 1.0
        while deviation(problem, near)[:2] >= (modes, 0.4) or deviation(problem, near)[0] != modes:
            near, size = [W + size * N for W, N in zip(exact, noise, strict=True)], size / 2
        path = saddle_path(recorded(problem, [far, near, far]), radius=0.4)
        _, here, distance = deviation(problem, near)
        other, there, _ = deviation(problem, far)
        assert there > 0.4 > here
        (visit,) = path.visits
        away = there if other == modes else max(there, 1 - there)
        step = np.log(0.4 / here) / np.log(away / here)
        U = saddles_of(task)[2][:, list(modes)]
        loss = np.sum((task.targets - task.inputs @ np.linalg.pinv(task.inputs) @ task.targets @ U @ U.T) ** 2)
        assert visit.modes == modes
        assert visit.closest == 1.0
        for got, true in [
            (visit.arrival, 1 - step),
            (visit.departure, 1 + step),
            (1 + visit.loss, 1 + loss / 2 / len(task.inputs)),  # it may be zero, and the targets are of size 1
            (visit.distance, distance),
        ]:
            worst = max(worst, abs(got - true) / abs(true))
    assert worst < 1e-10


@pytest.mark.long
def test_edges_of_exact_trajectories_lie_where_the_rule_says():
    """At the edges of each visit the rule, written out, gives the radius; inside less, just outside more."""
    edges, worst = 0, 0.0
    for seed in SEEDS:
        traj = solved(seed)
        problem = traj.problem
        later = lr.solve(problem, [50.0])
        visits = saddle_path(later).visits
        inside = [(v.arrival + min(v.departure, 50.0)) / 2 for v in visits]
        moments = sorted({*inside, *(t for v in visits for t in (v.arrival, v.departure) if 0 < t < 50)})
        states = lr.solve(problem, moments).weights if moments else []
        for visit, middle in zip(visits, inside, strict=True):
            for t in (visit.arrival, middle, visit.departure):
                if t not in moments:
                    continue
                modes, off, distance = deviation(problem, [layer[moments.index(t)] for layer in states])
                assert modes == visit.modes
                assert visit.distance <= distance * (1 + 1e-9) + 1e-14
                if t == middle:
                    assert off < 0.1
                else:
                    worst, edges = max(worst, abs(off / 0.1 - 1)), edges + 1
    assert edges > 40
    assert worst < 1e-10


@pytest.mark.parametrize("L", [2, 3, 4])
def test_aligned_modes_leave_at_a_tenth_and_arrive_at_nine_tenths(L):
    """ȧ = L a^{2−2/L}(s − a), by quadrature: each mode alone decides one arrival and one departure."""
    s, a0 = np.array([3.0, 0.5, 0.1]), 1e-9
    task = lr.Task.from_correlations(np.diag(s))
    network = lr.inits.aligned(0, task, hidden=(4,) * (L - 1), strengths=a0)
    path = saddle_path(lr.solve(lr.Problem(task, network), [1e9]))

    def time(mode, part):
        x = np.log([a0 / s[mode], part])  # with a = s·e^x
        rate = lambda x: L * (s[mode] * np.exp(x)) ** (1 - 2 / L) * s[mode] * (1 - np.exp(x))
        edges = np.linspace(*x, 40)
        return sum(quad(lambda x: 1 / rate(x), *pair, epsabs=0, epsrel=1e-13)[0] for pair in itertools.pairwise(edges))

    assert modes_of(path) == [(), (0,), (0, 1), (0, 1, 2)]
    for mode in range(3):
        assert path.visits[mode].departure == pytest.approx(time(mode, 0.1), rel=1e-10)
        assert path.visits[mode + 1].arrival == pytest.approx(time(mode, 0.9), rel=1e-10)
    assert path.visits[0].arrival == 0.0
    assert path.visits[-1].departure == np.inf
    assert [visit.kind for visit in path.visits] == ["saddle"] * 3 + ["minimum"]
    losses = [sum(s[i:] ** 2) / 2 for i in range(4)]
    assert [visit.loss for visit in path.visits] == pytest.approx(losses, rel=1e-14, abs=1e-15)


@pytest.mark.long
def test_the_grid_does_not_matter_to_exact_trajectories():
    problem = staircase()
    path = saddle_path(lr.solve(problem, [400.0]))
    assert modes_of(path) == [(), (0,), (0, 1), (0, 1, 2)]
    for times in ([0.0, 200.0, 400.0], np.linspace(0, 400, 1234), [7.0, 1e5], [1e200]):
        other = saddle_path(lr.solve(problem, times))
        assert modes_of(other) == modes_of(path)
        for a, b in zip(path.visits, other.visits, strict=True):
            assert a.arrival == pytest.approx(b.arrival, rel=1e-11)
            assert a.departure == pytest.approx(b.departure, rel=1e-11)
            assert a.distance == pytest.approx(b.distance, rel=1e-9, abs=1e-14)


def test_recorded_trajectories_find_the_same_as_exact_ones():
    """By the oracle's integration; between records the error falls with the square of their distance."""
    problem = staircase(scale=1e-3, seed=1, s=(4.0, 1.0), sizes=(2, 3, 2))
    exact = saddle_path(lr.solve(problem, [20.0]))
    errors = []
    for count in (101, 401):
        times = np.linspace(0, 20, count)
        weights = integrate.weights(problem.network.weights, problem.task.sigma_yx, None, times)
        seen = saddle_path(lr.Trajectory(problem, times, "flow", {"weights": weights}))
        assert modes_of(seen) == modes_of(exact) == [(), (0,), (0, 1)]
        pairs = list(zip(seen.visits, exact.visits, strict=True))
        edges = [(a.arrival, b.arrival) for a, b in pairs[1:]] + [(a.departure, b.departure) for a, b in pairs[:-1]]
        errors.append(max(abs(a - b) for a, b in edges))
    assert errors[1] < errors[0] / 8
    assert errors[0] < 0.2  # the distance of the records
    W1, W2 = weights
    Q = np.concatenate([np.swapaxes(W1, 1, 2), W2], axis=1)
    gram = lr.Trajectory(problem, times, "flow", {"gram": Q @ np.swapaxes(Q, 1, 2)})
    for a, b in zip(saddle_path(gram).visits, seen.visits, strict=True):
        assert (a.arrival, a.departure) == pytest.approx((b.arrival, b.departure), rel=1e-10)


@pytest.mark.long
def test_descent_and_deep_networks_from_small_random_starts():
    task = lr.Task.from_correlations(np.diag([4.0, 1.0]))
    shallow = lr.Problem(task, lr.inits.gaussian(0, sizes=(2, 4, 2), scale=1e-5))
    deep = lr.Problem(task, lr.inits.gaussian(0, sizes=(2, 4, 4, 2), scale=0.01))
    paths = [
        saddle_path(lr.descend(shallow, rate=0.01, steps=4000)),
        saddle_path(lr.flow(deep, np.linspace(0, 300, 601))),
    ]
    for path in paths:
        assert modes_of(path) == [(), (0,), (0, 1)]
        assert all(a.departure <= b.arrival for a, b in itertools.pairwise(path.visits))
        assert all(visit.arrival <= visit.closest <= visit.departure for visit in path.visits)


def test_one_step_from_saddle_to_saddle_keeps_the_order(rng):
    problem = staircase()
    task, sizes = problem.task, problem.network.sizes
    states = [at_saddle(rng, task, sizes, modes) for modes in [(), (0,), (0, 2), (0, 1, 2)]]
    path = saddle_path(recorded(problem, states))
    assert modes_of(path) == [(), (0,), (0, 2), (0, 1, 2)]
    np.testing.assert_allclose([v.departure for v in path.visits[:-1]], [0.1, 1.1, 2.1], rtol=1e-12)
    np.testing.assert_allclose([v.arrival for v in path.visits[1:]], [0.9, 1.9, 2.9], rtol=1e-12)


def test_a_saddle_left_and_met_again_is_one_visit(rng):
    problem = staircase()
    there = at_saddle(rng, problem.task, problem.network.sizes, (0,))
    aside = [W + 0.2 for W in there]
    path = saddle_path(recorded(problem, [there, aside, there, aside, there]))
    (visit,) = path.visits
    assert (visit.modes, visit.arrival, visit.departure) == ((0,), 0.0, np.inf)


@pytest.mark.long
def test_the_determinant_keeps_a_mode_out():
    """Square, zero-balanced, signs of det differ: the last stop is the saddle without the weakest mode."""
    problems = [staircase(seed=seed, sizes=(3, 3, 3)) for seed in range(6)]
    obstructed = [problem.facts.determinant_obstruction for problem in problems]
    assert 0 < sum(obstructed) < 6
    for problem, out in zip(problems, obstructed, strict=True):
        last = saddle_path(lr.solve(problem, [1e200])).visits[-1]
        assert (last.modes, last.kind) == (((0, 1), "saddle") if out else ((0, 1, 2), "minimum"))
        assert last.departure == np.inf


def test_a_bottleneck_has_its_minimum_at_the_top_modes():
    for width in (1, 2):
        path = saddle_path(lr.solve(staircase(sizes=(3, width, 3)), [1e9]))
        assert modes_of(path) == [tuple(range(i)) for i in range(width + 1)]
        assert path.visits[-1].kind == "minimum"
        assert path.visits[-1].loss == pytest.approx(sum(np.array([4.0, 1.0, 0.25])[width:] ** 2) / 2, rel=1e-14)


def test_a_lazy_network_passes_no_saddle():
    """Large λ: W starts at zero and leaves it at full speed. W alone would show a visit."""
    task = lr.Task.from_correlations(np.diag([4.0, 1.0, 0.25]))
    for lam in (30.0, -30.0, 3.0):
        network = lr.inits.lambda_balanced(0, sizes=(3, 3, 3), lam=lam, scale=1e-4)
        assert np.linalg.norm(network.function) < 1e-3
        assert [v.kind for v in saddle_path(lr.solve(lr.Problem(task, network), [1e6])).visits] == ["minimum"]
    early = lr.solve(lr.Problem(task, network), [1e-3])
    assert str(saddle_path(early)) == "no saddle within 0.1"
    assert saddle_path(early).visits == () and saddle_path(early).spacing == 0.0


def test_a_large_start_only_arrives():
    path = saddle_path(lr.solve(staircase(scale=30.0), [1e9]))
    assert modes_of(path) == [(0, 1, 2)]
    assert path.visits[0].arrival > 0


def test_zero_weights_stay_at_the_origin():
    for depth in (2, 3):
        task = lr.Task.from_correlations(np.diag([2.0, 1.0]))
        problem = lr.Problem(task, lr.Network([np.zeros((2, 2))] * depth))
        (visit,) = saddle_path(lr.solve(problem, [0.0, 1e6])).visits
        assert (visit.modes, visit.arrival, visit.departure, visit.distance) == ((), 0.0, np.inf, 0.0)
    start = saddle_path(lr.solve(staircase(), [0.0]))
    assert modes_of(start) == [()] and start.visits[0].departure == np.inf


def test_equal_modes_are_learned_in_the_directions_of_the_start(rng):
    """Three equal modes from strengths far apart, seen in any basis: the count rises, and the times are the same."""
    s, a0 = 2.0, np.array([1e-4, 1e-10, 1e-16])
    R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    task = lr.Task.from_correlations(s * np.eye(3))
    half = np.diag(np.sqrt(a0))
    leave = np.log((s / a0 - 1) * 0.1 / 0.9) / (2 * s)  # a = s/(1 + (s/a0 − 1)e^{−2st}) at s/10
    arrive = np.log((s / a0 - 1) * 0.9 / 0.1) / (2 * s)
    for frame in (np.eye(3), R):
        path = saddle_path(lr.solve(lr.Problem(task, lr.Network([half @ frame.T, frame @ half])), [100.0]))
        assert modes_of(path) == [(), (0,), (0, 1), (0, 1, 2)]
        np.testing.assert_allclose([v.departure for v in path.visits[:-1]], leave, rtol=1e-10)
        np.testing.assert_allclose([v.arrival for v in path.visits[1:]], arrive, rtol=1e-10)
    # three layers, recorded: the rates of equal modes do not depend on the basis either
    third = np.diag(a0 ** (1 / 3))
    paths = []
    for frame in (np.eye(3), R):
        problem = lr.Problem(task, lr.Network([third @ frame.T, third, frame @ third]))
        states = [[g * problem.network.weights[0], g * third, g * problem.network.weights[2]] for g in (1.0, 5.0, 20.0)]
        paths.append(saddle_path(recorded(problem, states)))
    assert modes_of(paths[0]) == modes_of(paths[1]) == [()]
    assert paths[0].visits[0].departure == pytest.approx(paths[1].visits[0].departure, rel=1e-10)


def test_equal_modes_with_unequal_inputs_are_measured_by_their_mean_variance():
    """TΣxx^½ = 2I with Σxx = diag(1, 4), W2 = 0, by hand: K = ‖W1Σxx^½v‖² = x², K* = 2·2·√d with d = 5/2."""
    task = lr.Task.from_correlations(np.diag([2.0, 4.0]), np.diag([1.0, 4.0]))
    states = [[np.diag([x, 0.0]), np.zeros((2, 2))] for x in (0.5, 2.0)]
    (visit,) = saddle_path(recorded(lr.Problem(task, lr.Network(states[0])), states)).visits
    here, there = (x**2 / 4 / np.sqrt(2.5) for x in (0.5, 2.0))
    assert visit.modes == ()
    assert visit.departure == pytest.approx(np.log(0.1 / here) / np.log(there / here), rel=1e-12)


def test_rates_and_input_scale_only_rescale():
    """Rates η and Σxx = c·I: times as theory section 0 says, distances as they were."""
    plain, c, eta = staircase(), 0.125, np.array([0.5, 2.0])
    k = np.sqrt(eta[0] * eta[1]) / np.sqrt(eta)
    W = [v / k_l for v, k_l in zip(plain.network.weights, k, strict=True)]
    gain = np.prod(k)
    task = lr.Task.from_correlations(plain.task.sigma_yx * c / gain, c * np.eye(3))
    moved = saddle_path(lr.solve(lr.Problem(task, lr.Network(W), rates=eta), [4000.0]))
    for a, b in zip(moved.visits, saddle_path(lr.solve(plain, [500.0])).visits, strict=True):
        assert a.modes == b.modes
        assert c * a.arrival == pytest.approx(b.arrival, rel=1e-10)
        assert c * a.departure == pytest.approx(b.departure, rel=1e-10)
        assert a.distance == pytest.approx(b.distance, rel=1e-7, abs=1e-14)


def test_weak_modes_can_be_left_aside():
    """A tail that even the start has passed hides all saddles; told apart by the strong modes, they are there."""
    problem = staircase(scale=1e-2, s=(4.0, 1.0, 1e-7))
    traj = lr.solve(problem, [1e4])
    assert saddle_path(traj).visits == ()
    path = saddle_path(traj, modes=2)
    assert modes_of(path) == [(), (0,), (0, 1)]
    assert path.visits[-1].kind == "saddle"  # the third mode is still to come
    assert path.visits[-1].loss == pytest.approx(1e-14 / 2, rel=1e-9)


def test_the_semantic_hierarchy_climbs_in_pairs():
    """Its singular values come in pairs 5 % and 1 % apart: from 1e-6 each pair is learned as one; from 1e-30 the first
    mode has a saddle of its own."""
    task = lr.tasks.semantic_hierarchy()
    steps = {}
    for scale in (1e-6, 1e-30):
        network = lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=scale)
        steps[scale] = [len(v.modes) for v in saddle_path(lr.solve(lr.Problem(task, network), [1e5])).visits]
    assert steps == {1e-6: [0, 2, 4, 8], 1e-30: [0, 1, 2, 4, 8]}


def test_a_table_and_json():
    path = saddle_path(lr.solve(staircase(), [400.0]))
    lines = str(path).splitlines()
    assert lines[0].split() == ["modes", "learned", "kind", "loss", "arrival", "departure", "distance", "closest", "at"]
    assert [line.split()[:2] for line in lines[1:]] == [
        ["none", "saddle"],
        ["1", "saddle"],
        ["1–2", "saddle"],
        ["1–3", "minimum"],
    ]
    assert lines[-1].split()[4] == "–"


def sentence(call):
    with pytest.raises(lr.InvalidInput) as caught:
        call()
    return str(caught.value)


def test_it_says_what_would_do(unchecked_shapes):
    traj = lr.solve(staircase(), [1.0])
    task = traj.problem.task
    assert "traj must be a lazyrich Trajectory" in sentence(lambda: saddle_path([1.0]))
    assert "radius must be below 0.5" in sentence(lambda: saddle_path(traj, radius=0.5))
    assert "radius must be above 0" in sentence(lambda: saddle_path(traj, radius=0.0))
    assert "modes must be at least 1" in sentence(lambda: saddle_path(traj, modes=0))
    one = lr.solve(lr.Problem(task, lr.Network([np.zeros((3, 3))])), [1.0])
    assert "its loss has no saddle" in sentence(lambda: saddle_path(one))
    decaying = lr.solve(lr.Problem(task, traj.problem.network, weight_decay=0.1), [1.0])
    assert "without weight decay, which moves the saddles, and this one has 0.1" in sentence(
        lambda: saddle_path(decaying)
    )
    relu = lr.Problem(task, lr.inits.gaussian(0, sizes=(3, 2, 3), scale=1.0, activation="relu"))
    bent = lr.Trajectory(relu, np.zeros(1), "descend", {"weights": [W[None] for W in relu.network.weights]})
    assert "reads linear networks, and this one is relu" in sentence(lambda: saddle_path(bent))
    bare = lr.Trajectory(traj.problem, np.zeros(1), "flow", {"function": np.zeros((1, 3, 3))})
    assert "needs the weights or gram of a trajectory" in sentence(lambda: saddle_path(bare))
    nothing = lr.Problem(lr.Task.from_correlations(np.zeros((2, 2))), lr.inits.gaussian(0, sizes=(2, 2, 2), scale=1.0))
    kept = lr.Trajectory(nothing, np.zeros(1), "flow", {"weights": [W[None] for W in nothing.network.weights]})
    assert "a mode to learn, and Σyx is zero" in sentence(lambda: saddle_path(kept))
