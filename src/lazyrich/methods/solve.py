"""`solve`: the exact solution that applies, or the reasons why none does."""

from __future__ import annotations

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._threads import SMALL, one_blas_thread
from lazyrich.facts import Condition, Refusal
from lazyrich.methods import EXACT
from lazyrich.methods.base import Method, Solution
from lazyrich.methods.riccati import Riccati
from lazyrich.problem import Problem, as_problem
from lazyrich.trajectory import Trajectory


class NoExactSolution(ValueError):
    """No closed form applies; the message names the conditions that fail, by how much, and what to try instead.

    >>> task, network = lr.Task.from_correlations([[1.0]]), lr.Network([[[1.0]], [[0.5]]], "tanh")
    >>> lr.solve(lr.Problem(task, network), [1.0])
    Traceback (most recent call last):
        ...
    lazyrich.methods.solve.NoExactSolution: no exact solution applies, ...: try lr.predict(problem), which integrates
    and tells its error, lr.flow(problem, times), or lr.descend(problem, rate=…, steps=…), which trains step by step.
    """


def solve(
    problem: Problem,
    times: object,
    *,
    method: str | None = None,
    on_separatrix: str = "stay",
    perturbation: float = 1e-12,
    device_arrays: bool = False,
) -> Trajectory:
    """The exact trajectory of a problem at the given times, of which the last may be np.inf.

    Parameters
    ----------
    problem : a task and a network, of which `problem.facts` says which closed forms apply
    times : not negative, sorted
    method : the closed form to take; without it the cheapest that applies
    on_separatrix : "stay", as the theorem says of an initialisation there, or "perturb" to see the escape
    perturbation : how far "perturb" moves it off, relative to the weights; it is balanced only up to that size
    device_arrays : evaluate where the array `times` lives (JAX, PyTorch, CuPy), by riccati, and give such arrays back

    Returns
    -------
    Trajectory : `.method` names the closed form, `.notes` tells of a separatrix

    Raises
    ------
    NoExactSolution : none applies; the message says why, and what to try

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> lr.solve(problem, [0.0, 1.0, 10.0]).function.ravel().round(6)
    array([0.01    , 0.430588, 2.      ])
    """
    as_problem(problem)
    push = _push(on_separatrix, perturbation)
    with one_blas_thread(max(problem.network.sizes) <= SMALL):
        wants_riccati = push or (device_arrays and not problem.facts.methods[Riccati.name])
        chosen = _choose(problem, Riccati.name if wants_riccati and method is None else method)
        riccati = Riccati() if chosen.name == Riccati.name else None
        if riccati is None and push:
            raise InvalidInput(f"on_separatrix='perturb' works with the method riccati, and method is {chosen.name!r}.")
        solution: Solution = riccati.pushed(problem, push) if riccati and push else chosen.solution(problem)
    if device_arrays:
        if riccati is None:
            raise InvalidInput(
                f"device_arrays works with the method riccati, and this problem is solved by {chosen.name}."
            )
        from lazyrich.methods.riccati.on_device import solve_on_device  # only here: it looks for the other libraries

        return solve_on_device(riccati.pushed(problem, push), times, push)
    return Trajectory.exact(times, chosen.name, solution, citations=chosen.citations, pushed=push)


def _choose(problem: Problem, method: str | None) -> Method:
    known, methods = {method.name: method for method in EXACT}, problem.facts.methods
    if method is not None:
        method = _check.choice("method", method, tuple(known))
        methods = {method: methods[method]}
    for name, refusals in methods.items():
        if not refusals:
            return known[name]
    if not problem.loss.squared:
        raise NoExactSolution(
            f"no exact solution applies, for all are about the squared loss, whose pull on W is linear in W, and this "
            f"one is {problem.loss}: try lr.predict(problem), which integrates and tells its error, lr.flow(problem, "
            "times), or lr.descend(problem, rate=…, steps=…), which trains step by step."
        )
    # the methods for this number of layers say most: they come first, and of the others this one thing is said
    told = sorted(methods.items(), key=lambda item: item[1][0].condition is Condition.DEPTH)
    listed = "; ".join(f"{name}: {_reasons(refusals)}" for name, refusals in told)
    if method is not None and (other := problem.facts.method):
        raise NoExactSolution(f"the method asked for does not apply, {listed}: try {other}.")
    raise NoExactSolution(
        f"no exact solution applies, {listed}: try lr.predict(problem), which integrates and tells its error, "
        "lr.flow(problem, times), or lr.descend(problem, rate=…, steps=…), which trains step by step."
    )


def _reasons(refusals: tuple[Refusal, ...]) -> str:
    return str(refusals[0]) if refusals[0].condition is Condition.DEPTH else ", and ".join(map(str, refusals))


def _push(on_separatrix: str, perturbation: float) -> float:
    if _check.choice("on_separatrix", on_separatrix, ("stay", "perturb")) == "stay":
        return 0.0
    size = _check.positive("perturbation", perturbation)
    if size >= 1:
        raise InvalidInput(f"perturbation must be below 1, a fraction of the weights, and it is {size:g}.")
    return size
