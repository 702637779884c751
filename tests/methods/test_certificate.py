"""The certificate: exact solutions get a clean one, and wrong ones do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.starts_mp import to_float, zero_balanced_mp

import lazyrich as lr
from lazyrich.methods import deep_modes, modes, shallow
from lazyrich.methods.riccati import evaluation as evaluate
from lazyrich.methods.riccati import method as riccati

from .families import FAMILIES, cases, target

EXACT, WRONG = 1e-12, 1e-3
TIMES = np.linspace(0.0, 8.0, 12)


def figures(certificate: lr.Certificate) -> dict[str, float | None]:
    names = ("residual", "drift", "initial_error", "semigroup")
    return {name: getattr(certificate, name) for name in names}


def general_problem(rng: np.random.Generator, lam: float = 0.0, gamma: float = 0.0) -> lr.Problem:
    network = lr.inits.lambda_balanced(rng, sizes=(5, 3, 4), lam=lam, scale=0.3)
    task = lr.Task.from_correlations(target(rng, 4, 5, np.array([1.5, 1.0, 0.7, 0.4])), 0.5 * np.eye(5))
    return lr.Problem(task, network, weight_decay=gamma)


def aligned_problem(rng: np.random.Generator, hidden: tuple[int, ...], **options) -> lr.Problem:
    task = lr.Task.from_correlations(target(rng, 3, 4, np.array([1.5, 1.0, 0.4])))
    return lr.Problem(task, lr.inits.aligned(rng, task, hidden=hidden, **options))


# Exact solutions


@pytest.mark.parametrize("family", FAMILIES)
def test_the_closed_form_is_certified_on_every_family(family):
    for case in cases(family)[::2]:
        certificate = lr.solve(case.problem, case.times, method="riccati").certificate()
        known = {name: value for name, value in figures(certificate).items() if value is not None}
        assert set(known) >= {"residual", "initial_error", "semigroup"}
        assert certificate.exact and max(known.values()) <= EXACT, f"{case}\n{certificate}"


def test_modes_deep_modes_and_shallow_networks_are_certified(rng):
    task = lr.Task.from_data(rng.normal(size=(30, 4)), rng.normal(size=(30, 3)))
    problems = {
        "modes": aligned_problem(rng, (5,), strengths=[0.1, -0.2, 2.0], lam=[1.0, -3.0, 0.0]),
        "deep_modes": aligned_problem(rng, (5, 4), strengths=[0.1, -0.2, 2.0]),
        "shallow": lr.Problem(task, lr.Network([rng.normal(size=(3, 4))]), weight_decay=0.1),
    }
    for method, problem in problems.items():
        certificate = lr.solve(problem, TIMES).certificate()
        assert certificate.method == method
        assert certificate.exact and certificate.worst <= EXACT, str(certificate)


@pytest.mark.parametrize("end", [1e-6, 300.0, 1e6, 1e12])
def test_at_any_time(end, rng):
    certificate = lr.solve(general_problem(rng), [0.0, end / 3, end]).certificate()
    assert certificate.exact and certificate.worst <= EXACT, str(certificate)


def test_on_the_separatrix_and_after_a_push(rng):
    """A push leaves the layers balanced up to its size, and the residual says so."""
    sigma_yx = target(rng, 3, 3, np.array([1.5, 1.0, 0.6]))
    start = zero_balanced_mp(rng, 3, 4, 3, 0.3, sign=-1, target=sigma_yx, digits=40)
    problem = lr.Problem(lr.Task.from_correlations(sigma_yx), lr.Network([to_float(W) for W in start]))
    times = [0.0, 5.0, 50.0, 300.0]
    assert lr.solve(problem, times).certificate().worst <= EXACT
    residuals = []
    for size in (1e-3, 1e-6, 1e-12):
        pushed = lr.solve(problem, [0.0, 1.0, 5.0], on_separatrix="perturb", perturbation=size).certificate()
        assert pushed.drift is None and pushed.initial_error is None
        residuals.append(pushed.residual)
    assert residuals[0] > 1e-5 and residuals[2] <= EXACT
    assert residuals[0] / residuals[1] == pytest.approx(1e3, rel=0.5)


def test_where_all_is_zero():
    problem = lr.Problem(lr.Task.from_correlations([[0.0]]), lr.Network([[[0.0]], [[0.0]]]))
    assert lr.solve(problem, [0.0, 1.0]).certificate().exact


def test_what_is_printed_names_every_figure(rng):
    text = str(lr.solve(general_problem(rng), TIMES).certificate())
    assert "riccati: exact" in text
    for name in ("residual of the flow", "conserved quantity", "error at t = 0", "semigroup"):
        assert name in text


# Wrong ones


def changed(monkeypatch, name, change) -> None:
    """The closed form with other arguments than the problem's."""
    right = getattr(riccati, name)
    monkeypatch.setattr(riccati, name, lambda *args, **options: right(*change(*args), **options))


@pytest.mark.parametrize("lam", [0.0, 0.5, -0.5])
@pytest.mark.parametrize(
    "change",
    [
        lambda U, s, V, lam, decay: (U, s, V, lam + 0.2, decay),
        lambda U, s, V, lam, decay: (U, 2 * s, V, lam, decay),
        lambda U, s, V, lam, decay: (-U, s, V, lam, decay),
        lambda U, s, V, lam, decay: (U, s * 1.01, V, lam, decay),
    ],
    ids=["balance", "target doubled", "target reversed", "target off by a percent"],
)
def test_a_solution_of_another_problem_is_not_certified(change, lam, rng, monkeypatch):
    problem = general_problem(rng, lam)
    changed(monkeypatch, "spectrum", change)
    certificate = lr.solve(problem, TIMES, method="riccati").certificate()
    assert certificate.residual > WRONG and not certificate.exact
    assert "not exact" in str(certificate)


def test_another_start_shows_at_the_start(rng, monkeypatch):
    changed(monkeypatch, "grade", lambda Q, F, target: (1.01 * Q, F, target))
    certificate = lr.solve(general_problem(rng), TIMES, method="riccati").certificate()
    assert certificate.initial_error > WRONG and not certificate.exact


@pytest.mark.parametrize("factor", [2.0, 0.99])
def test_another_clock_is_not_certified(factor, rng, monkeypatch):
    right = evaluate.factors
    monkeypatch.setattr(evaluate, "factors", lambda xp, constants, t: right(xp, constants, factor * t))
    certificate = lr.solve(general_problem(rng), TIMES).certificate()
    assert certificate.residual > WRONG and not certificate.exact


def test_a_factor_in_the_gram_matrix_is_not_certified(rng, monkeypatch):
    right = evaluate.Evaluation.__call__
    monkeypatch.setattr(evaluate.Evaluation, "__call__", lambda self, t, block: 2 * right(self, t, block))
    certificate = lr.solve(general_problem(rng), TIMES).certificate()
    assert certificate.residual > WRONG and certificate.initial_error > WRONG


def test_forgotten_weight_decay_is_not_certified(rng, monkeypatch):
    changed(monkeypatch, "spectrum", lambda U, s, V, lam, decay: (U, s, V, lam, 0.0))
    certificate = lr.solve(general_problem(rng, gamma=0.3), TIMES).certificate()
    assert certificate.residual > WRONG


def test_forgotten_layer_rates_are_not_certified(rng):
    problem = general_problem(rng)
    traj = lr.solve(problem, TIMES)
    W1, W2 = problem.network.weights
    other = lr.Problem(problem.task, lr.Network([2 * W1, W2]), rates=(1.0, 0.25))  # balanced with these rates
    other_traj = lr.solve(other, TIMES)
    assert other_traj.certificate().exact
    swapped = lr.Trajectory(other, traj.times, "riccati", {}, solution=traj.solution)
    assert swapped.certificate().residual > WRONG


def test_lost_columns_show_in_the_conserved_quantity_or_at_the_start(rng, monkeypatch):
    right = riccati.grade

    def wrong(*args, **options):
        graded = right(*args, **options)
        return replace(
            graded, L=graded.L[:, :-1], pivots=graded.pivots[:-1], rows=graded.rows[:-1], doubt=graded.doubt[:-1]
        )

    monkeypatch.setattr(riccati, "grade", wrong)
    assert not lr.solve(general_problem(rng), TIMES).certificate().exact


@pytest.mark.parametrize("name", ["function", "gram"])
@pytest.mark.parametrize("sizes", [(5, 4, 6), (27, 26, 25)], ids=["stacked", "looped"])
def test_what_the_trajectory_gives_is_what_is_certified(name, sizes, rng, monkeypatch):
    """The derivative needs complex times, which only one of the evaluations takes: the other is compared with it."""
    network = lr.inits.zero_balanced(rng, sizes=sizes, scale=0.1)
    problem = lr.Problem(lr.Task.from_correlations(target(rng, sizes[2], sizes[0])), network)
    assert lr.solve(problem, TIMES).certificate().exact
    right = getattr(riccati.RiccatiSolution, name)
    monkeypatch.setattr(riccati.RiccatiSolution, name, lambda self, times: 1.01 * right(self, times))
    assert not lr.solve(problem, TIMES).certificate().exact


def test_wrong_modes_are_not_certified(rng, monkeypatch):
    problem = aligned_problem(rng, (5,), strengths=[0.1, -0.2, 2.0], lam=[1.0, -3.0, 0.5])
    right = modes._evolve
    for change in (lambda s, n, smaller, *rest: (s, n, 2 * smaller, *rest), lambda s, *rest: (1.01 * s, *rest)):
        with monkeypatch.context() as patch:
            patch.setattr(modes, "_evolve", lambda *args, change=change: right(*change(*args)))
            assert lr.solve(problem, TIMES).certificate().residual > WRONG


def test_wrong_deep_modes_are_not_certified(rng, monkeypatch):
    problem = aligned_problem(rng, (5, 4), strengths=[0.1, -0.2, 2.0])
    right = deep_modes.Courses.sizes
    monkeypatch.setattr(deep_modes.Courses, "sizes", lambda self, times: right(self, 1.01 * times))
    assert lr.solve(problem, TIMES).certificate().residual > WRONG


def test_wrong_shallow_networks_are_not_certified(rng, monkeypatch):
    task = lr.Task.from_data(rng.normal(size=(30, 4)), rng.normal(size=(30, 3)))
    problem = lr.Problem(task, lr.Network([rng.normal(size=(3, 4))]))
    right = shallow.ShallowSolution.function
    monkeypatch.setattr(shallow.ShallowSolution, "function", lambda self, times: right(self, 1.02 * times))
    certificate = lr.solve(problem, TIMES).certificate()
    assert certificate.residual > WRONG and not certificate.exact


def test_a_solution_that_cannot_go_on_is_not_certified(rng, monkeypatch):
    """Restarted at the wrong time: the residual is clean, the semigroup is not."""
    right = riccati.RiccatiSolution.restarted
    monkeypatch.setattr(riccati.RiccatiSolution, "restarted", lambda self, time: right(self, 0.9 * time))
    certificate = lr.solve(general_problem(rng), TIMES[:4]).certificate()
    assert certificate.residual <= EXACT and certificate.semigroup > WRONG and not certificate.exact


@pytest.mark.compiles
def test_a_run_that_has_diverged_is_judged_in_no_time(rng):
    """Its flow is stiff beyond measure: no residual, and no hanging."""
    X = rng.normal(size=(40, 6))
    task = lr.Task.from_data(X, X @ rng.normal(size=(6, 3)))
    run = lr.descend(lr.Problem(task, lr.inits.gaussian(rng, sizes=(6, 16, 3), scale=0.3)), rate=2.0, steps=100)
    assert run.status.end == "diverged"
    found = run.certificate()
    assert found.residual is None and not found.exact
    with pytest.raises(lr.InvalidInput, match="traj must not have diverged"):
        lr.regime(run)
    panel = lr.plot.loss(run).axes[0]
    assert panel.get_yscale() == "log" and panel.get_title(loc="left") == "descend has diverged"
    with pytest.raises(lr.InvalidInput, match="traj must have learned something, and its loss rose from"):
        lr.regime(lr.descend(run.problem, rate=2.0, steps=2))


@pytest.mark.parametrize("sizes", [(4, 8, 2), (2, 8, 4)])
def test_of_a_function_that_is_nothing_but_rounding(sizes):
    """Layers orthogonal to each other and nothing to learn: two evaluations agree to rounding of the weights."""
    task = lr.Task.from_correlations(np.zeros((sizes[2], sizes[0])))
    problem = lr.Problem(task, lr.inits.orthogonal(0, sizes=sizes, scales=(0.5, 0.2)))
    traj = lr.solve(problem, [0.0, 1.0, 30.0])
    assert np.abs(traj.function).max() < 1e-15 and np.abs(traj.loss).max() < 1e-30
    assert traj.certificate().exact
