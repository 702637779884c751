"""How well `lr.fit` finds again what simulated learners were made with: errors, coverage, what is named as unknown, and
which models are told apart.

    python benchmarks/fit.py [--sets 100] [--seed 7] [--readouts loss …] [--only recovery unknown groups models time]

Truths: scale from 1e-4 to 0.5 and rate over two decades, evenly in their logarithms, λ from −3 to 3 evenly; of choices
also temperature from 0.1 to 0.5 and lapse from 0 to 0.1. Each learner is watched at 60 times until it has learned. A
parameter is unknown in truth where noise-free measurements, with the noise they would have had, let its profile lose
less than 0.1 units of log-likelihood over all of the bounds, and nearly so below 0.5, where noise will sometimes tell
one end from the other.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from dataclasses import replace

import numpy as np

import lazyrich as lr
from lazyrich.fit.likelihood import Likelihood
from lazyrich.fit.noise import Counts, Gaussian
from lazyrich.fit.profiles import interval
from lazyrich.fit.single import fit_one

KINGDOM = lr.tasks.semantic_hierarchy()
PORTS = lr.Task.from_data(np.eye(4), [[4, 2, 0, 0], [2, 4, 0, 0], [0, 0, 4, 2], [0, 0, 2, 4]], name="four ports")
BOUNDS = {"scale": (1e-5, 1.0), "lam": (-4.0, 4.0), "rate": (0.03, 30.0)}
CHOOSING = BOUNDS | {"temperature": (0.03, 1.5), "lapse": (0.0, 0.3)}
READOUTS = ("loss", "modes", "rsm", "choices", "accuracy")
WHAT = ("recovery", "unknown", "groups", "models", "time")
TIMES = 60
FLAT = (0.1, 0.5)


def task_of(readout: str) -> lr.Task:
    return PORTS if readout in ("choices", "accuracy") else KINGDOM


def truth(rng: np.random.Generator, readout: str) -> dict[str, float]:
    drawn = {
        "scale": np.exp(rng.uniform(*np.log([1e-4, 0.5]))),
        "lam": rng.uniform(-3, 3),
        "rate": np.exp(rng.uniform(*np.log([0.1, 10.0]))),
    }
    if readout in ("choices", "accuracy"):
        drawn |= {"temperature": np.exp(rng.uniform(*np.log([0.1, 0.5]))), "lapse": rng.uniform(0, 0.1)}
    return {name: float(value) for name, value in drawn.items()}


def simulated(
    rng: np.random.Generator,
    task: lr.Task,
    values: dict[str, float],
    readout: str,
    deep: bool = True,
    noise: float = 0.03,
) -> tuple[np.ndarray, dict[str, object]]:
    """Times until it has learned, and what `lr.fit` is given."""
    hidden, rate = task.d_in + 6, values["rate"]
    if deep:
        network = lr.inits.aligned(rng, task, hidden=hidden, strengths=values["scale"], lam=values["lam"])
    else:
        U, _, V = task.modes
        network = lr.Network([values["scale"] * U @ V.T])
    problem = lr.Problem(task, network, rate)
    grid = np.geomspace(1e-2, 1e4, 400) / rate
    loss = lr.solve(problem, grid).loss
    end = 1.5 * grid[np.argmax(loss < 0.02 * loss[0])]
    times = np.linspace(0, end, TIMES)
    traj = lr.solve(problem, times)
    if readout == "loss":
        return times, {"loss": traj.loss + noise * traj.loss[0] * rng.normal(size=TIMES)}
    if readout == "modes":
        a = lr.observables.mode_strengths(traj)
        return times, {"modes": a + noise * a.max() * rng.normal(size=a.shape)}
    if readout == "rsm":
        S = lr.observables.rsm_in(traj)
        E = noise * np.abs(S).max() * rng.normal(size=S.shape)
        return times, {"rsm": 2.0 * (S + np.triu(E, 1) + np.swapaxes(np.triu(E, 1), 1, 2))}
    p = np.exp((drive := np.swapaxes(traj.function, 1, 2) / values["temperature"]) - drive.max(axis=-1, keepdims=True))
    p = (1 - values["lapse"]) * p / p.sum(axis=-1, keepdims=True) + values["lapse"] / p.shape[-1]
    if readout == "choices":
        return times, {"choices": rng.multinomial(10, p / p.sum(axis=-1, keepdims=True))}
    right = np.mean([p[:, i, i] for i in range(len(p[0]))], axis=0)
    return times, {"accuracy": rng.binomial(40, right) / 40, "trials": 40}


def unknown_in_truth(likelihood: Likelihood, values: dict[str, float]) -> tuple[set[str], set[str]]:
    """Parameters whose profile is flat over the bounds where measurements are as expected."""
    space = likelihood.space
    seen = dict(values)
    if "lam" in space.names and not any(one.sees_sign for one in likelihood.readouts):
        seen["lam"] = abs(values["lam"])
    expected = likelihood.expected({name: np.float64(value) for name, value in seen.items()})
    readouts = []
    for one, mean in zip(likelihood.readouts, expected, strict=True):
        noise = one.noise
        if isinstance(noise, Counts):
            noise = Counts(noise.trials * mean)
        elif isinstance(noise, Gaussian):
            sd = noise.spread(mean)
            noise = replace(noise, average=noise.fitted(mean), within=0.0, sd=sd)
        readouts.append(replace(one, noise=noise))
    fit = fit_one(replace(likelihood, readouts=tuple(readouts)))
    flat, nearly = (
        {one.name for i, one in enumerate(fit.profiles) if not interval(one, i, fit.log_likelihood, lost).identified}
        for lost in FLAT
    )
    return flat, nearly


def middle(off: np.ndarray, factor: bool) -> str:
    """The median error, of logarithms as a percentage."""
    if not len(off):
        return "–"
    return f"{100 * np.expm1(np.median(off)):.1f} %" if factor else f"{np.median(off):.3f}"


def recovery(readout: str, sets: int, seed: int) -> None:
    rng, task = np.random.default_rng(seed), task_of(readout)
    free = CHOOSING if readout in ("choices", "accuracy") else BOUNDS
    rows: dict[str, list[tuple[float, bool, bool, bool, bool, bool, bool]]] = defaultdict(list)
    begun = time.process_time()
    for _ in range(sets):
        values = truth(rng, readout)
        times, given = simulated(rng, task, values, readout)
        found = lr.fit(task, (task.d_in, task.d_in + 6, task.d_out), times, free=free, **given)
        flat, nearly = unknown_in_truth(found.likelihood, values)
        for name, one in found.intervals.items():
            signed = name != "lam" or readout == "rsm"
            true = values[name] if signed else abs(values[name])
            factor = name in ("scale", "rate", "temperature")
            off = np.log(found.estimates[name] / true) if factor else found.estimates[name] - true
            rows[name].append((abs(off), true in one, one.identified, one.closed, name in flat, name in nearly, factor))
    spent = (time.process_time() - begun) / sets
    for name, row in rows.items():
        off, covered, known, closed, flat, nearly, factor = map(np.array, zip(*row, strict=True))
        named = "  ".join(f"{np.sum(~known & unknown):>3} of {unknown.sum():>3}" for unknown in (flat, nearly))
        errors = [middle(off[which], factor[0]) for which in (known, closed)]
        shares = f"{covered.mean():8.3f} {known.mean():8.2f} {closed.mean():7.2f} {named:>22}"
        print(f"{readout:<9} {name:<12} {errors[0]:>8} {errors[1]:>8} {shares}", flush=True)
    print(f"{'':<9} {sets} data sets, {spent:.2f} s of processor time each, two fits and more", flush=True)


#: Learners of whom one parameter cannot be known: who they are, the bounds of the fit, and which parameter that is.
UNKNOWN = {
    "lazy: rate |λ| alone": (
        {"scale": 0.01, "lam": 300.0, "rate": 0.01},
        {"scale": 0.01, "lam": (100.0, 1000.0), "rate": (1e-3, 1.0)},
        "lam",
    ),
    "λ above scale": (
        {"scale": 1e-4, "lam": 2.0, "rate": 1.0},
        {"scale": (1e-6, 1e-3), "lam": (0.0, 4.0), "rate": (0.03, 30.0)},
        "scale",
    ),
    "λ below scale": (
        {"scale": 0.1, "lam": 1e-4, "rate": 1.0},
        {"scale": (1e-3, 1.0), "lam": (-0.01, 0.01), "rate": (0.03, 30.0)},
        "lam",
    ),
}


def unknown(sets: int) -> None:
    """How often a parameter that cannot be known is named."""
    rng = np.random.default_rng(11)
    for readout in ("loss", "modes"):
        for words, (values, free, name) in UNKNOWN.items():
            named = 0
            for _ in range(sets):
                times, given = simulated(rng, KINGDOM, values, readout)
                found = lr.fit(KINGDOM, (8, 14, 8), times, free=free, **given)
                named += name in found.unidentified
            truly = name in unknown_in_truth(found.likelihood, values)[0]
            print(
                f"{readout:<9} {words:<22} {name:<6} unknown in truth: {truly}, named in {named} of {sets}", flush=True
            )


def groups(sets: int, subjects: int = 8) -> None:
    """How often the interval of a group's mean holds the truth."""
    rng = np.random.default_rng(5)
    spread = {"scale": 0.5, "lam": 0.3, "rate": 0.3}  # of logarithms
    covered: dict[str, list[bool]] = defaultdict(list)
    off: dict[str, list[float]] = defaultdict(list)
    for _ in range(sets):
        mean = {"scale": np.exp(rng.uniform(*np.log([1e-3, 0.1]))), "lam": rng.uniform(0.1, 2), "rate": 1.0}
        each = [{k: v * np.exp(spread[k] * rng.normal()) for k, v in mean.items()} for _ in range(subjects)]
        times = max((simulated(rng, KINGDOM, values, "loss")[0] for values in each), key=lambda t: t[-1])
        curves = []
        for values in each:
            network = lr.inits.aligned(0, KINGDOM, hidden=14, strengths=values["scale"], lam=values["lam"])
            loss = lr.solve(lr.Problem(KINGDOM, network, values["rate"]), times).loss
            curves.append(loss + 0.03 * loss[0] * rng.normal(size=TIMES))
        found = lr.fit(KINGDOM, (8, 14, 8), times, loss=curves, free=BOUNDS)
        for name, value in mean.items():
            covered[name].append(value in found.intervals[name])
            off[name].append(abs(np.log(max(found.estimates[name], 1e-9) / value)))
    for name, row in covered.items():
        told = middle(np.array(off[name]), True)
        print(f"groups of {subjects}: {name:<6} coverage {np.mean(row):.3f} of {sets}, median error {told}", flush=True)


def learners(rng: np.random.Generator, kind: str) -> dict[str, float]:
    lam = {"lazy": 30.0, "rich": 0.0}.get(kind, rng.uniform(-3, 3))
    scale = np.exp(rng.uniform(*np.log([1e-3, 0.3])))
    return {"scale": float(scale), "lam": lam, "rate": float(np.exp(rng.uniform(*np.log([0.1, 10.0]))))}


def models(sets: int) -> None:
    """Which of two models BIC prefers, where either was the truth."""
    rng, sizes = np.random.default_rng(3), (8, 14, 8)
    free = {"scale": (1e-5, 1.0), "lam": (-100.0, 100.0), "rate": (0.003, 300.0)}
    for pair, kinds in ((("deep", "shallow"), ("deep", "shallow")), (("rich", "shallow"), ("rich", "lazy"))):
        print(f"\n{'truth':<9} {'noise':>6}" + "".join(f"{name:>10}" for name in pair))
        for noise in (0.01, 0.05, 0.2):
            for kind in kinds:
                won: dict[str, int] = defaultdict(int)
                for _ in range(sets):
                    values = learners(rng, kind)
                    times, given = simulated(rng, KINGDOM, values, "loss", kind != "shallow", noise)
                    won[lr.fit(KINGDOM, sizes, times, free=free, models=pair, **given).model] += 1
                print(f"{kind:<9} {noise:>6}" + "".join(f"{won[name]:>10}" for name in pair), flush=True)


def timing() -> None:
    rng = np.random.default_rng(0)
    times, given = simulated(rng, KINGDOM, {"scale": 0.01, "lam": 0.3, "rate": 1.0}, "loss")
    curves = given["loss"] + 0.03 * 2.2 * rng.normal(size=(10, TIMES))
    for level in ("group", "shared"):
        clock, begun = time.perf_counter(), time.process_time()
        lr.fit(KINGDOM, (8, 14, 8), times, loss=curves, free=BOUNDS, models=("deep", "shallow"), subjects=level)
        spent, passed = time.process_time() - begun, time.perf_counter() - clock
        told = f"{spent:.1f} s of processor time ({passed:.1f} s passed)"
        print(f"8-14-8, 60 times, 10 subjects, two models, {level}: {told}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7, help="of the recovery")
    parser.add_argument("--readouts", nargs="+", choices=READOUTS, default=READOUTS)
    parser.add_argument("--only", nargs="+", choices=WHAT, default=WHAT)
    wish = parser.parse_args()
    if "recovery" in wish.only:
        heads = ("readout", "parameter", "error", "error", "coverage", "known", "closed", "named: unknown", "nearly so")
        print("median error where known, and where the interval has both ends\n" + " ".join(f"{h:>9}" for h in heads))
        for readout in wish.readouts:
            recovery(readout, wish.sets, wish.seed)
    if "unknown" in wish.only:
        unknown(wish.sets)
    if "groups" in wish.only:
        groups(wish.sets)
    if "models" in wish.only:
        models(wish.sets)
    if "time" in wish.only:
        timing()


if __name__ == "__main__":
    main()
