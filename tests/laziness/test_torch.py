"""How lazy a run of a PyTorch module was: against its gradients taken one by one, and the same network in equinox."""

from __future__ import annotations

import copy
import importlib
import re
from pathlib import Path

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.laziness.measuring import measure as laziness
from lazyrich.laziness.scaling import rescaled

torch = pytest.importorskip("torch")
nn = torch.nn

pytestmark = [pytest.mark.torch, pytest.mark.timeout(120)]

tool = importlib.import_module("lazyrich.laziness.kernel")

DOCUMENT = Path(__file__).parents[2] / "docs" / "laziness.md"
X = np.random.default_rng(0).normal(size=(12, 6))
IMAGES = np.random.default_rng(1).normal(size=(7, 1, 4, 4))
SEQUENCES = np.random.default_rng(2).normal(size=(5, 3, 6))
TOKENS = np.random.default_rng(3).integers(0, 11, size=(6, 4))


class Convolutional(nn.Module):
    """A skip, a normalisation, an activation that is used three times and writes into its input, dropout."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3)
        self.second, self.third = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 4, 1)
        self.relu, self.drop, self.last = nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(4 * 4, 2)

    def forward(self, x):
        h = self.relu(self.norm(self.first(x)))
        h = self.relu(h + self.second(h))
        h = nn.functional.max_pool2d(self.relu(self.third(h)), 2)
        return self.last(self.drop(h.flatten(1)))


class Functional(nn.Module):
    """Without a trace of its activation function."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.last = nn.LSTM(6, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.cells(x)[0][:, -1])


class Deciding(Functional):
    """What torch.func cannot map over samples: a forward that looks at its values."""

    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else self.fc2(self.fc1(x))


class Transformer(nn.Module):
    """With the table of the tokens shared by the readout."""

    def __init__(self):
        super().__init__()
        self.embedding, self.last = nn.Embedding(11, 8), nn.Linear(8, 11)
        self.block = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
        self.last.weight = self.embedding.weight

    def forward(self, x):
        return self.last(self.block(self.embedding(x))[:, -1])


def plain(activation=nn.ReLU):
    return nn.Sequential(nn.Linear(6, 8), activation(), nn.Sequential(nn.Linear(8, 7), nn.LeakyReLU()), nn.Linear(7, 3))


def made(build, seed=0):
    torch.manual_seed(seed)
    return build().double()


def checkpoints(module, *moves):
    """Copies of the state, moved at random, with statistics as if it had seen batches."""
    generator = torch.Generator().manual_seed(5)
    states = []
    for move in (0.0, *moves):
        state = copy.deepcopy(module.state_dict())
        for name, value in state.items():
            if "running" in name:
                value += 0.02 * torch.rand(value.shape, generator=generator, dtype=value.dtype)
        for name, value in state.items():
            if value.is_floating_point() and "running" not in name:
                value += move * torch.randn(value.shape, generator=generator, dtype=value.dtype)
        if "last.weight" in state and "embedding.weight" in state:
            state["last.weight"] = state["embedding.weight"].clone()
        states.append(state)
    return states


def gradients(module, state, inputs):
    """J row by row: one backward pass for each sample and output, on a copy of the module."""
    other = copy.deepcopy(module).eval()
    other.load_state_dict(state)
    parameters = [leaf for leaf in other.parameters() if leaf.requires_grad]
    rows = []
    for x in inputs:
        outputs = other(x[None])[0]
        for output in outputs:
            gradients = torch.autograd.grad(output, parameters, retain_graph=True)
            rows.append(torch.cat([part.ravel() for part in gradients]).numpy())
    return np.array(rows)


def turned(A, B):
    K, L = A @ A.T, B @ B.T
    return 1 - np.sum(K * L) / np.sqrt(np.sum(K**2) * np.sum(L**2))


MODULES = {
    "plain": (plain, X),
    "convolutional": (Convolutional, IMAGES),
    "functional": (Functional, X),
    "deciding": (Deciding, X),
    "recurrent": (Recurrent, SEQUENCES),
    "transformer": (Transformer, TOKENS),
}


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of vmap over attention and recurrence
@pytest.mark.parametrize("kind", MODULES)
def test_kernel_distance_from_gradients_one_by_one(kind):
    build, inputs = MODULES[kind]
    module = made(build)
    states = checkpoints(module, 0.1, 0.5)
    J = [gradients(module, state, torch.tensor(inputs)) for state in states]
    found = laziness(module, inputs, states)
    assert found.kernel_distance == pytest.approx([turned(J[0], other) for other in J], abs=1e-11)
    assert found.parameters == J[0].shape[1] and found.outputs == len(J[0]) // len(inputs)


def test_blocks_give_the_same_kernel_distance(monkeypatch):
    module = made(plain)
    states = checkpoints(module, 0.3)
    whole = laziness(module, X, states)
    monkeypatch.setattr(tool, "_HELD", 5 * whole.outputs * whole.parameters)
    assert laziness(module, X, states).kernel_distance == pytest.approx(whole.kernel_distance, rel=1e-12)


@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_the_same_network_in_equinox_gives_the_same_numbers(precision):
    jax, eqx = pytest.importorskip("jax"), pytest.importorskip("equinox")
    module = made(plain).to(torch.float64 if precision is np.float64 else torch.float32)
    states = checkpoints(module, 0.1, 0.5)

    def dense(state, name):
        W, b = (state[f"{name}.{part}"].numpy() for part in ("weight", "bias"))
        layer = eqx.nn.Linear(W.shape[1], len(W), key=jax.random.key(0))
        return eqx.tree_at(lambda layer: (layer.weight, layer.bias), layer, (W, b))

    def model(state):
        inner = eqx.nn.Sequential([dense(state, "2.0"), eqx.nn.Lambda(jax.nn.leaky_relu)])
        return eqx.nn.Sequential([dense(state, "0"), eqx.nn.Lambda(jax.nn.relu), inner, dense(state, "3")])

    one, other = laziness(module, X, states), laziness([model(state) for state in states], X)
    close = {"rel": 1e-10, "abs": 1e-13} if precision is np.float64 else {"rel": 1e-4, "abs": 1e-6}
    for name in lr.laziness.Laziness.__dataclass_fields__:
        if name.endswith("_distance"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), **close), name
    assert one.hidden == ("0", "2.0") and other.hidden == ("layers.0", "layers.2.layers.0")
    for mine, theirs in zip(one.hidden, other.hidden, strict=True):
        assert one.delta[mine] == pytest.approx(other.delta[theirs], **close)
        assert one.delta_drift[mine] == pytest.approx(other.delta_drift[theirs], **close)
    assert one.scaling.alpha(0.5) == pytest.approx(other.scaling.alpha(0.5), **close)
    assert one.regime == other.regime and one.notes == other.notes == ()


def test_hidden_activity_of_an_activation_that_is_used_thrice():
    module = made(Convolutional)
    states = checkpoints(module, 0.3)
    found = laziness(module, IMAGES, states)
    assert found.hidden == ("first", "second", "third")
    active = []
    for state in states:
        other = copy.deepcopy(module).eval()
        other.load_state_dict(state)
        h = torch.relu(other.norm(other.first(torch.tensor(IMAGES))))
        g = torch.relu(h + other.second(h))
        active.append([part.detach().numpy() > 0 for part in (h, g, torch.relu(other.third(g)))])
    shares = [np.mean(one != other) for one, other in zip(*active, strict=True)]
    assert found.layer_hamming_distance[1] == pytest.approx(shares)
    units = [part[0].size for part in active[0]]
    assert found.hamming_distance[1] == pytest.approx(np.average(shares, weights=units))


def test_delta_only_where_a_factor_can_pass():
    """Not of layers that lie beside the skip, normalised or not; but from a convolution into a dense layer."""
    module = made(Convolutional)
    states = checkpoints(module, 0.3)
    found = laziness(module, IMAGES, states)
    assert list(found.delta) == ["third"]
    assert found.notes == (
        "δ of norm is left out: its units cannot be traced into second.",
        "δ of second is left out: its units cannot be traced into third.",
    )
    assert found.normalisations == ("norm",) and "this network normalises (norm)" in found.suggestion
    for end, state in zip(found.delta["third"], (states[0], states[-1]), strict=True):
        W, b, V = (state[name].numpy() for name in ("third.weight", "third.bias", "last.weight"))
        by_hand = [np.sum(V[:, 4 * i : 4 * i + 4] ** 2) - np.sum(W[i] ** 2) - b[i] ** 2 for i in range(4)]
        assert end == pytest.approx(by_hand)


def test_functions_that_leave_no_trace_are_named_or_left_out():
    module = made(Functional)
    states = checkpoints(module, 0.3)
    unnamed, named = laziness(module, X, states), laziness(module, X, states, hidden=["fc1"])
    assert unnamed.hidden == () and "hidden= says where activity is" in str(unnamed) and not unnamed.linear
    assert list(unnamed.delta) == ["fc1"] and unnamed.scaling.change < 1e-12
    W = [(state["fc1.weight"].numpy(), state["fc1.bias"].numpy()) for state in states]
    before, after = (X @ weight.T + bias for weight, bias in W)
    assert named.hidden == ("fc1",) and named.hamming_distance[1] == np.mean((before > 0) != (after > 0))
    centred = [activity - activity.mean(axis=0) for activity in (before, after)]
    assert named.representation_distance[1, 0] == pytest.approx(turned(*centred), abs=1e-12)


def test_linear_and_smooth_networks_are_known_as_such():
    linear = made(lambda: nn.Sequential(nn.Linear(6, 4, bias=False), nn.Linear(4, 2, bias=False)))
    found = laziness(linear, X, checkpoints(linear, 0.3))
    assert found.linear and found.hidden == ("0",) and "linear networks are rich" in found.suggestion
    smooth = made(lambda: plain(nn.Tanh))
    found = laziness(smooth, X, checkpoints(smooth, 0.3))
    assert list(found.delta) == ["0", "2.0"] and "δ of 0 need not be conserved" in found.notes[0]
    assert "does not keep the function" in found.suggestion and "upstream" not in found.suggestion


def test_a_tilt_of_a_smooth_network_would_be_lazier_where_a_smaller_scale_is_richer():
    """Why none is suggested: a small first layer is where tanh is linear."""

    def turned_by(first, last):
        module = made(lambda: nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 2)))
        with torch.no_grad():
            for part, factor in ((module[0], first), (module[2], last)):
                part.weight *= factor
        inputs, targets = torch.tensor(X), torch.tensor(np.sin(3 * X[:, :2]))
        optimiser, states = torch.optim.SGD(module.parameters(), lr=0.02), checkpoints(module)
        for _ in range(300):
            optimiser.zero_grad()
            (module(inputs) - targets).square().sum(1).mean().backward()
            optimiser.step()
        return laziness(module, X, [*states, copy.deepcopy(module.state_dict())]).kernel_distance[-1]

    plain, tilted, smaller = turned_by(1.0, 1.0), turned_by(1 / 5, 5.0), turned_by(1 / 2, 1 / 2)
    assert tilted < plain < smaller


def by_the_batch(module, inputs):
    """J row by row where all batch normalisations have just seen these samples, without what gradients do to that."""
    module, inputs = copy.deepcopy(module), torch.tensor(inputs)
    norms = [part for part in module.modules() if isinstance(part, nn.BatchNorm2d)]
    module.eval()
    for part in norms:
        part.train()
        part.momentum = 1.0
    module(inputs)
    share = 1 - 1 / (len(inputs) * 16)  # running variances are divided by one number less than those of training
    state = {name: leaf * (share if "var" in name else 1) for name, leaf in module.state_dict().items()}
    return gradients(module, state, inputs)


@pytest.mark.parametrize("spread", [False, True])
def test_batch_normalisation_that_has_seen_nothing_takes_the_statistics_of_the_samples(spread):
    module = made(Convolutional)
    if spread:  # over processes, which measuring does not ask
        module = nn.SyncBatchNorm.convert_sync_batchnorm(module)
    states = []
    for _ in range(3):  # no step is taken
        states.append(copy.deepcopy(module.state_dict()))
        if not spread:
            module.train()(torch.tensor(IMAGES))
    moved = copy.deepcopy(states[-1])
    with torch.no_grad():
        for name in ("first.weight", "norm.weight", "last.weight"):
            moved[name] *= 1.5
    before = copy.deepcopy(module.state_dict())
    found = laziness(module, IMAGES, [*states, moved])
    assert found.kernel_distance[:3].max() == 0 and found.function_distance[:3].max() == 0
    plain, J = made(Convolutional), []
    for state in (states[0], moved):
        plain.load_state_dict(state)
        J.append(by_the_batch(plain, IMAGES))
    assert found.kernel_distance[-1] == pytest.approx(turned(*J), abs=1e-11)
    assert found.notes[0].startswith("norm, a batch normalisation, had seen no batch at first: here the statistics of")
    assert all(torch.equal(leaf, before[name]) for name, leaf in module.state_dict().items())
    if not spread:
        assert not any("had seen no batch" in note for note in laziness(module, IMAGES, states[1:]).notes)


@pytest.mark.parametrize("norm", [nn.BatchNorm1d, nn.LayerNorm])
def test_delta_of_normalised_units_is_that_of_their_gains_and_is_conserved(norm):
    """That of the weights before is not."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 8), norm(8), nn.ReLU(), nn.Linear(8, 2)).double()
    with torch.no_grad():
        module[1].weight.uniform_(0.5, 2.0)
        module[1].bias.uniform_(-0.5, 0.5)
    inputs, targets = torch.tensor(X), torch.tensor(np.sin(2 * X[:, :2]))
    states, optimiser = [copy.deepcopy(module.state_dict())], torch.optim.SGD(module.parameters(), lr=1e-3)
    for _ in range(1000):
        optimiser.zero_grad()
        (module(inputs) - targets).square().mean().backward()
        optimiser.step()
    states.append(copy.deepcopy(module.state_dict()))
    found = laziness(module, X, states)

    def change(incoming):
        ends = [{name: leaf.numpy() for name, leaf in state.items()} for state in states]
        sums = [(incoming(end), (end["3.weight"] ** 2).sum(axis=0)) for end in ends]
        (before, out), (after, out_after) = sums
        return np.abs(out_after - after - out + before).mean() / np.mean(before + out)

    gains = change(lambda end: end["1.weight"] ** 2 + end["1.bias"] ** 2)
    assert found.delta_drift == {"1": pytest.approx(gains, rel=1e-9)} and gains < 1e-4
    assert change(lambda end: (end["0.weight"] ** 2).sum(axis=1) + end["0.bias"] ** 2) > 100 * gains
    assert found.suggestion.startswith("Richer: the outputs ÷ 4") and "normalises (1)" in found.suggestion


def test_frozen_parameters_have_no_part_in_the_kernel():
    module = made(plain)
    module[0].requires_grad_(False)
    states = checkpoints(module, 0.3)
    found = laziness(module, X, states)
    J = [gradients(module, state, torch.tensor(X)) for state in states]
    assert found.kernel_distance[1] == pytest.approx(turned(*J), abs=1e-12)
    assert found.layers == ("2.0", "3") and found.parameters == 8 * 7 + 7 + 7 * 3 + 3
    module.requires_grad_(False)
    with pytest.raises(lr.InvalidInput, match="model must have parameters that require a gradient, and it has none"):
        laziness(module, X, states)


def test_rescaled_keeps_the_function_and_the_module_takes_it():
    module = made(plain)
    outputs = module(torch.tensor(X))
    module.load_state_dict(rescaled(module.state_dict(), 3.0))
    assert module[0].weight.std() < 0.1 and torch.allclose(module(torch.tensor(X)), outputs, rtol=1e-12)
    module.load_state_dict(rescaled(module.state_dict(), {"2.0": 5.0}))
    assert torch.allclose(module(torch.tensor(X)), 5 * outputs, rtol=1e-12)
    with pytest.raises(lr.InvalidInput, match=r"it is a PyTorch module: try model\.load_state_dict\(rescaled"):
        rescaled(module, 3.0)


class HeadFirst(nn.Module):
    """Declared in another order than called, with layers of one shape: nothing but a call tells."""

    def __init__(self):
        super().__init__()
        self.head, self.fc2, self.fc1 = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        return self.head(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


@pytest.mark.parametrize("factors, gain", [(4.0, 1), ({"fc1": 3.0, "fc2": 0.5}, 1.5)], ids=["α", "factors"])
def test_rescaled_takes_the_order_of_calls_that_laziness_found(factors, gain):
    module = made(HeadFirst)
    start, outputs = copy.deepcopy(module.state_dict()), module(torch.tensor(X))
    found = laziness(module, X, checkpoints(module, 0.3))
    assert found.scaling.layers == ("fc1", "fc2", "head")
    module.load_state_dict(rescaled(start, factors, order=found.scaling.layers))
    assert torch.allclose(module(torch.tensor(X)), gain * outputs, rtol=1e-12)
    assert not torch.equal(module.fc1.weight, start["fc1.weight"])
    module.load_state_dict(rescaled(start, factors))  # as declared
    assert not torch.allclose(module(torch.tensor(X)), gain * outputs, rtol=1e-3)


@pytest.mark.parametrize("part", [nn.MaxPool1d(2), nn.Softmax(dim=1)])
def test_what_is_not_affine_is_not_called_linear(rng, part):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), part, nn.Linear(3 if isinstance(part, nn.MaxPool1d) else 6, 2))
    plain = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2))
    for net, linear in ((model, False), (plain, True)):
        states = [copy.deepcopy(net.state_dict()) for _ in range(2)]
        states[1]["0.weight"] += 0.1
        assert laziness(net, rng.normal(size=(20, 4)), states).linear is linear


# the page ----------------------------------------------------------------------------------------------------


def test_the_example_for_pytorch_runs(capsys, tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    pytest.importorskip("safetensors")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), flags=re.DOTALL)
    session = {}
    ran = [exec(compile(block, "laziness.md", "exec"), session) for block in blocks if "torch" in block]
    assert len(ran) == 2 and capsys.readouterr().out.count("rich: the kernel moves by 93") == 2
