"""The two commands: what they print, what they write, and the one sentence with which they refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from oracles import integrate
from oracles.pictures import points_under_legends
from safetensors.numpy import save_file
from scipy.linalg import sqrtm

import lazyrich as lr
from lazyrich.cli import main
from lazyrich.methods.descend import descend
from lazyrich.observables import half_times, mode_strengths

PNG = b"\x89PNG\r\n\x1a\n"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(lr.__file__).parents[1])}  # the library under test, from any folder


@pytest.fixture
def folder(tmp_path, monkeypatch, rng):
    """A folder to work in, with data for a 4-5-3 network, its Σyx, and three networks."""
    monkeypatch.chdir(tmp_path)
    X = rng.normal(size=(30, 4)) @ rng.normal(size=(4, 4))
    Y = X @ rng.normal(size=(4, 3)) / 3 + 0.1 * rng.normal(size=(30, 3))
    np.savez("data.npz", inputs=X, targets=Y)
    np.savetxt("data.csv", np.hstack([X, Y]), delimiter=",", fmt="%.17g")
    np.save("sigma.npy", rng.normal(size=(3, 4)))
    W = lr.inits.zero_balanced(1, sizes=(4, 5, 3), scale=0.1).weights
    np.savez("balanced.npz", W1=W[0], W2=W[1])
    save_file({"0.weight": W[0].copy(), "2.weight": W[1].copy()}, "balanced.safetensors")
    np.savez("gaussian.npz", *lr.inits.gaussian(1, sizes=(4, 5, 3), scale=0.3).weights)
    return tmp_path


def answer(capsys, *arguments):
    """Exit status, standard output and standard error of one command."""
    status = main(list(arguments))
    out, err = capsys.readouterr()
    return status, out, err


def document(text):
    """Strict JSON: no NaN, no Infinity."""

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def losses(W, sigma_yx, sigma_xx, sigma_yy, times, **options):
    """The loss along the flow, by the oracle."""
    F = integrate.function(W, sigma_yx, sigma_xx, times, **options)
    parts = np.einsum("toi,ij,toj->t", F, sigma_xx, F) / 2, np.einsum("toi,oi->t", F, sigma_yx)
    return parts[0] - parts[1] + np.trace(sigma_yy) / 2


def correlations():
    data = np.load("data.npz")
    X, Y = data["inputs"], data["targets"]
    return Y.T @ X / len(X), X.T @ X / len(X), Y.T @ Y / len(X)


# the program ------------------------------------------------------------------------------------------------


def test_version(capsys):
    assert answer(capsys, "--version") == (0, f"lazyrich {lr.__version__}\n", "")


@pytest.mark.parametrize("command", [(), ("demo",), ("predict",)])
def test_help_ends_with_an_example(capsys, command):
    status, out, err = answer(capsys, *command, "--help")
    assert (status, err) == (0, "")
    assert out.rstrip().splitlines()[-2:][0] == "example:" and "  lazyrich " in out.rstrip().splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "COMMAND"),
        (("nonsense",), "invalid choice: 'nonsense'"),
        (("predict",), "--network"),
        (("predict", "--network", "balanced.npz"), "--data --sigma-yx is required"),
        (("predict", "--network", "a", "--data", "b", "--sigma-yx", "c"), "not allowed with"),
        (("predict", "--network", "a", "--data", "b", "--horizon", "soon"), "invalid float value: 'soon'"),
        (("predict", "--network", "a", "--data", "b", "--times", "2.5"), "invalid int value: '2.5'"),
        (("demo", "--nonsense"), "unrecognized arguments: --nonsense"),
    ],
)
def test_a_mistyped_command_is_one_sentence(capsys, arguments, says):
    status, out, err = answer(capsys, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert says in err and err.startswith("lazyrich") and err.endswith("--help says more.\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--network none.npz --data data.npz", "none.npz does not exist."),
        ("--network balanced.npz --data none.csv", "none.csv does not exist."),
        ("--network balanced.npz --sigma-yx none.npy", "none.npy does not exist."),
        ("--network data.csv --data data.npz", "data.csv must be .npz or .safetensors"),
        ("--network balanced.npz --sigma-yx data.csv", "the task's 7 inputs to its 30 outputs, and it maps 4 to 3"),
        ("--network balanced.npz --data data.npz --layers W1,W22", "did you mean 'W2'?"),
        ("--network balanced.npz --data data.npz --layers W1,,W2", "--layers must be separated by commas"),
        ("--network balanced.npz --data data.npz --layers W2,W1", "do not fit in the order W2, W1"),
        ("--network balanced.npz --data data.npz --layers W1", "must have 5 columns, as the network has 5 outputs"),
        ("--network balanced.npz --data data.npz --rates 1,fast", "--rates must be numbers separated by commas"),
        ("--network balanced.npz --data data.npz --rates 1,2,3", "rates must hold one number per layer (2)"),
        ("--network balanced.npz --data data.npz --rates 1,-1", "rates must be above 0"),
        ("--network balanced.npz --data data.npz --weight-decay -1", "weight_decay must be at least 0"),
        ("--network balanced.npz --data data.npz --weight-decay nan", "weight_decay must be finite"),
        ("--network balanced.npz --data data.npz --whiten --horizon -3", "--horizon must be above 0, and it is -3."),
        ("--network balanced.npz --data data.npz --whiten --horizon inf", "horizon must be finite"),
        ("--network balanced.npz --data data.npz --whiten --times 1", "--times must be at least 2, and it is 1."),
        ("--network balanced.npz --data data.npz --times 100000000000", "--times must be at most 100000"),
        ("--network balanced.npz --data data.npz --rates 1e300,1e300", "rates"),
        ("--network balanced.npz --sigma-yx sigma.npy --weight-decay 1e308", "the numbers are too large"),
        ("--network balanced.npz --sigma-yx huge.csv", "1e+308"),
        ("--network balanced.npz --sigma-yx sigma.npy --figure none/a.png", "the folder none does not exist"),
        ("--network balanced.npz --sigma-yx sigma.npy --whiten", "--whiten goes with --data"),
        ("--network balanced.npz --data data.npz --figure data.csv/a.png", "data.csv/a.png cannot be written"),
        ("--network balanced.npz --data data.npz --figure a.jpeg", "a.jpeg must end in .png, .pdf, .svg"),
        ("--network biases.npz --data data.npz", "biases.npz must hold a bias for every layer or for none"),
        ("--network balanced.npz --data data.npz --activation relo", "did you mean 'relu'?"),
        ("--network balanced.npz --data data.npz --activation 2", "must lie between 0 and 1, and it is 2"),
        ("--network balanced.npz --data labels.npz", "labels.npz must number the 3 outputs of the network, 0 to 2"),
        ("--network balanced.npz --data classes.npz", "0 to 2, and 3 is among them"),
    ],
)
def test_bad_input_is_one_sentence(capsys, folder, arguments, says):
    np.savetxt("huge.csv", 1e308 * np.eye(3, 4), delimiter=",")
    np.savez("biases.npz", W1=np.ones((3, 4)), b1=np.ones(3), W2=np.ones((3, 3)))
    X = np.load("data.npz")["inputs"]
    np.savez("labels.npz", inputs=X, labels=np.linspace(0, 1, len(X)))
    np.savez("classes.npz", inputs=X, labels=np.arange(len(X)) % 4)
    status, out, err = answer(capsys, "predict", "--json", *arguments.split())
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert says in err and err.startswith("lazyrich: ") and err.endswith(".\n")


def test_a_missing_extra_is_one_sentence(capsys, folder, monkeypatch):
    exact, inexact = (
        ("predict", "--sigma-yx", "sigma.npy", "--network", f"{name}.npz") for name in ("balanced", "gaussian")
    )
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for arguments in (exact, ("demo",)):
        status, out, err = answer(capsys, *arguments)
        assert (status, out, err.count("\n")) == (2, "", 1) and "pip install 'lazyrich[figures]'" in err
    assert answer(capsys, *exact, "--no-figure")[0] == 0
    monkeypatch.setitem(sys.modules, "jax", None)
    status, out, err = answer(capsys, *inexact, "--no-figure", "--json")  # two layers need SciPy only
    assert (status, err) == (0, "")
    np.savez(
        "deep.npz", *(np.random.default_rng(i).normal(size=size) for i, size in enumerate([(5, 4), (5, 5), (3, 5)]))
    )
    deep = ("predict", "--sigma-yx", "sigma.npy", "--network", "deep.npz", "--layers", "arr_0,arr_1,arr_2")
    status, out, err = answer(capsys, *deep, "--no-figure", "--json")
    assert (status, out, err.count("\n")) == (2, "", 1) and "pip install 'lazyrich[engines]'" in err
    assert answer(capsys, *exact, "--no-figure")[0] == 0


@pytest.mark.parametrize(
    "error",
    [np.linalg.LinAlgError("a\nb."), OverflowError(), ZeroDivisionError(), FloatingPointError("a"), MemoryError()],
)
def test_what_arithmetic_cannot_do_is_one_sentence(capsys, folder, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("lazyrich.Problem", fail)
    status, out, err = answer(capsys, "predict", "--network", "balanced.npz", "--sigma-yx", "sigma.npy")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("lazyrich: the numbers are too large, too small or too many for this: ")


def test_a_bad_horizon_is_told_before_anything_is_printed(capsys, folder):
    arguments = ("predict", "--network", "balanced.npz", "--sigma-yx", "sigma.npy", "--horizon", "-3")
    assert answer(capsys, *arguments) == (2, "", "lazyrich: --horizon must be above 0, and it is -3.\n")


def test_an_interrupt_is_quiet(capsys, folder, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("lazyrich.Problem", interrupt)
    assert answer(capsys, "predict", "--network", "balanced.npz", "--sigma-yx", "sigma.npy") == (130, "", "")


# predict ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["balanced.npz", "balanced.safetensors"])
@pytest.mark.parametrize("data", ["data.npz", "data.csv"])
def test_predict_from_every_format(capsys, folder, network, data):
    arguments = ("predict", "--network", network, "--data", data, "--whiten", "--times", "21", "--json")
    status, out, err = answer(capsys, *arguments)
    assert (status, err) == (0, "")
    told = document(out)
    assert told["facts"]["whitened"] and told["facts"]["methods"]["riccati"] == []
    assert told["prediction"]["exact"] and told["prediction"]["method"] == "riccati"
    assert told["fate"]["kind"] == "global minimum"
    sigma_yx, sigma_xx, sigma_yy = correlations()
    W = np.load("balanced.npz")
    white = sigma_yx @ np.linalg.inv(sqrtm(sigma_xx).real)
    times = np.array(told["prediction"]["times"])
    expected = losses([W["W1"], W["W2"]], white, np.eye(4), sigma_yy, times)
    np.testing.assert_allclose(told["prediction"]["loss"], expected, rtol=1e-8)
    assert len(times) == 21 and expected[-1] - told["fate"]["loss_limit"] < 2e-3 * expected[0]
    assert told["figure"] == "lazyrich-predict.png"
    assert (folder / "lazyrich-predict.png").read_bytes().startswith(PNG)


def test_predict_with_rates_decay_and_a_horizon(capsys, folder):
    """Weight decay and one rate for both layers; then unequal rates alone, which the theorem covers too if balanced."""
    sigma, W = np.load("sigma.npy"), np.load("balanced.npz")
    arguments = ("predict", "--network", "balanced.npz", "--sigma-yx", "sigma.npy", "--no-figure", "--json")
    told = document(answer(capsys, *arguments, "--weight-decay", "0.1", "--rates", "2", "--horizon", "3")[1])
    times = np.array(told["prediction"]["times"])
    assert told["prediction"]["exact"] and times[-1] == 3.0 and told["figure"] is None
    expected = losses([W["W1"], W["W2"]], sigma, np.eye(4), sigma @ sigma.T, times, rates=[2, 2], decay=0.1)
    np.testing.assert_allclose(told["prediction"]["loss"], expected, rtol=1e-7, atol=1e-9)


@pytest.mark.compiles
@pytest.mark.timeout(120)
def test_predict_integrates_where_no_theorem_applies(capsys, folder):
    arguments = ("predict", "--network", "gaussian.npz", "--data", "data.npz", "--rates", "1,2", "--times", "21")
    told = document(answer(capsys, *arguments, "--json")[1])
    assert told["fate"] is None and not told["prediction"]["exact"] and told["prediction"]["method"] == "flow"
    assert told["prediction"]["refusals"]["riccati"][0].startswith("it needs whitened inputs")
    W = np.load("gaussian.npz")
    times = np.array(told["prediction"]["times"])
    expected = losses([W["arr_0"], W["arr_1"]], *correlations(), times, rates=[1, 2])
    np.testing.assert_allclose(told["prediction"]["loss"], expected, rtol=1e-6)
    status, out, err = answer(capsys, *arguments, "--figure", "flow.svg")
    assert (status, err) == (0, "")
    assert "flow (integrated: loss and modes to" in out and "--whiten" not in out and "exact (" not in out
    assert "no exact solution applies" not in out
    said = out[out.index("no closed form is exact for it") :]
    assert out.index("known by") < out.index("time") < out.index(said) and max(map(len, said.splitlines())) < 150
    assert said.count("it needs whitened inputs") == 1 and "\nriccati, family         it needs whitened" in said
    assert "\nshallow                 it solves one layer, and this network has 2\n" in said
    drawn = (folder / "flow.svg").read_text()
    assert "<svg" in drawn and "integrated (flow)" in drawn and "exact" not in drawn


@pytest.mark.compiles
def test_whitening_is_advised_where_it_helps(capsys, folder):
    advice = "On whitened inputs (--whiten) the method riccati would apply."
    balanced, gaussian = (
        answer(capsys, "predict", "--network", f"{name}.npz", "--data", "data.npz", "--no-figure", "--horizon", "1")[1]
        for name in ("balanced", "gaussian")
    )
    assert advice in balanced and "On whitened" not in gaussian


def test_predict_reports_in_words(capsys, folder):
    (folder / "new").mkdir()
    status, out, err = answer(
        capsys, "predict", "--network", "balanced.npz", "--sigma-yx", "sigma.npy", "--figure", "new/"
    )
    assert (status, err) == (0, "")
    assert out.startswith("network       4-5-3, linear\n") and "it needs" not in out  # the answer first
    assert "ends in       the global minimum" in out and "known by      riccati (exact)" in out
    assert out.rstrip().endswith("Figure: new/lazyrich-predict.png")
    assert (folder / "new/lazyrich-predict.png").read_bytes().startswith(PNG)
    rows = [line.split() for line in out.split("\n\n")[1].splitlines()]
    assert rows[0] == ["time", "loss"] and len(rows) == 17
    assert 0 < float(rows[2][0]) < 0.02 * float(rows[-1][0])  # what happens early is seen
    assert [float(row[1]) for row in rows[1:]] == sorted((float(row[1]) for row in rows[1:]), reverse=True)


def test_predict_tells_of_a_saddle(capsys, folder):
    """det W2W1 < 0 < det Σyx: the weaker mode cannot be learned."""
    np.savez("saddle.npz", W1=np.diag([0.1, 0.1]), W2=np.diag([0.1, -0.1]))
    np.savetxt("sigma.csv", np.diag([2.0, 1.0]), delimiter=",")
    arguments = ("predict", "--network", "saddle.npz", "--sigma-yx", "sigma.csv", "--no-figure")
    told = document(answer(capsys, *arguments, "--json")[1])
    assert told["fate"]["kind"] == "saddle" and told["fate"]["missed"] == [1]
    assert told["fate"]["loss_limit"] == pytest.approx(0.5, rel=1e-12)
    assert told["fate"]["modes"][1]["half_time"] is None
    assert "the saddle that misses mode 2" in answer(capsys, *arguments)[1]


def test_predict_warns_when_the_horizon_is_too_near(capsys, folder):
    arguments = ("predict", "--network", "balanced.npz", "--sigma-yx", "sigma.npy", "--no-figure")
    told = answer(capsys, *arguments, "--horizon", "1")[1]
    assert "note: the loss is still falling at t = 1\n" in told and "note: --horizon 10 looks further" in told
    assert "still falling" not in answer(capsys, *arguments)[1]
    assert "still falling" not in answer(capsys, *arguments, "--weight-decay", "5")[1]  # the loss rises, and is flat


@pytest.mark.compiles
@pytest.mark.parametrize(("horizon", "falls"), [(12.0, True), (300.0, False)])
def test_an_integrated_curve_that_ends_early_is_told_of(capsys, folder, horizon, falls):
    """A strong mode makes up nearly all of the fall, and a weak one goes on after it."""
    np.savetxt("sigma.csv", np.diag([20.0, 0.2]), delimiter=",")
    np.savez("unequal.npz", W1=np.diag([0.2, 0.1]), W2=np.array([[0.1, 0.01], [0.0, 0.02]]))
    arguments = ("predict", "--network", "unequal.npz", "--sigma-yx", "sigma.csv", "--no-figure")
    assert ("still falling" in answer(capsys, *arguments, "--horizon", str(horizon))[1]) is falls


def test_modes_of_fate_and_prediction_are_the_same(capsys, folder):
    """One layer on correlated inputs, where the modes of the best map are not those of Σyx."""
    np.savez("shallow.npz", W=np.full((3, 4), 0.1))
    arguments = ("predict", "--network", "shallow.npz", "--data", "data.npz", "--no-figure", "--json")
    told = document(answer(capsys, *arguments, "--horizon", "1e5", "--times", "2")[1])
    first, last = told["prediction"]["mode_strengths"]
    yx, xx, _ = correlations()
    np.testing.assert_allclose(last, np.linalg.svd(yx @ np.linalg.inv(xx), compute_uv=False), rtol=1e-9)
    np.testing.assert_allclose(first, [mode["initial"] for mode in told["fate"]["modes"]], rtol=1e-9)


@pytest.mark.compiles
def test_deep_and_shallow_networks(capsys, folder):
    """One layer on correlated inputs; three aligned ones. The default horizon shows all of the fall."""
    np.savez("shallow.npz", W=np.zeros((3, 4)))
    told = document(answer(capsys, "predict", "--network", "shallow.npz", "--data", "data.npz", "--json")[1])
    assert told["prediction"]["method"] == "shallow"
    task = lr.Task.from_correlations(np.load("sigma.npy"))
    np.savez("deep.npz", *lr.inits.aligned(0, task, hidden=(5, 5), strengths=0.01).weights)
    deep = document(answer(capsys, "predict", "--network", "deep.npz", "--sigma-yx", "sigma.npy", "--json")[1])
    assert deep["prediction"]["method"] == "deep_modes"
    for loss, limit in ((t["prediction"]["loss"], t["fate"]["loss_limit"]) for t in (told, deep)):
        assert loss[-1] - limit < 2e-3 * (loss[0] - limit)


# figures ----------------------------------------------------------------------------------------------------


def is_whole(figure):
    """Nothing that is drawn reaches beyond the edges."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure).draw()
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    return box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height


def test_figures_leave_the_settings_alone_and_fit(folder):
    import matplotlib

    from lazyrich.plot import prediction as picture

    before = dict(matplotlib.rcParams)
    task = lr.Task.from_correlations(np.load("sigma.npy"))
    for sizes in ((4, 5, 3), (4, 3)):
        figure = picture.draw(lr.predict(lr.Problem(task, lr.inits.zero_balanced(0, sizes=sizes, scale=0.1))))
        assert is_whole(figure)
    assert dict(matplotlib.rcParams) == before


@pytest.mark.figures
@pytest.mark.parametrize("count", [4, 8])
@pytest.mark.parametrize("init", [lr.inits.zero_balanced, lr.inits.gaussian])
def test_the_legend_covers_nothing_and_half_way_is_exact(rng, count, init):
    from lazyrich.plot import prediction as picture

    problem = lr.Problem(
        lr.Task.from_correlations(rng.normal(size=(count, count))), init(1, sizes=(count,) * 3, scale=0.2)
    )
    prediction = lr.predict(problem, np.linspace(0, 20.0, 41))
    figure = picture.draw(prediction)
    assert is_whole(figure)
    assert points_under_legends(figure) == 0
    if prediction.fate:
        marked = figure.axes[1].lines[-1].get_xdata()
        seen = marked[np.isfinite(marked)]
        assert len(seen) and np.isin(seen, prediction.fate.half_times).all()


def test_computing_needs_no_matplotlib(folder, monkeypatch):
    from lazyrich.plot import prediction as picture

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    problem = lr.Problem(
        lr.Task.from_correlations(np.load("sigma.npy")), lr.inits.zero_balanced(0, sizes=(4, 5, 3), scale=0.1)
    )
    prediction = lr.predict(problem)
    with pytest.raises(ImportError, match=r"pip install 'lazyrich\[figures\]'"):
        picture.draw(prediction)


# demo -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def computed():
    from lazyrich.cli import _demo as demo

    return demo.compute()


@pytest.mark.compiles
@pytest.mark.timeout(180)
def test_demo_predicts_what_gradient_descent_does(computed):
    """A step of η grows a mode by (1 + ηs)², and the flow by e^{2ηs}: so descent lags, by no more than these differ.

    The lag is of first order: halving the rate and extrapolating leaves the second.
    """
    from lazyrich.cli._demo import RATE, STEPS

    predicted, observed = computed.promise.half_times, computed.observed
    step = RATE * computed.promise.s / 8  # ηs, since Σxx = I/8
    lag = predicted * (step / np.log1p(step) - 1)
    assert (observed > predicted + lag / 2).all() and (observed < predicted + lag).all()
    finer = descend(computed.small.descent.problem, rate=RATE / 2, steps=2 * STEPS, at=range(2 * STEPS + 1))
    finer_observed = half_times(finer.times, mode_strengths(finer), computed.promise.limit)
    assert (np.abs(2 * finer_observed - observed - predicted) < lag * step).all()


@pytest.mark.compiles
@pytest.mark.timeout(180)
def test_demo_ends_as_theory_says(computed):
    small, large, balanced = computed.runs
    assert small.fate.kind == balanced.fate.kind == "global minimum" and large.fate is None
    assert large.theory.method == "flow"
    for run in computed.runs:
        assert run.descent.status == "complete" and run.descent.loss[-1] < 1e-10
        assert run.largest_gap < 0.03
    Y = np.asarray(small.descent.problem.task.targets)
    U, s, Vt = np.linalg.svd(Y.T)
    structure = np.block([[(Vt.T * s) @ Vt, Y], [Y.T, (U * s) @ U.T]])
    np.testing.assert_allclose(computed.structure, structure, atol=1e-11)
    distances = [computed.distance_from_structure(run) for run in computed.runs]
    assert distances[0] < 1e-5 and distances[1] > 0.3 and distances[2] < 0.01


@pytest.mark.timeout(180)
def test_demo_figure_is_whole(computed):
    from lazyrich.cli import _demo as demo

    assert is_whole(demo.draw(computed))


@pytest.mark.timeout(180)
def test_demo_prints_tables(capsys, folder, computed, monkeypatch):
    monkeypatch.setattr("lazyrich.cli._demo.compute", lambda: computed)
    status, out, err = answer(capsys, "demo")
    assert (status, err) == (0, "")
    assert "Figure: lazyrich-demo.png" in out and (folder / "lazyrich-demo.png").read_bytes().startswith(PNG)
    assert "large                Gaussian         0.42  none: flow, integrated" in out
    row = next(line.split() for line in out.splitlines() if "animal or plant" in line)
    assert float(row[-1]) == pytest.approx(float(row[-2]) - float(row[-3]), abs=2e-3)


@pytest.mark.processes
@pytest.mark.timeout(180)
def test_demo_as_a_program(tmp_path):
    """Once from beginning to end, as users start it: one document on one stream, nothing on the other."""
    run = subprocess.run(
        [sys.executable, "-m", "lazyrich", "demo", "--json", "--out", str(tmp_path / "figure.pdf")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=ENVIRONMENT,
        timeout=170,
    )
    assert (run.returncode, run.stderr) == (0, "")
    told = document(run.stdout)
    assert [entry["initialisation"] for entry in told["initialisations"]] == ["small", "large", "large zero-balanced"]
    assert len(told["modes"]) == 8 and told["figure"] == str(tmp_path / "figure.pdf")
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF") and os.listdir(tmp_path) == ["figure.pdf"]


# other processes --------------------------------------------------------------------------------------------


def test_a_reader_that_leaves_and_a_terminal_without_greek(folder):
    command = [sys.executable, "-m", "lazyrich", "predict", "--network", "balanced.npz", "--sigma-yx", "sigma.npy"]
    plain = subprocess.run(
        [*command, "--no-figure"], capture_output=True, timeout=60, env=ENVIRONMENT | {"PYTHONIOENCODING": "ascii"}
    )
    assert (plain.returncode, plain.stderr) == (0, b"") and b"(?xx = 1?I within" in plain.stdout
    read, write = os.pipe()
    os.close(read)
    broken = subprocess.run(
        [*command, "--no-figure"], stdout=write, stderr=subprocess.PIPE, timeout=60, env=ENVIRONMENT
    )
    os.close(write)
    assert (broken.returncode, broken.stderr) == (141, b"")
    closed = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *command, "--no-figure"], stderr=subprocess.PIPE, timeout=60, env=ENVIRONMENT
    )
    assert (closed.returncode, closed.stderr.count(b"\n")) == (2, 1) and b"standard output is closed" in closed.stderr


def test_an_exact_prediction_imports_no_engine(folder):
    code = """
import sys
from lazyrich.cli import main
from lazyrich.methods.descend import descend
from lazyrich.observables import half_times, mode_strengths
assert main("predict --network balanced.npz --sigma-yx sigma.npy --no-figure --json".split()) == 0
assert not {"jax", "diffrax", "torch", "matplotlib", "safetensors"} & set(sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
    assert (run.returncode, run.stderr) == (0, "")
