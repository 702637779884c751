"""PyTorch modules stay as they are whatever happens, and what cannot be measured gets one sentence."""

from __future__ import annotations

import copy
import importlib

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.laziness.measuring import measure as laziness

torch = pytest.importorskip("torch")
nn = torch.nn

from laziness.test_torch import (  # noqa: E402
    IMAGES,
    SEQUENCES,
    Convolutional,
    Functional,
    Recurrent,
    X,
    checkpoints,
    made,
    plain,
)

pytestmark = [pytest.mark.torch, pytest.mark.timeout(120)]
tool = importlib.import_module(laziness.__module__)


def state_of(module):
    return (
        {name: value.clone() for name, value in module.state_dict().items()},
        [part.training for part in module.modules()],
        [list(part._forward_hooks) for part in module.modules()],
        [leaf.grad for leaf in module.parameters()],
    )


@pytest.mark.parametrize("fails", [False, True])
def test_the_module_stays_as_it_is_whatever_happens(fails, monkeypatch):
    module = made(Convolutional)
    module.train()
    module.norm.eval()
    module.third.register_forward_hook(lambda part, inputs, output: None)
    before = state_of(module)
    inputs = IMAGES
    if fails:
        monkeypatch.setattr(module.drop, "forward", lambda x: x[:, :3])
        with pytest.raises(lr.InvalidInput, match=r"model must take inputs of shape \(7, 1, 4, 4\), .* mat1 and mat2"):
            laziness(module, inputs, checkpoints(module, 0.3))
    else:
        laziness(module, inputs, checkpoints(module, 0.3), hidden=["first"])
        laziness(module, inputs, checkpoints(module, 0.3))
    after = state_of(module)
    assert all(torch.equal(after[0][name], value) for name, value in before[0].items())
    assert before[1:] == after[1:]


def test_a_forward_that_writes_into_inputs_or_buffers_is_measured_as_one_that_does_not(rng):
    torch.manual_seed(0)
    writes, plain = (
        nn.Sequential(nn.LeakyReLU(0.5, inplace=i), nn.Linear(5, 8), nn.ReLU(inplace=i), nn.Linear(8, 2))
        for i in (True, False)
    )
    states = [
        {name: leaf + 0.1 * t * torch.randn_like(leaf) for name, leaf in plain.state_dict().items()} for t in (0, 1)
    ]
    x = rng.normal(size=(7, 5))
    one, other = (laziness(model, x, states) for model in (writes, plain))
    for name in ("kernel_distance", "function_distance", "hamming_distance"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_buffer_that_counts_calls_is_left_alone(rng):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            return self.layer(x)

    model = Counting()
    states = [copy.deepcopy(model.state_dict()) for _ in range(2)]
    states[1]["layer.weight"] += 0.1
    laziness(model, rng.normal(size=(4, 3)), states)
    assert model.calls == 0 and all(state["calls"] == 0 for state in states)


# files and faults --------------------------------------------------------------------------------------------


def test_safetensors_are_read_and_pickles_never(tmp_path):
    save_file = pytest.importorskip("safetensors.torch").save_file
    module = made(Convolutional).float()
    states = checkpoints(module, 0.1, 0.5)
    paths = [tmp_path / f"{i}.safetensors" for i in range(3)]
    for path, state in zip(paths, states, strict=True):
        save_file(state, path)
    found = laziness(module, IMAGES, [str(paths[0]), *paths[1:]])
    assert (found.kernel_distance == laziness(module, IMAGES, states).kernel_distance).all()
    for suffix in ("pt", "pth", "pkl"):
        pickled = tmp_path / f"state.{suffix}"
        torch.save(states[1], pickled)
        with pytest.raises(lr.InvalidInput, match="may hold pickled code, which is never opened here: safetensors"):
            laziness(module, IMAGES, [paths[0], pickled])
    with pytest.raises(lr.InvalidInput, match=r"none\.safetensors does not exist\."):
        laziness(module, IMAGES, [paths[0], tmp_path / "none.safetensors"])


def bad():
    module = made(plain)
    one, two = checkpoints(module, 0.3)
    few = {name: value for name, value in two.items() if name != "3.bias"}
    shaped, broken = two | {"3.bias": torch.zeros(4)}, two | {"3.bias": torch.full((3,), torch.nan)}
    tuples, labels = made(lambda: nn.Sequential(nn.LSTM(6, 4))), nn.Sequential(nn.Linear(6, 3), nn.Flatten(0))
    return {
        "one checkpoint": ((module, X, [one]), r"checkpoints must hold two checkpoints at least, .*, and it holds 1\."),
        "none": ((module, X), r"checkpoints must be a list of state_dicts or paths, .*, and it is a NoneType\."),
        "modules": (
            ([module, module], X),
            r"model must be one PyTorch module, with checkpoints=\[…\] a state_dict for",
        ),
        "no state": ((module, X, [one, 3]), r"checkpoint 1 must be a state_dict or the path .*, and it is a int\."),
        "wrapped": ((module, X, [one, {"model": two}]), r"it lacks 0\.weight \(6 names are missing, 1 unknown\)\."),
        "a name less": (
            (module, X, [one, few]),
            r"checkpoint 1 must hold what model\.state_dict\(\) holds, and it lacks 3",
        ),
        "a name more": ((module, X, [one | {"a": X}, two]), r"and it has a \(0 names are missing, 1 unknown\)\."),
        "another shape": (
            (module, X, [one, shaped]),
            r"3\.bias in checkpoint 1 must have the shape \(3,\) .* has \(4,\)\.",
        ),
        "not finite": ((module, X, [one, broken]), r"3\.bias must be finite, and in checkpoint 1 it is not: leave out"),
        "no copies": (
            (module, X, [module.state_dict()] * 2),
            r"checkpoint 1 must have tensors of its own, .*copy\.deepcopy",
        ),
        "other inputs": (
            (module, X[:, :5], [one, two]),
            r"model must take inputs of shape \(12, 5\), samples first, and it",
        ),
        "tuples": ((tuples, SEQUENCES, checkpoints(tuples, 0.1)), r"must give a tensor .*, and it gives a tuple\."),
        "no rows": (
            (labels, X, checkpoints(labels, 0.1)),
            r"per sample \(12\), and it gives a tensor of shape \(36,\)\.",
        ),
        "a word": ((module, X, [one, two], "0"), r"hidden must list names of submodules, .* and it is '0'\."),
        "no name": (
            (module, X, [one, two], ["fc"]),
            r"each name in hidden must be one of '0', '1', '2', .* it is 'fc'\.",
        ),
    }


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("case", bad())
def test_bad_input_gets_one_sentence(case):
    arguments, message = bad()[case]
    hidden = arguments[3] if len(arguments) > 3 else None
    with pytest.raises(lr.InvalidInput, match=message) as caught:
        laziness(*arguments[:3], hidden=hidden)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


def test_outputs_without_gradients_get_one_sentence():
    class Labels(Functional):
        def forward(self, x):
            return super().forward(x).argmax(1)

    class Detached(Functional):
        def forward(self, x):
            return torch.tensor(super().forward(x).detach().numpy())

    for build, message in (
        (Labels, r"outputs of the model must be floating-point numbers, and they are torch\.int64\."),
        (Detached, r"outputs of the model must depend on its parameters by gradients, and they do not\."),
    ):
        module = made(build)
        with pytest.raises(lr.InvalidInput, match=message):
            laziness(module, X, checkpoints(module, 0.1))


def test_hidden_names_must_be_called_and_give_rows():
    module = made(Recurrent)
    module.idle = nn.Linear(1, 1).double()
    states = checkpoints(module, 0.1)
    with pytest.raises(lr.InvalidInput, match="cells, named in hidden, must give a tensor with one row per sample"):
        laziness(module, SEQUENCES, states, hidden=["cells"])
    with pytest.raises(lr.InvalidInput, match="idle, named in hidden, must be called when the model is"):
        laziness(module, SEQUENCES, states, hidden=["last", "idle"])
