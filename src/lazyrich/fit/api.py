"""`fit`: from what was measured to the parameters that explain it, one model after another, subject by subject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._progress import progress
from lazyrich._threads import one_blas_thread
from lazyrich.fit.given import Given
from lazyrich.fit.groups import group_fit
from lazyrich.fit.likelihood import Likelihood
from lazyrich.fit.measurements import Measurements, as_measurements, from_table
from lazyrich.fit.models import MODELS, Model, as_models
from lazyrich.fit.parameters import Bounds, as_free, space_of
from lazyrich.fit.readouts import Readout
from lazyrich.fit.result import Fit
from lazyrich.fit.single import fit_one
from lazyrich.networks import Network
from lazyrich.tasks import Task
from lazyrich.tasks.task import as_task


def fit(
    task: Task,
    sizes: Any,
    times: object = None,
    *,
    loss: object = None,
    accuracy: object = None,
    choices: object = None,
    modes: object = None,
    rsm: object = None,
    rdm: object = None,
    data: object = None,
    free: Mapping[str, Any],
    models: object = None,
    subjects: object = None,
    start: Network | None = None,
    trials: object = None,
    noise: object = None,
    layer: object = "hidden",
) -> Fit:
    """Which initialisation, balance and learning rate explain what was measured while something learned.

    The model starts aligned with the task, every mode at strength `scale` and balance `lam`, which small random
    starts become while they wait; `start` is another one. Several readouts may be given together. NaN is missing.

    Parameters
    ----------
    task : what was learned, with white inputs (`start` allows others)
    sizes : (d_in, hidden, d_out)
    times : of the measurements: trials, steps, epochs. `rate` is learned time per unit of these
    loss : T losses, ½ mean‖y − ŷ‖²; or subjects × T, as all that follow
    accuracy : T shares of right choices, of items shown equally often; with `trials`, binomial, else Gaussian
    choices : T × items × options, how often each output was chosen for each sample of the task
    modes : T × modes, uᵀWv, strongest first
    rsm : T × items × items, inner products of activities, up to a unit; NaN on the diagonal leaves it out
    rdm : the same as squared distances, T × items × items or T × pairs
    data : a long table instead, with columns time, subject, and loss, accuracy, correct, or item and choice; or an
        xarray Dataset, long, or over subject × time
    free : bounds of each parameter to be found, or a number that holds it: scale, lam (default 0), rate (1), and
        temperature (1) and lapse (0) of choices
    models : "deep", "shallow" (one layer, the lazy limit), "rich" (deep with λ = 0), or several, of which the best (by
        BIC) is returned, and `.compare()` has all
    subjects : "group", each with parameters of its own, and a group (default); or "shared", the same for all
    start : a network to start from; free parameters are then rate, temperature and lapse
    trials : how many choices each accuracy is the mean of: one number, one per time, or subjects × T
    noise : standard deviation of Gaussian readouts, one for all or {"loss": …}; it is estimated without
    layer : "hidden" or "outputs", whose similarities rsm and rdm are

    Returns
    -------
    Fit : with `.estimates`, `.intervals`, `.trajectory`, `.unidentified`, `.compare()`, `.plot()`, …

    >>> task, times = lr.Task.from_correlations(np.diag([3.0, 1.0])), np.linspace(0.0, 8.0, 60)
    >>> start = lr.inits.aligned(0, task, hidden=2, strengths=0.001)
    >>> curve = lr.solve(lr.Problem(task, start), times).loss
    >>> free = {"scale": (1e-5, 1.0), "lam": (-3.0, 3.0), "rate": (0.1, 10.0)}
    >>> found = lr.fit(task, (2, 2, 2), times, loss=curve, noise=0.05, free=free)
    >>> {name: round(value, 3) for name, value in found.estimates.items() if name != "lam"}
    {'scale': 0.001, 'rate': 1.0}
    """
    task, widths, bounds = as_task(task), _check.sizes(sizes), as_free(free)
    if (widths[0], widths[-1]) != (task.d_in, task.d_out):
        raise InvalidInput(
            f"sizes must begin with the inputs of the task ({task.d_in}) and end with its outputs ({task.d_out}), and "
            f"it is {widths}."
        )
    given = {"loss": loss, "accuracy": accuracy, "choices": choices, "modes": modes, "rsm": rsm, "rdm": rdm}
    if data is not None:
        if told := [kind for kind, value in given.items() if value is not None]:
            raise InvalidInput(f"{told[0]} must not be given beside data, which has all columns: try one of the two.")
        measured = from_table(task, data, times, noise, layer)
    elif times is None:
        raise InvalidInput("times must be a vector of numbers, one per measurement, and it is None.")
    else:
        measured = as_measurements(task, times, given, trials, noise, layer)
    chosen = _models(task, widths, models, start, measured, bounds)
    level = _check.choice("subjects", "group" if subjects is None else subjects, ("group", "shared"))
    alone = level == "shared" or len(measured.subjects) == 1
    likelihoods = [_likelihoods(model, measured, bounds, None if alone else len(measured.subjects)) for model in chosen]
    fits = []
    with progress(sum(map(len, likelihoods)), "fit") as advance, one_blas_thread():
        for parts in likelihoods:
            each = []
            for one in parts:
                each.append(fit_one(one))
                advance(1)
            together = each[0] if alone else group_fit(each, _likelihoods(parts[0].model, measured, bounds, None)[0])
            fits.append(replace(together, names=measured.subjects))
    best, *others = sorted(fits, key=lambda one: one.bic)
    return replace(best, others=tuple(others))


def _models(
    task: Task, sizes: tuple[int, ...], models: object, start: object, measured: Measurements, free: Mapping[str, Any]
) -> list[Model]:
    """What may have learned, each checked against what was measured."""
    if start is not None:
        if models is not None:
            raise InvalidInput(
                "models must not be given beside start, a network, which is the model: try one of the two."
            )
        high = free.get("rate", 1.0)
        longest = float(measured.times[-1]) * (high if isinstance(high, float) else high[1])
        return [Given.of(task, sizes, start, longest)]
    names = as_models(("deep" if len(sizes) > 2 else "shallow",) if models is None else models)
    if "shallow" in names and measured.layer == "hidden" and {"rsm", "rdm"} & set(measured.arrays):
        raise InvalidInput(
            "layer must be 'outputs' for the model 'shallow', which has no hidden layer, and it is 'hidden'."
        )
    return [MODELS[name](task, sizes) for name in names]


def _likelihoods(
    model: Model, measured: Measurements, free: Mapping[str, Bounds | float], subjects: int | None
) -> list[Likelihood]:
    """One per subject, or one of all."""
    which: list[int | None] = [None] if subjects is None else list(range(subjects))
    made = [likelihood_of(model, measured.times, measured.readouts(who), free) for who in which]
    for who, one in zip(which, made, strict=True):
        _leaves_noise(one, "" if who is None else f" of subject {measured.subjects[who]}")
    return made


def _leaves_noise(likelihood: Likelihood, whose: str) -> None:
    """A sentence where a curve can go through all of its measurements: noise would be 0, and intervals points."""
    for one in likelihood.readouts:
        known = (*likelihood.model.parameters, *one.parameters)
        if not one.noise.unknown_size:
            continue
        free = sum(name in known for name in likelihood.space.names) + one.noise.estimated - 1
        if one.noise.count <= free:
            raise InvalidInput(
                f"noise must be given where nothing is left to estimate it from, and {one.name}{whose} has "
                f"{one.noise.count} measurements for {free} free parameters: try noise=, or hold some of them."
            )


def likelihood_of(
    model: Model, times: Any, readouts: tuple[Readout, ...], free: Mapping[str, Bounds | float]
) -> Likelihood:
    """A model, measurements, and the free parameters that one of them has."""
    own = tuple(dict.fromkeys(name for one in readouts for name in one.parameters))
    known = (*model.parameters, *own)
    for name in free:
        if name in ("temperature", "lapse") and name not in known:
            raise InvalidInput(
                f"free[{name!r}] belongs to accuracy and choices, and none was measured: try without it."
            )
        if isinstance(model, Given) and name not in known:
            raise InvalidInput(f"free[{name!r}] is that of the aligned start, and start= is another: try without it.")
    return Likelihood(model, times, readouts, space_of(free, known, signed=any(one.sees_sign for one in readouts)))
