"""`solve(..., device_arrays=True)`: arrays of another library in, the same out, in float64 and equal to NumPy's."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import array_api_strict
import numpy as np
import pytest
from array_api_compat import array_namespace

import lazyrich as lr
from lazyrich.methods.riccati import evaluation as evaluate

from ..families import relative_errors, target

TIMES = [0.0, 0.5, 3.0, 20.0, 1024.0, 1e12]  # all but the last are the same in float32
EQUAL = 1e-13

pytestmark = pytest.mark.timeout(120)  # JAX on the CPU can wait for ever where two LAPACK calls meet


def numpy_times() -> Any:
    return np.array(TIMES)


def strict_times() -> Any:
    return array_api_strict.asarray(TIMES, dtype=array_api_strict.float64)


def jax_times() -> Any:
    """As a user would write it: float32, unless told otherwise."""
    return pytest.importorskip("jax.numpy").asarray(TIMES[:5])


def torch_times() -> Any:
    torch = pytest.importorskip("torch")
    return torch.tensor(TIMES, dtype=torch.float64)


LIBRARIES = {"numpy": numpy_times, "array_api_strict": strict_times, "jax": jax_times, "torch": torch_times}


def problems(rng: np.random.Generator) -> dict[str, lr.Problem]:
    def problem(sizes, lam=0.0, scale=0.1, c=1.0, **options):
        network = lr.inits.lambda_balanced(rng, sizes=sizes, lam=lam, scale=scale)
        task = lr.Task.from_correlations(target(rng, sizes[2], sizes[0]), c * np.eye(sizes[0]))
        return lr.Problem(task, network, **options)

    return {
        "wide": problem((4, 9, 3)),
        "bottleneck": problem((4, 2, 5), scale=1e-8),
        "λ": problem((4, 3, 5), lam=30.0),
        "inputs and decay": problem((4, 6, 3), c=0.125, weight_decay=0.05),
        "zero target": lr.Problem(
            lr.Task.from_correlations(np.zeros((3, 2))), lr.inits.zero_balanced(rng, sizes=(2, 3, 3), scale=0.3)
        ),
        "large": problem((30, 30, 25)),
    }


def to_numpy(array: Any) -> np.ndarray:
    return np.asarray(array.cpu() if hasattr(array, "cpu") else array)


@pytest.mark.parametrize(
    "library",
    [
        "numpy",
        "array_api_strict",
        pytest.param("jax", marks=pytest.mark.compiles),
        pytest.param("torch", marks=pytest.mark.torch),
    ],
)
def test_arrays_of_one_library_in_and_out(library, rng):
    times = LIBRARIES[library]()
    xp = array_namespace(times)
    for name, problem in problems(rng).items():
        plain = lr.solve(problem, to_numpy(times).astype(np.float64), method="riccati")
        traj = lr.solve(problem, times, method="riccati", device_arrays=True)
        for part in ("times", "function", "gram", "loss"):
            array = getattr(traj, part)
            assert array_namespace(array) is xp, (name, part)
            assert str(array.dtype).endswith("float64"), (name, part)
        for part in ("function", "gram"):
            got, want = to_numpy(getattr(traj, part)), getattr(plain, part)
            size = np.linalg.norm(plain.gram, axis=(1, 2))
            assert np.all(np.linalg.norm(got - want, axis=(1, 2)) <= EQUAL * size), (name, part)
        scale = np.sum(problem.task.sigma_yx**2) + plain.loss[0]
        np.testing.assert_allclose(to_numpy(traj.loss), plain.loss, rtol=EQUAL, atol=EQUAL * scale, err_msg=name)
        assert traj.method == "riccati" and traj.citation == plain.citation


@pytest.mark.parametrize("library", LIBRARIES)
def test_weights_and_certificate_are_there_too(library, rng):
    problem, times = problems(rng)["λ"], LIBRARIES[library]()
    traj = lr.solve(problem, times[:4], device_arrays=True)
    assert traj.certificate().exact
    plain = lr.solve(problem, TIMES[:4])
    for got, want in zip(traj.weights, plain.weights, strict=True):
        np.testing.assert_allclose(to_numpy(got), want, atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
def test_times_are_taken_by_plain_solve_as_well(library, rng):
    """Without device_arrays any library's times do, and NumPy comes back."""
    traj = lr.solve(problems(rng)["wide"], LIBRARIES[library]()[:3])
    assert isinstance(traj.function, np.ndarray) and isinstance(traj.times, np.ndarray)


def test_on_the_separatrix_it_stays_and_with_a_push_it_leaves(rng):
    W = 0.3 * np.linalg.qr(rng.normal(size=(3, 3)))[0]
    sigma_yx = target(rng, 3, 3)
    sigma_yx = sigma_yx * -np.sign(np.linalg.det(sigma_yx) * np.linalg.det(W.T @ W))
    problem = lr.Problem(lr.Task.from_correlations(sigma_yx), lr.Network([W, W.T]))
    late = array_api_strict.asarray([1e6])
    stay = lr.solve(problem, late, method="riccati", device_arrays=True)
    push = lr.solve(problem, late, method="riccati", device_arrays=True, on_separatrix="perturb")
    assert stay.notes and np.linalg.matrix_rank(to_numpy(stay.function)[0], tol=1e-9) < 3
    np.testing.assert_allclose(to_numpy(push.function)[0], sigma_yx, atol=1e-12)


@pytest.mark.compiles
def test_the_precision_of_jax_is_left_as_it_was(rng):
    jnp = pytest.importorskip("jax.numpy")
    before = jnp.asarray([1.0]).dtype
    traj = lr.solve(problems(rng)["wide"], jnp.asarray([0.0, 1.0]), device_arrays=True)
    assert str(traj.gram.dtype) == "float64"
    assert jnp.asarray([1.0]).dtype == before


def test_many_times_are_taken_in_pieces(rng, monkeypatch):

    problem, times = problems(rng)["wide"], array_api_strict.linspace(0.0, 30.0, 57)
    whole = to_numpy(lr.solve(problem, times, device_arrays=True).gram)
    monkeypatch.setattr(evaluate, "_CHUNK", 100)
    pieces = to_numpy(lr.solve(problem, times, device_arrays=True).gram)
    assert relative_errors(pieces, whole).max() <= EQUAL


def test_what_is_refused(rng):
    problem = problems(rng)["wide"]
    with pytest.raises(lr.InvalidInput, match=r"times must be an array of the library .* and it is a list"):
        lr.solve(problem, [0.0, 1.0], device_arrays=True)
    with pytest.raises(lr.InvalidInput, match="times must be sorted"):
        lr.solve(problem, array_api_strict.asarray([1.0, 0.0]), device_arrays=True)
    aligned = lr.Problem(problem.task, lr.inits.aligned(rng, problem.task, hidden=4, strengths=0.1))
    with pytest.raises(lr.InvalidInput, match=r"device_arrays works with the method riccati, .* solved by modes"):
        lr.solve(aligned, np.array([0.0, 1.0]), method="modes", device_arrays=True)


def test_plain_solve_imports_no_engine():
    code = (
        "import sys, lazyrich as lr; "
        "p = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01)); "
        "lr.solve(p, [0.0, 5.0]).function; print(sorted({'jax', 'torch', 'cupy', 'diffrax'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "[]"
