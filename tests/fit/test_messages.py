"""Bad input: one sentence that names the argument, what came and what to try, before anything is computed."""

from __future__ import annotations

import re

import numpy as np
import pytest

import lazyrich as lr

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

TASK = lr.Task.from_labels(np.eye(3), ["a", "b", "c"])
NAMED = lr.Task.from_data(np.eye(3), np.eye(3), items=["a", "b", "c"])
TIMES, CURVE = np.linspace(0.0, 10.0, 5), np.linspace(1.0, 0.0, 5)
FREE = {"scale": (1e-4, 0.5), "rate": (0.05, 5.0)}
COUNTS = np.ones((5, 3, 3))


def fit(task=TASK, sizes=(3, 4, 3), times=TIMES, free=FREE, **options):
    return lr.fit(task, sizes, times, free=free, **({"loss": CURVE} if not options else {}) | options)


fitted = lambda **options: fit(loss=CURVE, **options)

CASES = {
    "a task": (lambda: fit(task=3), "task must be"),
    "sizes": (
        lambda: fit(sizes=(4, 5, 3)),
        "sizes must begin with the inputs of the task (3) and end with its outputs (3)",
    ),
    "deep sizes": (lambda: fit(sizes=(3, 4, 4, 3)), "sizes must be those of two layers (inputs, hidden, outputs)"),
    "unsorted times": (lambda: fit(times=[0.0, 2.0, 1.0, 3.0, 4.0]), "times must be sorted, and entry 2 (1) is below"),
    "negative times": (lambda: fit(times=TIMES - 1), "times must not be negative"),
    "no times": (lambda: fit(times=None), "times must be a vector of numbers, one per measurement, and it is None"),
    "one time": (lambda: fit(times=[0.0], loss=[1.0]), "times must be two at least, and there is 1"),
    "NaNs": (lambda: fit(loss=CURVE * np.nan), "loss must hold measurements, and all of its 5 entries are NaN"),
    "a subject of NaNs": (lambda: fit(loss=[CURVE, CURVE * np.nan]), "all of subject 1 are NaN"),
    "infinities": (
        lambda: fit(loss=np.append(CURVE[1:], np.inf)),
        "loss must be finite or NaN where it is missing, and 1",
    ),
    "words": (lambda: fit(loss=["a"] * 5), "loss must hold real numbers, and it has dtype <U1"),
    "length": (lambda: fit(loss=CURVE[1:]), "loss must have shape 5, or subjects × 5, and it has 4"),
    "nothing": (lambda: fit(loss=None), "something that was measured is needed, one of loss, accuracy"),
    "counts": (lambda: fit(choices=-COUNTS), "choices must not be negative, for they are counts, and the least is -1"),
    "shares": (lambda: fit(choices=COUNTS / 2), "choices must be counts, whole numbers, and some have fractions"),
    "options": (lambda: fit(choices=np.ones((5, 3, 2))), "choices must have shape 5 × 3 × 3, or subjects × 5 × 3 × 3"),
    "accuracy": (lambda: fit(accuracy=2 * CURVE), "accuracy must lie between 0 and 1, and it goes from 0 to 2"),
    "no right option": (
        lambda: lr.fit(lr.Task.from_correlations(np.ones((2, 2))), (2, 3, 2), TIMES, accuracy=CURVE, free=FREE),
        "accuracy needs one right option for each item, and item 0 of the task has several outputs as large",
    ),
    "trials alone": (lambda: fitted(trials=5), "trials belong to accuracy"),
    "trials": (lambda: fit(accuracy=CURVE, trials=[1, 2]), "trials must be one number, one per time (5) or subjects"),
    "negative trials": (lambda: fit(accuracy=CURVE, trials=-1), "trials must not be negative, and the least is -1"),
    "subjects differ": (
        lambda: fit(loss=[CURVE, CURVE], accuracy=CURVE),
        "all measurements must be of the same subjects, and there are loss of 2, accuracy of 1",
    ),
    "no choices were made": (lambda: fit(choices=0 * COUNTS), "and all of subject 0 are 0 or NaN"),
    "no trials": (lambda: fit(accuracy=CURVE, trials=0), "trials must be above 0 for some time of every subject"),
    "shares of other trials": (
        lambda: fit(accuracy=CURVE, trials=7),
        "accuracy must be shares of the trials, and 0.5 of 7 is no whole number",
    ),
    "similarities that are not symmetric": (
        lambda: fit(rsm=np.arange(45.0).reshape(5, 3, 3)),
        "rsm must be symmetric at each time, and entries of the same two items differ by up to 4",
    ),
    "noise of counts": (lambda: fit(choices=COUNTS, noise=0.1), "noise belongs to Gaussian readouts, and choices are"),
    "a model twice": (lambda: fitted(models=("deep", "deep")), "models must name each once, and 'deep' is there 2"),
    "names of items that have none": (
        lambda: fit(times=None, data={"time": TIMES, "choice": [0, 1, 2, 0, 1], "item": list("abcab")}),
        "data['item'] must be whole numbers where the items of the task have no names",
    ),
    "an unknown item": (
        lambda: fit(task=NAMED, times=None, data={"time": TIMES, "choice": [0] * 5, "item": list("abcad")}),
        "each of data['item'] must be one of 'a', 'b', 'c', and it is 'd'",
    ),
    "half a choice": (
        lambda: fit(times=None, data={"time": TIMES, "choice": [0, 1, 2, 0.5, 1], "item": [0] * 5}),
        "data['choice'] must be whole numbers, from 0 to 2",
    ),
    "no bounds": (lambda: fit(free=(1, 2)), "free must map parameters to their bounds, such as"),
    "an unknown": (lambda: fit(free={"lambda": (0, 1)}), "did you mean 'lam'?"),
    "reversed": (
        lambda: fit(free=FREE | {"rate": (5.0, 0.1)}),
        "free['rate'] must be a lower and a higher bound, and it is (5, 0.1): try (0.1, 5)",
    ),
    "equal": (lambda: fit(free=FREE | {"rate": (1.0, 1.0)}), "try 1, which holds it"),
    "three bounds": (lambda: fit(free=FREE | {"rate": (1, 2, 3)}), "free['rate'] must be two bounds (low, high)"),
    "no logarithm": (lambda: fit(free=FREE | {"scale": (0.0, 1.0)}), "free['scale'] must be above 0"),
    "lapse": (lambda: fit(free=FREE | {"lapse": (0.0, 2.0)}), "free['lapse'] must lie between 0 and 1"),
    "no scale": (lambda: fit(free={"rate": (0.1, 1.0)}), "free must say what scale is, and it has 'rate'"),
    "no choices": (lambda: fit(free=FREE | {"temperature": (0.1, 1.0)}), "free['temperature'] belongs to accuracy and"),
    "models": (lambda: fitted(models=("deep", "wide")), "models must be one of 'deep', 'shallow', 'rich', and it is"),
    "no models": (lambda: fitted(models=()), "models must name what may have learned"),
    "hidden layer": (
        lambda: fit(rsm=np.ones((5, 3, 3)), models="shallow"),
        "layer must be 'outputs' for the model 'shallow', which has no hidden layer",
    ),
    "subjects": (lambda: fitted(subjects="all"), "subjects must be one of 'group', 'shared', and it is 'all'"),
    "noise": (lambda: fitted(noise=-1.0), "noise must be above 0, and it is -1"),
    "noise of what": (lambda: fitted(noise={"rsm": 1.0}), "noise must be one of 'loss', and it is 'rsm'"),
    "start": (lambda: fitted(start=3, free={"rate": (0.1, 1.0)}), "start must be a Network, and it is a int"),
    "start and models": (
        lambda: fitted(start=lr.inits.gaussian(0, sizes=(3, 4, 3), scale=0.1), models="deep"),
        "models must not be given beside start",
    ),
    "start and scale": (
        lambda: fitted(start=lr.inits.gaussian(0, sizes=(3, 4, 3), scale=0.1)),
        "free['scale'] is that of the aligned start, and start= is another",
    ),
    "start of other sizes": (
        lambda: fitted(start=lr.inits.gaussian(0, sizes=(3, 5, 3), scale=0.1), free={"rate": (0.1, 1.0)}),
        "start must have the sizes (3, 4, 3), and it has (3, 5, 3)",
    ),
    "inputs that are not white": (
        lambda: fit(task=lr.Task.from_correlations(np.eye(2), np.diag([1.0, 2.0])), sizes=(2, 3, 2)),
        "task must have white inputs (Σxx = c·I) where the start is aligned with it, and these are off by 0.33",
    ),
    "a table and arrays": (lambda: fitted(data={"time": TIMES}), "loss must not be given beside data"),
    "a table and times": (lambda: fit(data={"time": TIMES, "loss": CURVE}), "times must not be given beside data"),
    "a table without time": (
        lambda: fit(times=None, data={"loss": CURVE}),
        "data must have a column 'time' and one of",
    ),
    "a choice of nothing": (
        lambda: fit(times=None, data={"time": TIMES, "choice": [0, 1, 2, 0, 1]}),
        "data must have a column 'item' beside 'choice'",
    ),
    "an item that is not there": (
        lambda: fit(times=None, data={"time": TIMES, "choice": [0, 1, 2, 0, 1], "item": [0, 1, 2, 3, 1]}),
        "data['item'] must lie between 0 and 2, and it goes from 0 to 3",
    ),
    "recovery of a group": (
        lambda: fit(loss=[CURVE, CURVE + 0.1]).recovery(),
        "recovery is that of one subject, and this fit is of a group",
    ),
    "the likelihood of a group in JAX": (
        lambda: fit(loss=[CURVE, CURVE + 0.1]).jax_log_likelihood(),
        "jax_log_likelihood is that of one subject, and this fit is of a group",
    ),
    "noise that nothing is left for": (
        lambda: fit(times=TIMES[:3], loss=CURVE[:3], free=FREE | {"lam": (0.0, 3.0)}),
        "noise must be given where nothing is left to estimate it from, and loss has 3 measurements for 3 free",
    ),
    "a subject seen twice": (
        lambda: fit(loss=[CURVE, [1.0, np.nan, np.nan, np.nan, 0.0]]),
        "and loss of subject 1 has 2 measurements for 2 free parameters: try noise=",
    ),
    "recovery of nothing": (lambda: fit(free={"scale": 0.1}).recovery(), "recovery needs a free parameter"),
    "recovery over what": (
        lambda: fit(free={"scale": (0.1, 1)}).recovery(over="all"),
        "over must be one of 'estimates'",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_one_sentence(case):
    call, message = CASES[case]
    with pytest.raises(lr.InvalidInput, match=re.escape(message)) as told:
        call()
    assert str(told.value).endswith(".") and "\n" not in str(told.value)


@pytest.mark.compiles
def test_in_jax_unknown_names_are_refused():
    jax = pytest.importorskip("jax")
    density = fit().jax_log_likelihood()
    with jax.enable_x64(True), pytest.raises(lr.InvalidInput, match=r"did you mean 'scale'\?"):
        density({"scal": 0.1})


def test_known_noise_leaves_few_points_their_say():
    found = fit(times=TIMES[:2], loss=CURVE[:2], noise=0.1)
    assert set(found.intervals) == {"scale", "rate"} and found.within == pytest.approx(1.92, abs=0.01)


def test_nothing_free_is_a_likelihood():
    found = fit(free={"scale": 0.1, "rate": 0.5}, noise=0.1, loss=CURVE)
    assert found.estimates == {} and np.isfinite(found.log_likelihood) and "held" in str(found)
    both = fit(free={"scale": 0.1, "rate": 0.5}, noise=0.1, loss=[CURVE, CURVE])
    assert abs(both.log_likelihood - 2 * found.log_likelihood) < 1e-12 and len(both.subjects) == 2
