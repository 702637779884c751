"""The one-line plots: what they draw is what the observables say, and they leave matplotlib's settings alone."""

from __future__ import annotations

import io

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from oracles.pictures import points_under_legends

import lazyrich as lr
from lazyrich.plot import style
from lazyrich.plot.legends import uncover

RATE, STEPS = 0.05, 400


@pytest.fixture(scope="module")
def problem():
    return lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.05))


@pytest.fixture(scope="module")
def run(problem):
    return lr.descend(problem, rate=RATE, steps=STEPS)


@pytest.fixture(scope="module")
def theory(problem, run):
    return lr.solve(problem, run.times)


def curves(figure: Figure) -> list[tuple[np.ndarray, str]]:
    """Values and line style of every curve with data."""
    return [
        (np.asarray(line.get_ydata()), line.get_linestyle())
        for line in figure.axes[0].lines
        if len(line.get_xdata()) > 2
    ]


class TestCurves:
    def test_theory_is_dotted_over_simulation(self, run, theory):
        (exact, dotted), (simulated, solid) = curves(lr.plot.loss(theory, run))
        assert np.array_equal(simulated, run.loss) and np.array_equal(exact, theory.loss)
        assert solid == "-" and dotted != "-"

    def test_any_theory_lies_over_a_training_run_and_an_exact_one_over_all(self, problem, run, theory):
        """A flow is dashed over a run, a closed form dotted over both; a flow alone is what the closed form lies on."""
        flow = lr.flow(problem, run.times)
        own = lr.Trajectory.from_weights(problem, run.times, list(run.weights), method="mine")
        looks = [(line.get_linestyle(), line.get_linewidth()) for line in lr.plot.loss(theory, flow, own).axes[0].lines]
        assert looks[2][0] == "-" and len(set(looks)) == 3
        assert [text.get_text() for text in lr.plot.loss(own, flow).axes[0].get_legend().get_texts()] == [
            "mine",
            "theory (flow)",
        ]
        assert next(drawn for _, drawn in curves(lr.plot.loss(flow, theory))) == "-"
        assert own.stepped and own.at(run.times[:1]).stepped and not flow.stepped and not theory.stepped

    def test_theory_alone_is_a_plain_curve(self, theory):
        ((values, style),) = curves(lr.plot.loss(theory))
        assert np.array_equal(values, theory.loss) and style == "-"

    def test_a_logarithmic_axis(self, theory):
        assert lr.plot.loss(theory, log=True).axes[0].get_yscale() == "log"

    def test_modes_are_the_mode_strengths(self, theory):
        drawn = np.array([values for values, _ in curves(lr.plot.modes(theory))])
        assert np.array_equal(drawn.T, lr.observables.mode_strengths(theory))

    def test_kernel_distance_is_that_of_the_kernels(self, run, theory):
        first, second = (values for values, _ in curves(lr.plot.kernel_distance(run, theory)))
        assert np.array_equal(first, lr.observables.kernel_distance(run))
        assert np.allclose(first, second, atol=0.05)

    def test_draws_into_axes_that_are_given(self, theory):
        figure = Figure()
        left, right = figure.subplots(1, 2)
        assert lr.plot.loss(theory, axes=left) is figure
        assert len(left.lines) == 1 and len(right.lines) == 0

    def test_a_relu_network(self, rng):
        task = lr.Task.from_data(rng.normal(size=(10, 3)), rng.normal(size=(10, 1)))
        traj = lr.descend(
            lr.Problem(task, lr.inits.gaussian(0, sizes=(3, 6, 1), scale=0.3, activation="relu")), 0.1, 50
        )
        assert len(curves(lr.plot.loss(traj))) == len(curves(lr.plot.kernel_distance(traj))) == 1

    @pytest.mark.usefixtures("unchecked_shapes")
    def test_labels_name_the_curves(self, theory):
        shown = lr.plot.loss(theory, theory, labels=["one", "two"]).axes[0].get_legend().get_texts()
        assert [text.get_text() for text in shown] == ["one", "two"]
        for labels in (["one"], 5, iter("ab"), "ab"):
            with pytest.raises(lr.InvalidInput, match=r"one name per trajectory \(2\)"):
                lr.plot.loss(theory, theory, labels=labels)

    def test_a_run_below_theory_is_wide_and_pale(self, problem, theory):
        run, over = lr.plot.loss(lr.descend(problem, rate=0.05, steps=100), theory).axes[0].lines
        assert run.get_linewidth() > 3 * over.get_linewidth() and run.get_alpha() < 0.5
        (alone,) = lr.plot.loss(theory).axes[0].lines
        assert alone.get_alpha() is None

    def test_a_run_that_ends_early_says_so(self, problem, theory):
        run = lr.flow(problem, [0.0, 1.0, 50.0], max_steps=20)
        assert "flow ended early, at t = " in lr.plot.loss(run).axes[0].get_title(loc="left")
        assert lr.plot.loss(theory).axes[0].get_title(loc="left") == ""

    def test_one_time_is_a_point(self, problem):
        (line,) = lr.plot.loss(lr.solve(problem, [3.0])).axes[0].lines
        assert line.get_marker() == "o"

    def test_seven_curves_have_seven_colours(self, theory):
        lines = lr.plot.kernel_distance(*[theory] * 7).axes[0].lines
        assert len({tuple(np.round(line.get_color(), 6)) for line in lines}) == 7

    def test_nothing_to_draw(self):
        with pytest.raises(lr.InvalidInput, match="at least one trajectory"):
            lr.plot.loss()

    @pytest.mark.parametrize("axes", ["x", 3, [], Figure()])
    def test_not_axes(self, theory, axes, unchecked_shapes):
        with pytest.raises(lr.InvalidInput, match="axes must be axes of a matplotlib figure, and it is a"):
            lr.plot.loss(theory, axes=axes)

    def test_not_a_trajectory(self, unchecked_shapes):
        with pytest.raises(lr.InvalidInput, match="traj must be a lazyrich Trajectory"):
            lr.plot.modes([1.0, 2.0])


class TestStates:
    def test_gram_at_chosen_times(self, theory):
        first, last, _ = lr.plot.gram(theory, indices=[0, -1]).axes
        assert np.array_equal(first.images[0].get_array(), theory.gram[0])
        assert np.array_equal(last.images[0].get_array(), theory.gram[-1])

    def test_gram_by_default_shows_the_whole_way(self, theory):
        *panels, _ = lr.plot.gram(theory).axes
        assert [panels[0].get_title(loc="left"), panels[-1].get_title(loc="left")] == ["t = 0", f"t = {RATE * STEPS:g}"]
        assert len(panels) == 4

    def test_gram_refuses_times_that_are_not_there(self, theory):
        with pytest.raises(lr.InvalidInput, match="indices must lie between"):
            lr.plot.gram(theory, indices=[STEPS + 1])

    def test_fate_marks_what_is_missed(self):
        task = lr.Task.from_correlations(np.diag([3.0, 2.0, 1.0]))
        stuck = lr.Problem(task, lr.inits.aligned(0, task, hidden=3, strengths=[1e-3, 1e-3, -1e-3]))
        figure = lr.plot.fate(stuck)
        assert figure.axes[0].get_title(loc="left") == f"Ends in {lr.fate(stuck).end}"
        words = [text.get_text() for text in figure.axes[0].texts]
        assert words == ["1", "2", "3 never"]
        at = [float(line.get_xdata()[0]) for line in figure.axes[0].lines if line.get_marker() == "o"]
        assert at == pytest.approx(lr.fate(stuck).half_times[:2])

    def test_forgetting_shows_losses_and_forecast(self):
        tasks = [lr.tasks.random_regression(seed, d_in=4, d_out=3, samples=20) for seed in range(3)]
        run = lr.continual(tasks, lr.inits.zero_balanced(0, sizes=(4, 6, 3), scale=0.1), np.linspace(0, 300, 50))
        lines = lr.plot.forgetting(run).axes[0].lines
        assert np.array_equal(lines[0].get_ydata(), run.losses[:, 0])
        drawn = [line for line in lines if line.get_marker() == "o" and len(line.get_xdata())]
        circles = [np.asarray(line.get_ydata()) for line in drawn]
        assert not any(line.get_clip_on() for line in drawn)  # whole also at the edge
        assert np.array_equal(np.array(circles).T, run.limit_loss_matrix)
        assert np.allclose(run.limit_loss_matrix, run.predicted_loss_matrix, rtol=1e-10)

    def test_forgetting_wants_a_sequence(self, theory, unchecked_shapes):
        with pytest.raises(lr.InvalidInput, match=r"what lr\.continual returns"):
            lr.plot.forgetting(theory)


def test_notebooks_show_a_figure(theory):
    assert lr.plot.loss(theory)._repr_png_()[:8] == b"\x89PNG\r\n\x1a\n"


def test_settings_of_matplotlib_are_left_alone(theory):
    before = dict(matplotlib.rcParams)
    lr.plot.loss(theory).savefig(io.BytesIO())
    assert dict(matplotlib.rcParams) == before


def test_mode_colours_differ_for_colour_blind_readers():
    """Lightness alone tells neighbouring modes apart."""
    from lazyrich.plot.style import mode_colours

    lightness = np.array(mode_colours(8))[:, :3] @ [0.2126, 0.7152, 0.0722]
    assert np.all(np.diff(lightness) > 0.03)


class TestLegends:
    """No legend lies over a curve, whatever corner it was given: looked at through the points of the curves."""

    def figure_with(self, *curves) -> Figure:
        figure = Figure(layout="constrained")
        panel = figure.subplots()
        for name, (x, y) in enumerate(curves):
            panel.plot(x, y, label=f"a curve called {name}")
        panel.legend(loc="upper right")
        return figure

    def test_an_empty_corner_is_found(self):
        figure = self.figure_with(([0, 1], [0, 1]))
        assert points_under_legends(figure)
        assert not points_under_legends(uncover(figure))
        inside = figure.axes[0].get_window_extent()
        assert inside.containsx(figure.axes[0].get_legend().get_window_extent().x1)

    def test_where_no_place_is_empty_it_goes_beside_the_axes(self, rng):
        figure = uncover(self.figure_with(([0, 1], [0, 1]), (np.linspace(0, 1, 500), rng.uniform(size=500))))
        assert not points_under_legends(figure)
        assert figure.axes[0].get_legend().get_window_extent().x0 >= figure.axes[0].get_window_extent().x1
        assert figure.axes[0].get_legend().get_window_extent().x1 <= figure.bbox.x1

    def test_one_that_covers_nothing_stays(self):
        figure = self.figure_with(([0, 1], [1, 0]))
        before = figure.draw_without_rendering() or figure.axes[0].get_legend().get_window_extent().bounds
        uncover(figure).draw_without_rendering()
        assert figure.axes[0].get_legend().get_window_extent().bounds == pytest.approx(before, abs=1e-9)

    def test_one_line_plots_have_no_legend_over_a_curve(self, problem, run, theory):
        for figure in (lr.plot.loss(run, theory), lr.plot.modes(theory), lr.plot.kernel_distance(run, theory)):
            assert not points_under_legends(figure)


def test_fonts_of_a_pdf_are_truetype(tmp_path, theory):
    path = tmp_path / "loss.pdf"
    style.save(lr.plot.loss(theory), path)
    assert b"/FontFile2" in path.read_bytes()
    assert b"/Subtype /Type3" not in path.read_bytes()


def test_pictures_say_which_modes_they_count_with_another_loss(rng):
    task = lr.Task.from_labels(rng.normal(size=(30, 4)), np.arange(30) % 3)
    network = lr.inits.gaussian(0, sizes=(4, 5, 3), scale=0.1)
    for loss, strengths, predicted in (
        ("cross_entropy", "mode strength uᵀWv, modes of Σyx", "mode strength uᵀWv, modes of the pull at W = 0"),
        ("squared", "mode strength uᵀWv", "mode strength uᵀWv"),
    ):
        problem = lr.Problem(task, network, loss=loss)
        assert lr.plot.modes(lr.descend(problem, 0.1, 20)).axes[0].get_ylabel() == strengths
        labels = [axes.get_ylabel() for axes in lr.predict(problem).plot().axes]
        assert predicted in labels
