"""Parameters found again in what SciPy simulated, and what is said where they cannot be."""

from __future__ import annotations

import numpy as np
import pytest

import lazyrich as lr

from .simulating import softmax, strengths

TASK = lr.tasks.semantic_hierarchy()
S = 8 * TASK.modes.s  # where modes end: Σxx = I/8
TIMES = np.linspace(0.0, 100.0, 60)
SIZES = (8, 14, 8)
FREE = {"scale": (1e-4, 0.5), "lam": (-3.0, 3.0), "rate": (0.05, 5.0)}
PORTS = lr.Task.from_data(np.eye(4), [[4, 2, 0, 0], [2, 4, 0, 0], [0, 0, 4, 2], [0, 0, 2, 4]])


def modes(scale=0.03, lam=0.4, rate=0.5, times=TIMES):
    return strengths(S, scale, lam, rate * times / 8)


def loss(**truth):
    return np.sum((modes(**truth) - S) ** 2, axis=1) / 16


def probabilities(scale=0.05, lam=0.0, rate=0.5, temperature=0.4, lapse=0.06):
    U, s, V = PORTS.modes
    a = strengths(4 * s, scale, lam, rate * TIMES / 4)
    return softmax(np.einsum("tm,om,im->tio", a, U, V), temperature, lapse)


def off(found, **truth):
    """The largest relative error of the estimates."""
    return max(abs(found.estimates[name] / value - 1) for name, value in truth.items())


@pytest.mark.long
class TestWithoutNoise:
    """Then estimates are the truth, and so they are from every readout."""

    @pytest.mark.parametrize("lam", [0.4, -0.4])
    def test_loss(self, lam):
        found = lr.fit(TASK, SIZES, TIMES, loss=loss(lam=lam), free=FREE)
        assert off(found, scale=0.03, lam=0.4, rate=0.5) < 1e-3  # the sign cannot be seen
        assert np.abs(found.trajectory.loss - loss()).max() < 1e-6
        assert any("sign of lam" in note for note in found.notes)

    def test_bounds_of_one_sign_are_kept(self):
        found = lr.fit(TASK, SIZES, TIMES, loss=loss(), free=FREE | {"lam": (-3.0, -0.1)})
        assert off(found, lam=-0.4) < 1e-3 and -0.4 in found.intervals["lam"]

    def test_modes_of_which_some_were_measured(self):
        found = lr.fit(TASK, SIZES, TIMES, modes=modes()[:, :3], free=FREE)
        assert off(found, scale=0.03, lam=0.4, rate=0.5) < 1e-3

    @pytest.mark.parametrize("lam", [0.4, -0.4])
    @pytest.mark.parametrize("kind", ["rsm", "rdm", "pairs"])
    def test_similarities_up_to_a_unit_and_with_the_sign(self, lam, kind):
        squares = np.sqrt(lam**2 + 4 * modes(lam=lam) ** 2)
        V = TASK.modes.V
        R = np.einsum("tm,im,jm->tij", (squares - lam) / 2, V, V)
        d = np.einsum("tii->ti", R)
        D = d[:, :, None] + d[:, None, :] - 2 * R
        given = {"rsm": R, "rdm": D, "pairs": np.array([one[np.triu_indices(8, 1)] for one in D])}
        found = lr.fit(TASK, SIZES, TIMES, **{kind.replace("pairs", "rdm"): 7.0 * given[kind]}, free=FREE)
        assert off(found, scale=0.03, lam=lam, rate=0.5) < 1e-3

    def test_choices(self):
        counts = np.round(1e7 * probabilities())
        free = {"scale": (1e-3, 0.5), "rate": (0.05, 5.0), "temperature": (0.05, 2.0), "lapse": (0.0, 0.3)}
        found = lr.fit(PORTS, (4, 6, 4), TIMES, choices=counts, free=free)
        assert off(found, scale=0.05, rate=0.5, temperature=0.4, lapse=0.06) < 1e-2

    def test_accuracy_as_it_is_and_as_counts(self):
        right = np.einsum("tii->t", probabilities()) / 4
        free = {"scale": (1e-3, 0.5), "rate": (0.05, 5.0), "temperature": 0.4, "lapse": 0.06}
        for more in ({}, {"trials": 10**6}):
            found = lr.fit(PORTS, (4, 6, 4), TIMES, accuracy=right, free=free, **more)
            assert off(found, scale=0.05, rate=0.5) < 1e-2

    def test_one_layer(self):
        curve = np.sum((0.1 - S) ** 2 * np.exp(-2 * 0.5 * TIMES[:, None] / 8), axis=1) / 16
        free = {"scale": (1e-4, 1.0), "rate": (0.05, 5.0)}
        found = lr.fit(TASK, (8, 8), TIMES, loss=curve, free=free)
        assert found.model == "shallow" and off(found, scale=0.1, rate=0.5) < 1e-3

    @pytest.mark.parametrize("kind", ["exact", "integrated"])
    def test_a_network_handed_over(self, kind):
        make = {"exact": lr.inits.zero_balanced, "integrated": lr.inits.gaussian}[kind]
        start = make(0, sizes=SIZES, scale=0.05)
        run = lr.flow(lr.Problem(TASK, start, rates=0.5), TIMES)
        similar = lr.observables.rsm_in(run)
        found = lr.fit(TASK, SIZES, TIMES, loss=run.loss, rsm=similar, start=start, free={"rate": (0.05, 5.0)})
        assert off(found, rate=0.5) < 1e-5
        assert np.abs(found.trajectory.loss - run.loss).max() < 1e-4


@pytest.mark.long
class TestUncertainty:
    def test_an_interval_is_where_the_profile_passes_its_level(self, rng):
        """Against a grid over both parameters."""
        curve, sd = loss(lam=0.0) + 0.1 * rng.normal(size=60), 0.1
        free = {"scale": (1e-4, 0.5), "rate": (0.05, 5.0)}
        found = lr.fit(TASK, SIZES, TIMES, loss=curve, noise=sd, free=free)
        (low, high), value = [found.intervals["rate"].low, found.intervals["rate"].high], found.estimates["scale"]

        def best(rate):
            scales = value * np.exp(np.linspace(-1, 1, 400))
            return -min(np.sum((loss(scale=a, lam=0.0, rate=rate) - curve) ** 2) for a in scales[::40]) / (2 * sd**2)

        from scipy.optimize import minimize_scalar

        def profiled(rate):
            of = lambda a: np.sum((loss(scale=np.exp(a), lam=0.0, rate=rate) - curve) ** 2) / (2 * sd**2)
            return -minimize_scalar(of, bracket=(np.log(value), np.log(value) + 0.1), tol=1e-8).fun

        top = profiled(found.estimates["rate"])
        assert [round(top - profiled(end), 2) for end in (low, high)] == [1.92, 1.92]  # χ²₁ at 95 %, halved

    def test_what_only_a_product_is_known_of_is_named_with_its_ridge(self, rng):
        """One mode, lazy: the curve is e^{−|λ| rate t}."""
        task, times = lr.Task.from_correlations([[1.0]]), np.linspace(0.0, 0.02, 60)
        curve = strengths([1.0], 0.1, 300.0, times)[:, 0]
        curve = (1 - curve) ** 2 / 2 + 0.01 * rng.normal(size=60)
        free = {"scale": 0.1, "lam": (10.0, 1e4), "rate": (1e-3, 1e3)}
        found = lr.fit(task, (1, 1, 1), times, loss=curve, free=free)
        assert found.trade_offs == (("lam", "rate"),) and found.unidentified == ("lam",)
        ends = [note for note in found.notes if "because lam has come to its bound" in note]
        assert len(ends) == 2  # of rate, at either bound of lam
        lam, rate = found.profiles[0].values, found.likelihood.space.values(found.profiles[0].path)["rate"]
        assert np.abs(lam * rate / 300 - 1).max() < 0.2

    def test_scale_is_only_bounded_above_where_lam_is_larger(self, rng):
        curve = loss(scale=1e-3, lam=2.0) + 0.05 * rng.normal(size=60)
        found = lr.fit(TASK, SIZES, TIMES, loss=curve, free=FREE)
        scale = found.intervals["scale"]
        assert scale.low_open and not scale.high_open and 1e-3 in scale and str(scale).startswith("≤ ")

    def test_a_curve_of_noise_says_nothing(self, rng):
        found = lr.fit(TASK, SIZES, TIMES[:5] / 100, loss=2.2 + rng.normal(size=5), free=FREE)
        assert set(found.unidentified) == {"scale", "lam", "rate"}
        assert all(str(one) == "anything within the bounds" for one in found.intervals.values())

    @pytest.mark.parametrize("count", [4, 5])
    def test_a_handful_of_points_makes_honest_intervals(self, count):
        """One or two degrees of freedom: χ² would hold the truth in some 60 and 75 %."""
        random, places = np.random.default_rng(1), np.linspace(8, 40, count).astype(int)
        curve, held = loss(lam=0.0)[places], []
        for _ in range(8):
            noisy = curve + 0.1 * random.normal(size=count)
            found = lr.fit(TASK, SIZES, TIMES[places], loss=noisy, free=FREE)
            held += [0.03 in found.intervals["scale"], 0.5 in found.intervals["rate"]]
        assert np.mean(held) >= 0.9

    def test_a_unit_is_a_parameter_too(self):
        """With it, Student's t of n − 2 is the threshold where rate alone is free: F = t²."""
        from scipy.stats import t

        R = np.random.default_rng(0).normal(size=(3, 1, 1)) ** 2
        task = lr.Task.from_correlations([[1.0]])
        found = lr.fit(task, (1, 1, 1), [1.0, 2.0, 3.0], rsm=R, free={"scale": 0.1, "rate": (0.1, 10.0)})
        assert found.within == pytest.approx(1.5 * np.log1p(t.ppf(0.975, 1) ** 2))

    def test_recovery_keeps_its_promise(self, rng):
        free = {"scale": (1e-4, 0.5), "rate": (0.05, 5.0)}
        found = lr.fit(TASK, SIZES, TIMES, loss=loss(lam=0.0) + 0.05 * rng.normal(size=60), free=free)
        again = found.recovery(20, rng=1)
        assert all(0.85 <= share <= 1.0 for share in again.coverage.values())
        assert again.median_error["rate"] < 0.05 and again.identified == {"scale": 1.0, "rate": 1.0}
        np.testing.assert_allclose(again.truths["rate"], found.estimates["rate"])
        spread = found.recovery(3, over="bounds").truths["rate"]
        assert spread.min() >= 0.05 and spread.max() <= 5.0 and np.ptp(spread) > 0


@pytest.mark.long
class TestSubjectsAndTrials:
    def test_missing_trials_change_nothing_else(self, rng):
        curve = loss() + 0.05 * rng.normal(size=60)
        holes = np.where(np.arange(60) % 3 == 0, np.nan, curve)
        there = ~np.isnan(holes)
        one, other = (
            lr.fit(TASK, SIZES, t, loss=y, free=FREE) for t, y in ((TIMES, holes), (TIMES[there], curve[there]))
        )
        assert abs(one.log_likelihood - other.log_likelihood) < 1e-6
        assert off(one, **other.estimates) < 1e-4

    def test_shared_parameters_of_equal_subjects_are_those_of_one(self, rng):
        curve = loss() + 0.05 * rng.normal(size=60)
        one = lr.fit(TASK, SIZES, TIMES, loss=curve, noise=0.05, free=FREE)
        both = lr.fit(TASK, SIZES, TIMES, loss=[curve, curve], noise=0.05, free=FREE, subjects="shared")
        assert off(both, **one.estimates) < 1e-3
        assert abs(both.log_likelihood - 2 * one.log_likelihood) < 1e-6

    def test_a_group(self, rng):
        rates = 0.5 * np.exp(0.3 * rng.normal(size=8))
        free = {"scale": (1e-4, 0.5), "rate": (0.05, 5.0)}
        curves = [loss(rate=rate, lam=0.0) + 0.05 * rng.normal(size=60) for rate in rates]
        found = lr.fit(TASK, SIZES, TIMES, loss=curves, free=free)
        assert len(found.subjects) == 8 and found.names == tuple(range(8))
        assert off(found, rate=np.exp(np.log(rates).mean())) < 0.02
        assert abs(found.spread["rate"] - np.log(rates).std()) < 0.05 and found.spread["scale"] < 0.15
        assert 0.03 in found.intervals["scale"]
        # subjects that are known exactly make Student's interval
        half = 2.365 * np.log(rates).std(ddof=1) / np.sqrt(8)
        width = np.log(found.intervals["rate"].high / found.intervals["rate"].low) / 2
        assert abs(width / half - 1) < 0.1
        assert found.log_likelihood == sum(one.log_likelihood for one in found.subjects)
        own = [one.noise["loss"] for one in found.subjects]
        assert found.noise["loss"] == pytest.approx(np.sqrt(np.mean(np.square(own))))
        assert abs(found.noise["loss"] / 0.05 - 1) < 0.15  # around the mean curve it would be larger

    @pytest.mark.parametrize("kind", [dict, "pandas", "xarray"])
    def test_tables(self, kind, rng):
        p = probabilities()
        t, item = np.repeat(np.arange(60), 8), np.tile(np.arange(4), 120)
        choice = np.array([rng.choice(4, p=p[a, b]) for a, b in zip(t, item, strict=True)])
        mouse = np.where(rng.uniform(size=480) < 0.5, "b", "a")
        columns = {"time": TIMES[t], "item": item, "choice": choice, "subject": mouse}
        library = pytest.importorskip(kind) if isinstance(kind, str) else None
        if kind == "pandas":
            table = library.DataFrame(columns)
        elif kind == "xarray":
            table = library.Dataset({name: ("trial", column) for name, column in columns.items()})
        else:
            table = columns
        counts = np.zeros((2, 60, 4, 4))
        np.add.at(counts, ((mouse == "b").astype(int), t, item, choice), 1)
        free = {"scale": 0.05, "rate": (0.05, 5.0), "temperature": 0.4}
        about = {"free": free, "subjects": "shared"}
        one = lr.fit(PORTS, (4, 6, 4), data=table, **about)
        other = lr.fit(PORTS, (4, 6, 4), TIMES, choices=counts, **about)
        assert one.names == ("a", "b") and one.log_likelihood == other.log_likelihood
        assert one.estimates == other.estimates

    def test_a_table_of_single_trials(self, rng):
        t = np.repeat(np.arange(60), 5)
        right = rng.integers(0, 2, 300)
        free = {"scale": 0.05, "rate": (0.05, 5.0)}
        one = lr.fit(PORTS, (4, 6, 4), data={"time": TIMES[t], "correct": right}, free=free)
        share = np.bincount(t, right) / 5
        other = lr.fit(PORTS, (4, 6, 4), TIMES, accuracy=share, trials=5, free=free)
        assert one.estimates == other.estimates and one.count == 300


@pytest.mark.long
class TestModels:
    @pytest.mark.parametrize("truth", ["deep", "shallow"])
    def test_the_one_that_learned_is_preferred(self, truth, rng):
        rich = loss(lam=0.0)
        lazy = np.sum((0.1 - S) ** 2 * np.exp(-TIMES[:, None] / 8), axis=1) / 16
        curve = {"deep": rich, "shallow": lazy}[truth] + 0.05 * rng.normal(size=60)
        found = lr.fit(TASK, SIZES, TIMES, loss=curve, free=FREE, models=("deep", "shallow", "rich"))
        assert found.model == {"deep": "rich", "shallow": "shallow"}[truth]
        table = found.compare()
        assert table.rows[0].model == found.model and abs(table.weights.sum() - 1) < 1e-12
        assert found.bic == min(one.bic for one in (found, *found.others))
        assert "weight" in str(found)

    def test_criteria(self):
        found = lr.fit(TASK, SIZES, TIMES, loss=loss(), free=FREE)
        assert found.parameters == 4  # three, and the noise
        assert found.aic == 8 - 2 * found.log_likelihood
        assert found.bic == 4 * np.log(60) - 2 * found.log_likelihood


@pytest.mark.compiles
@pytest.mark.parametrize("kind", ["loss", "choices", "accuracy", "rsm"])
def test_in_jax_the_likelihood_is_the_same_with_its_slopes(kind, rng):
    jax = pytest.importorskip("jax")
    p = probabilities()
    task = TASK if kind in ("loss", "rsm") else PORTS
    given = {
        "loss": lambda: {"loss": loss() + 0.05 * rng.normal(size=60)},
        "choices": lambda: {"choices": np.array([[rng.multinomial(9, row) for row in rows] for rows in p])},
        "accuracy": lambda: {"accuracy": rng.binomial(20, np.einsum("tii->t", p) / 4) / 20, "trials": 20},
        "rsm": lambda: {"rsm": (lambda R: R + np.swapaxes(R, 1, 2))(rng.normal(size=(60, 8, 8)))},
    }[kind]()
    free = FREE if task is TASK else FREE | {"temperature": (0.1, 2.0), "lapse": (0.0, 0.2)}
    found = lr.fit(task, (task.d_in, 14, task.d_out), TIMES, free=free, **given)
    values = {"scale": 0.02, "lam": 0.3, "rate": 0.4} | ({} if task is TASK else {"temperature": 0.5, "lapse": 0.05})
    with jax.enable_x64(True):
        density = jax.jit(jax.value_and_grad(found.jax_log_likelihood()))
        value, slope = density({name: jax.numpy.asarray(one) for name, one in values.items()})
        value, slope = float(value), {name: float(one) for name, one in slope.items()}
    plain = lambda **more: float(found.likelihood.of_values({k: np.float64(v) for k, v in (values | more).items()}))
    assert abs(value - plain()) < 1e-9 * abs(value)
    for name, at in values.items():
        h = 1e-5 * at
        difference = (plain(**{name: at + h}) - plain(**{name: at - h})) / (2 * h)
        assert abs(slope[name] - difference) < 1e-5 * (1 + abs(difference))


@pytest.mark.long
def test_what_is_written_and_drawn(rng, tmp_path):
    pytest.importorskip("matplotlib")
    found = lr.fit(TASK, SIZES, TIMES, loss=loss() + 0.05 * rng.normal(size=60), free=FREE)
    data = found.to_xarray()
    assert float(data.estimate.sel(parameter="rate")) == found.estimates["rate"]
    assert data.loss.dims == ("time",) and abs(data.loss_predicted.values - found.predicted["loss"]).max() == 0
    found.plot(tmp_path / "fit.png")
    assert (tmp_path / "fit.png").stat().st_size > 1000
    assert str(found).startswith("model         deep, 8-14-8") and repr(found).startswith("<Fit: deep, scale 0.0")
    few = lr.fit(TASK, SIZES, TIMES[::6], loss=loss()[::6], noise=0.05, free={"scale": 0.03, "lam": 0.4, "rate": 0.5})
    (curve,) = [line for line in few.plot().subfigs[0].axes[0].lines if len(line.get_xdata()) > 100]
    np.testing.assert_allclose(np.interp(TIMES[:55], *curve.get_data()), loss()[:55], atol=1e-3)
    group = lr.fit(TASK, SIZES, TIMES, loss=[loss(), loss()] + 0.05 * rng.normal(size=(2, 60)), free=FREE)
    assert group.to_xarray().subject_estimate.shape == (2, 3)
    assert len(group.plot().subfigs[1].axes) == 3 and "between subjects" in str(group)


@pytest.mark.parametrize(("relative", "told"), [(False, False), (True, True)])
def test_noise_of_unequal_size_is_told(rng, relative, told):
    """The likelihood has noise of one size; noise that goes with the loss puts estimates outside their intervals."""
    curve = loss(scale=1e-3, lam=0.0)
    noise = 0.02 * rng.normal(size=len(curve)) * (curve if relative else 0.2)
    found = lr.fit(TASK, SIZES, TIMES, loss=curve + noise, free=FREE, models=("deep",))
    assert any("times as large where that is large" in note for note in found.notes) is told
