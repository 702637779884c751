"""A monitor of PyTorch modules: against gradients taken one by one, beside a training that it must not disturb."""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest

import lazyrich as lr

torch = pytest.importorskip("torch")
nn = torch.nn

from laziness.test_measuring import moved_by, turned  # noqa: E402
from laziness.test_torch import (  # noqa: E402
    IMAGES,
    MODULES,
    TOKENS,
    Convolutional,
    Functional,
    Transformer,
    X,
    checkpoints,
    gradients,
    made,
    plain,
)

pytestmark = [pytest.mark.torch, pytest.mark.timeout(120)]
K, M = "lazyrich/kernel_distance", "lazyrich/kernel_movement"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("precision", [torch.float64, torch.float32])
@pytest.mark.parametrize("kind", MODULES)
def test_kernels_from_gradients_one_by_one(kind, precision):
    build, inputs = MODULES[kind]
    module = made(build).to(precision)
    states = checkpoints(module, 0.1, 0.5)
    module.load_state_dict(states[0])
    exact = copy.deepcopy(module).double()
    J = [gradients(exact, state, torch.tensor(inputs)) for state in states]
    monitor, tolerance = lr.laziness.Monitor(module, inputs), 1e-5 if precision is torch.float32 else 1e-11
    for t, state in enumerate(states):
        found = monitor.update(state, t)
        assert found[K] == pytest.approx(turned(J[0], J[t]), abs=tolerance)
        assert found[M] == pytest.approx(moved_by(J[0], J[t]), abs=tolerance)


def test_the_gap_to_the_tangent_model_from_gradients_one_by_one():
    module = made(Convolutional)
    states = checkpoints(module, 0.05)
    module.load_state_dict(states[0])
    inputs = torch.tensor(IMAGES)
    J = gradients(module, states[0], inputs)
    found = lr.laziness.Monitor(module, IMAGES).update(states[1], 1)["lazyrich/linearisation_gap"]
    names = [name for name, _ in module.named_parameters()]
    step = torch.cat([(states[1][name] - states[0][name]).ravel() for name in names]).numpy()
    outputs = []
    for state in states:
        module.load_state_dict(state)
        outputs.append(module.eval()(inputs).detach().numpy().ravel())
    linear = outputs[0] + J @ step
    size = max(np.linalg.norm(part - outputs[0]) for part in (linear, outputs[1]))
    assert found == pytest.approx(np.linalg.norm(outputs[1] - linear) / size, rel=1e-9)


def test_attention_has_a_gap_too():
    module = made(Transformer)
    states = checkpoints(module, 0.01)
    found = lr.laziness.Monitor(module, TOKENS, samples=6).update(states[1], 1)
    assert 0 < found["lazyrich/linearisation_gap"] < 0.5  # a small step
    assert torch.backends.mha.get_fastpath_enabled() and torch.backends.cuda.flash_sdp_enabled()


def test_without_forward_derivatives_the_gap_is_left_out():
    class Squared(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            context.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(context, gradient):
            return 2 * context.saved_tensors[0] * gradient

    class Own(Functional):
        def forward(self, x):
            return self.fc2(Squared.apply(self.fc1(x)))

    module = made(Own)
    states = checkpoints(module, 0.2)
    J = [gradients(module, state, torch.tensor(X)) for state in states]
    monitor = lr.laziness.Monitor(module, X)
    found = monitor.update(states[1], 1)
    assert "lazyrich/linearisation_gap" not in found and found[K] == pytest.approx(turned(*J), abs=1e-11)
    assert "the linearisation gap is left out: the model has no forward derivatives." in monitor.notes


# training that is not disturbed ------------------------------------------------------------------------------


def train(module, monitor=None, steps=12, begin=0, optimiser=None):
    """Dropout and batch normalisation draw and count; what `update` gives, and the state at the end."""
    optimiser = optimiser or torch.optim.Adam(module.parameters(), lr=0.01)
    inputs, logged = torch.tensor(IMAGES, dtype=torch.float32), []
    module.train()
    for step in range(begin, begin + steps):
        optimiser.zero_grad()
        loss = module(inputs).square().mean() + torch.rand(()) * 0
        loss.backward()
        optimiser.step()
        if monitor is not None:
            logged.append(monitor.update(module, step, loss=loss.item()))
            assert module.training and all(len(part._forward_hooks) == 0 for part in module.modules())
    return logged, optimiser


def test_a_new_network_that_normalises_is_where_it_began_until_it_learns():
    module = made(Convolutional).float()
    monitor = lr.laziness.Monitor(module, IMAGES.astype(np.float32))
    module.train()(torch.tensor(IMAGES, dtype=torch.float32))  # statistics change, and nothing else
    found = monitor.update(module, 0)
    assert found[K] == found[M] == found["lazyrich/hamming"] == found["lazyrich/linearisation_gap"] == 0.0
    assert monitor.notes[0].startswith("norm, a batch normalisation, had seen no batch at first")
    logged, _ = train(module, monitor, begin=1)
    assert logged[-1][K] > 0


@pytest.mark.filterwarnings("error")
def test_a_loss_is_taken_with_its_graph_and_only_when_it_is_time():
    module = made(plain)
    monitor = lr.laziness.Monitor(module, X, every=2)
    loss = module(torch.tensor(X)).square().mean()
    assert monitor.update(module, 2, loss) and monitor.records.seen[-1].loss == loss.item()

    class Waits:
        def __float__(self):
            raise AssertionError("the device is made to wait")

    assert monitor.update(module, 3, Waits()) == {}


def test_half_precision_around_it_is_not_mixed_in():
    module = made(plain).float()
    states, inputs = checkpoints(module, 0.3), X.astype(np.float32)
    expected = lr.laziness.Monitor(module, inputs).update(states[1], 1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert lr.laziness.Monitor(module, inputs).update(states[1], 1) == expected


def test_advice_says_how_far_delta_is_from_conserved():
    module = made(lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)))
    monitor = lr.laziness.Monitor(module, X)
    assert monitor.suggestion.startswith("Richer: all weights ÷ 2") and "not conserved" not in monitor.suggestion
    found = monitor.update(checkpoints(module, 0.3)[1], 1)
    drift = f"{100 * found['lazyrich/delta_drift']:.3g}%"
    assert f"In this run δ was not conserved: it changed by {drift} of" in monitor.suggestion


def test_training_goes_on_as_if_nobody_looked():
    def run(watched):
        module = made(Convolutional).float()
        torch.manual_seed(7)
        train(module, lr.laziness.Monitor(module, IMAGES.astype(np.float32)) if watched else None)
        return module.state_dict(), torch.rand(3)

    (one, drawn), (other, drawn_too) = run(True), run(False)
    assert torch.equal(drawn, drawn_too) and all(torch.equal(one[name], other[name]) for name in one)


def test_a_layer_that_draws_in_evaluation_too_leaves_random_numbers_alone():
    class Noisy(nn.Linear):
        def forward(self, x):
            return super().forward(x) + 0 * torch.rand(1)

    module = nn.Sequential(Noisy(6, 4), nn.ReLU(), nn.Linear(4, 2))
    torch.manual_seed(3)
    before = torch.get_rng_state()
    lr.laziness.Monitor(module, X.astype(np.float32)).update(module, 1)
    assert torch.equal(before, torch.get_rng_state())


def test_a_resumed_run_logs_the_same_numbers():
    """Through a file, read without unpickling code; in the new process the monitor is made of the trained network."""
    inputs = IMAGES.astype(np.float32)
    module = made(Convolutional).float()
    monitor = lr.laziness.Monitor(module, inputs)
    torch.manual_seed(1)
    first, optimiser = train(module, monitor)
    stream = io.BytesIO()
    torch.save({"module": module.state_dict(), "adam": optimiser.state_dict(), "lazy": monitor.state_dict()}, stream)
    drawn = torch.get_rng_state()
    whole, _ = train(module, monitor, begin=12, optimiser=optimiser)

    stream.seek(0)
    saved = torch.load(stream, weights_only=True)
    again = made(Convolutional, seed=99).float()
    again.load_state_dict(saved["module"])
    monitor = lr.laziness.Monitor(again, inputs)
    monitor.load_state_dict(saved["lazy"])
    optimiser = torch.optim.Adam(again.parameters(), lr=0.01)
    optimiser.load_state_dict(saved["adam"])
    torch.set_rng_state(drawn)
    resumed, _ = train(again, monitor, begin=12, optimiser=optimiser)
    assert resumed == whole and first[0][K] < resumed[-1][K]
    assert [one.step for one in monitor.records.seen] == list(range(24))


def test_inside_of_inference_mode_and_without_gradients():
    module = made(plain)
    states = checkpoints(module, 0.3)
    expected = lr.laziness.Monitor(module, X).update(states[1], 1)
    for quiet in (torch.inference_mode, torch.no_grad):
        monitor = lr.laziness.Monitor(module, X)
        with quiet():
            assert monitor.update(states[1], 1) == expected


# many processes ----------------------------------------------------------------------------------------------


def test_modules_are_unwrapped_and_rank_zero_alone_measures(monkeypatch, tmp_path):
    module = made(plain)
    other = copy.deepcopy(module)
    other.load_state_dict(checkpoints(module, 0.3)[1])
    expected = lr.laziness.Monitor(module, X).update(other, 1)
    assert lr.laziness.Monitor(nn.DataParallel(module), X).update(nn.DataParallel(other), 1) == expected
    assert lr.laziness.Monitor(torch.compile(module), X).update(torch.compile(other), 1) == expected
    store = f"file://{tmp_path / 'store'}"
    torch.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    try:
        spread = nn.parallel.DistributedDataParallel
        monitor = lr.laziness.Monitor(spread(module), X)
        assert monitor.update(spread(other), 1) == expected
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
        assert monitor.update(spread(other), 2) == {}
    finally:
        monkeypatch.undo()
        torch.distributed.destroy_process_group()
