"""Lazy and rich networks at the same training error: which knows more of a noisy teacher?"""

import numpy as np

from lazyrich import Problem, generalisation
from lazyrich._progress import progress
from lazyrich._typing import Array, Float
from lazyrich.inits import lambda_balanced
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.plot import style
from lazyrich.tasks import NoisyTeacher, noisy_teacher

TITLE = "Lazy and rich at the same training error: who knows more of a noisy teacher"
ABOUT = (
    "Networks of sizes 30-20-20, from small weights with W2ᵀW2 − W1W1ᵀ = λI, learn noisy answers of a linear "
    "teacher of rank three (left) and of rank twenty, all of whose modes are equally strong (right), and are tested on "
    "the teacher itself. "
    "Where the teacher has few strong modes, the rich network (λ = 0) has the smaller test error at the same training "
    "error, as long as it learns those; once it has them it goes on to learn noise, and is soon worse than the lazy "
    "one, which is as far from its end in all modes alike. "
    "Where noise decides which modes are strong, lazy is better all along: to learn a little of everything is better "
    "than all of some. In the end, at training error 0, all know the same."
)
CALLS = ("lr.tasks.noisy_teacher", "lr.inits.lambda_balanced", "lr.generalisation.curve")
CHECKS = {
    "few": Check(
        "rank three: test error of the lazy network at the training error where the rich is best", at_least=1.5
    ),
    "best_few": Check("rank three: best test error, lazy over rich", at_least=1.5),
    "best_flat": Check("rank twenty: best test error, lazy over rich", at_most=0.95),
    "late": Check("rank three, a twentieth of the training error left: test error, lazy over rich", at_most=0.95),
    "same_end": Check("test errors in the end, largest relative difference between λ", at_most=1e-6),
}
QUICK = {"draws": 2, "lambdas": (0.0, 1.0, 10.0)}

_SIZES = (30, 20, 20)
_TEACHERS = {"few strong modes": (5.0, 4.0, 3.0), "many equal modes": (1.0,) * 20}
_COUNT = 240


def compute(
    *, lambdas: tuple[float, ...] = (0.0, 0.3, 1.0, 3.0, 10.0), scale: float = 1e-3, draws: int = 8, seed: int = 0
) -> Dataset:
    """Test error at given shares of the training error, both of those of no network; and at the best time."""
    left = np.linspace(1.0, 0.0, _COUNT)
    test = np.empty((len(_TEACHERS), len(lambdas), draws, _COUNT))
    best, end = np.empty((2, *test.shape[:3]))
    with progress(best.size, "networks") as move_on:
        for i, strengths in enumerate(_TEACHERS.values()):
            for k in range(draws):
                taught = noisy_teacher((seed + k) * 10 + i, d_in=_SIZES[0], d_out=_SIZES[2], strengths=strengths)
                for j, lam in enumerate(lambdas):
                    at = i, j, k
                    test[at], best[at], end[at] = _measured(taught, lam, scale, left)
                    move_on(1)
    where = left[np.argmin(test[0, 0], axis=-1)]
    lazy = np.array([np.interp(-w, -left, t) for w, t in zip(where, test[0, -1], strict=True)])
    late = np.array([[np.interp(-0.05, -left, t) for t in test[0, j]] for j in (0, -1)])
    ratios = (best[:, -1] / best[:, 0]).mean(axis=-1)
    return dataset(
        {
            "test": (("teacher", "lam", "draw", "left"), test),
            "best": (("teacher", "lam", "draw"), best),
        },
        {"teacher": list(_TEACHERS), "lam": list(lambdas), "left": left},
        {
            "few": float((lazy / test[0, 0].min(axis=-1)).mean()),
            "late": float((late[1] / late[0]).mean()),
            "best_few": float(ratios[0]),
            "best_flat": float(ratios[1]),
            "same_end": float((np.ptp(end, axis=1) / end.min(axis=1)).max()),
        },
    )


def _measured(taught: NoisyTeacher, lam: float, scale: float, left: Float[Array, " n"]) -> tuple[Array, float, float]:
    """Test error where so much of the training error is left; the best; and the end."""
    start = lambda_balanced(0, sizes=_SIZES, lam=lam, scale=scale)
    found = generalisation.curve(Problem(taught.train, start), taught.test)
    traj = found.prediction.course.at(np.append(found.course.times, np.inf))
    floor, nothing = taught.train.loss_floor, float(taught.train.loss(np.zeros_like(taught.train.target)))
    train = (np.asarray(traj.loss) - floor) / (nothing - floor)
    size = float(taught.test.loss(np.zeros_like(taught.test.target)))
    test = np.asarray(taught.test.loss(np.asarray(traj.function))) / size
    return np.interp(-left, -train, test), found.best.loss / size, float(test[-1])


def draw(data: Dataset) -> Picture:
    """A panel for each teacher: training goes from left to right."""
    figure = style.new_figure(10.4, 4.4)
    panels = figure.subplots(1, 2)
    for panel, teacher in zip(panels, data.teacher.values, strict=True):
        _draw_teacher(panel, data.sel(teacher=teacher))
        panel.set(xlabel="training error that is left", title=f"{str(teacher).capitalize()}")
        panel.set_xlim(1.0, 0.0)
    panels[0].set_ylabel("test error, of that of no network")
    panels[0].legend(title="balance λ")
    return figure


def _draw_teacher(panel: Axes, data: Dataset) -> None:
    """Means over draws, and the best of each mean."""
    for lam, colour in zip(data.lam.values, style.mode_colours(data.sizes["lam"]), strict=True):
        test = data.test.sel(lam=lam)
        mean = test.mean("draw")
        panel.plot(data.left, mean, color=colour, label=f"{lam:g}")
        panel.fill_between(data.left, test.min("draw"), test.max("draw"), color=colour, alpha=0.08, linewidth=0)
        i = int(np.argmin(mean.values))
        panel.plot(data.left[i : i + 1], mean[i : i + 1], **style.MARK)


FIGURE = Figure("lampinen2019/lazy_rich", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
