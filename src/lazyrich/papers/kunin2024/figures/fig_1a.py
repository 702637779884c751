"""Kunin et al. 2024, Fig. 1a: the neurons of a wide ReLU student move to the teacher's, or they do not."""

from typing import NamedTuple

import numpy as np

from lazyrich import Network, Problem, Task, descend
from lazyrich._progress import progress
from lazyrich._typing import Array, Float
from lazyrich.inits import rescaled
from lazyrich.observables.balance import neuron_balance, neuron_coordinates
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.kunin2024.figures._shared import as_text, direction_gap, set_plane
from lazyrich.plot import style
from lazyrich.tasks.teacher import unit_vectors

TITLE = "Teacher and student: overall and relative scale decide whether neurons turn"
ABOUT = (
    "A ReLU student of 50 neurons, symmetrised so that it predicts 0 at the start, learns a teacher of three "
    "neurons from 20 points on the circle. "
    "Drawn are |a|w of all its neurons, from the start (dot) through 1 000 000 steps of rate 2e-4 (the paper's 1e-4 is "
    "for the mean square, twice our loss), with one initialisation rescaled to four pairs of overall scale τ and "
    "balance δ = τ²(α² − α⁻²). "
    "A small scale (A) and an upstream initialisation (C) turn the neurons to the teacher's directions (dotted); a "
    "large scale (B) and a downstream initialisation (D) leave every neuron on its own ray."
)
CALLS = ("lr.inits.rescaled", "lr.descend", "lr.observables.neuron_coordinates", "lr.observables.neuron_balance")
CHECKS = {
    "drift_delta": Check("largest drift of a neuron's δ, which the flow conserves", at_most=1e-5),
    "turned_rich": Check("degrees that neurons turn (mean by magnitude), the lesser of A and C", at_least=15.0),
    "turned_lazy": Check("degrees that neurons turn (mean by magnitude), the larger of B and D", at_most=3.0),
    "upstream_at_teacher": Check("share of magnitude within 15° of a teacher neuron in C", at_least=0.8),
    "loss_left": Check("largest part of the loss left at the end", at_most=0.01),
    "teacher_gap": Check("least angle between two of the teacher's directions, in degrees", at_least=60.0),
}
QUICK = {"rate": 5e-4, "steps": 60_000}

_SIGNS = {-1: style.COLOURS["blue"], 1: style.COLOURS["orange"]}
_NEAR = 15.0  # degrees


class _Setting(NamedTuple):
    """A teacher, a base student and the samples."""

    w_teacher: Float[Array, "k in"]
    a_teacher: Float[Array, " k"]
    w: Float[Array, "h in"]
    a: Float[Array, " h"]
    task: Task


def compute(
    *,
    taus: tuple[float, ...] = (0.1, 2.0, 0.1, 0.1),
    deltas: tuple[float, ...] = (0.0, 0.0, 0.9999, -0.9999),
    hidden: int = 50,
    teachers: int = 3,
    samples: int = 20,
    rate: float = 2e-4,
    steps: int = 1_000_000,
    seed: int = 5,
) -> Dataset:
    """|a|w of every neuron at 200 steps, denser at the start, for each (τ, δ)."""
    setting = _setting(seed, hidden, teachers, samples)
    at = np.unique(np.append(0, np.geomspace(1, steps, 200).astype(int)))
    paths, signs, turned, near, left, drift = [], [], [], [], [], []
    with progress(len(taus), "students") as move_on:
        for tau, delta in zip(taus, deltas, strict=True):
            base = Network([setting.w, setting.a[None]], "relu")
            problem = Problem(setting.task, rescaled(base, tau=tau, delta=delta))
            run = descend(problem, rate, steps, at=at)
            mu, direction = neuron_coordinates(run)
            weight = np.abs(mu[-1]) / np.sum(np.abs(mu[-1]))
            paths.append(np.abs(mu)[:, :, None] * direction)
            signs.append(np.sign(mu[-1]))
            turned.append(weight @ direction_gap(direction[-1], direction[0]))
            near.append(weight @ _at_teacher(setting, mu[-1], direction[-1]))
            left.append(run.loss[-1] / run.loss[0])
            balance = neuron_balance(run)
            drift.append(np.abs(balance - balance[0]).max())
            move_on(1)
    rich = [tau < 1 and delta >= 0 for tau, delta in zip(taus, deltas, strict=True)]
    upstream = [tau < 1 and delta > 0 for tau, delta in zip(taus, deltas, strict=True)]
    numbers = {
        "drift_delta": float(np.max(drift)),
        "turned_rich": float(np.min(turned, where=rich, initial=np.inf)),
        "turned_lazy": float(np.max(turned, where=np.logical_not(rich), initial=0.0)),
        "upstream_at_teacher": float(np.min(near, where=upstream, initial=np.inf)),
        "loss_left": float(np.max(left)),
        "teacher_gap": _least_gap(setting.w_teacher),
    }
    return dataset(
        {
            "path": (("student", "step", "neuron", "input"), np.array(paths)),
            "sign": (("student", "neuron"), np.array(signs)),
            "teacher": (("teacher_neuron", "input"), setting.w_teacher),
            "teacher_sign": ("teacher_neuron", setting.a_teacher),
        },
        coords={"tau": ("student", list(taus)), "delta": ("student", list(deltas)), "step": at},
        attrs=numbers,
    )


def _setting(seed: int, hidden: int, teachers: int, samples: int) -> _Setting:
    rng = np.random.default_rng(seed)
    w_teacher, a_teacher = unit_vectors(rng, teachers, 2), rng.choice([-1.0, 1.0], size=teachers)
    w, a = unit_vectors(rng, hidden // 2, 2), rng.choice([-1.0, 1.0], size=hidden // 2)
    X = unit_vectors(rng, samples, 2)
    targets = np.maximum(X @ w_teacher.T, 0.0) @ a_teacher[:, None]
    return _Setting(w_teacher, a_teacher, np.vstack([w, w]), np.append(a, -a), Task.from_data(X, targets))


def _least_gap(directions: Float[Array, "k in"]) -> float:
    first, second = np.triu_indices(len(directions), 1)
    return float(np.min(direction_gap(directions[first], directions[second]), initial=np.inf))


def _at_teacher(setting: _Setting, mu: Array, direction: Array) -> Array:
    """Which neurons point to within 15° of a teacher neuron of their own sign."""
    cosine = np.where(np.sign(mu)[:, None] == setting.a_teacher, direction @ setting.w_teacher.T, -1.0)
    return cosine.max(axis=1) > np.cos(np.radians(_NEAR))


def draw(data: Dataset) -> Picture:
    """One plane per student."""
    from matplotlib.lines import Line2D

    figure = style.new_figure(12.4, 3.7)
    for student, panel in enumerate(figure.subplots(1, data.sizes["student"])):
        _draw_student(panel, data.isel(student=student))
        tau, delta = float(data.tau[student]), float(data.delta[student])
        panel.set_title(f"{chr(ord('A') + student)}  {_words(tau, delta)}\nτ = {as_text(tau)}, δ = {as_text(delta)}")
        set_plane(panel, "|a| w₁", "|a| w₂" if student == 0 else "")
    names = [("student, a > 0", 1, "-"), ("student, a < 0", -1, "-")]
    names += [("teacher, a > 0", 1, ":"), ("teacher, a < 0", -1, ":")]
    handles = [Line2D([], [], color=_SIGNS[sign], linestyle=line, label=name) for name, sign, line in names]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _words(tau: float, delta: float) -> str:
    if delta:
        return "upstream: rich" if delta > 0 else "downstream: lazy"
    return "small scale: rich" if tau < 1 else "large scale: lazy"


def _draw_student(panel: Axes, one: Dataset) -> None:
    reach = 1.12 * float(np.linalg.norm(one.path.values, axis=-1).max())
    for w, sign in zip(one.teacher.values, one.teacher_sign.values, strict=True):
        panel.plot(*(2 * reach * np.outer(w, [0.0, 1.0])), color=_SIGNS[int(sign)], linestyle=":", linewidth=2.0)
    for path, sign in zip(one.path.values.swapaxes(0, 1), one.sign.values, strict=True):
        panel.plot(*path.T, color=_SIGNS[int(sign)], linewidth=1.0, alpha=0.75)
        panel.plot(*path[-1], color=_SIGNS[int(sign)], marker="o", markersize=4.0, zorder=4)
        panel.plot(*path[0], color="black", marker="o", markersize=1.6, zorder=5)
    panel.set(xlim=(-reach, reach), ylim=(-reach, reach))
    panel.locator_params(nbins=5)


FIGURE = Figure("kunin2024/1a", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
