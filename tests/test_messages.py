"""Bad input, over the whole public API: one sentence that names the argument, what came and what to try.

The run-time shape checks of the test suite are switched off here, so that the messages are those that users see.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import lazyrich as lr

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

NAN, INF = np.nan, np.inf
X, Y, SIGMA_YX = np.eye(4, 2), np.ones((4, 3)), np.ones((2, 3))
OBJECTS = np.full((4, 2), 1.0, dtype=object)
MASKED = np.ma.masked_array(np.ones((4, 2)), mask=np.eye(4, 2))
W1, W2 = np.ones((2, 3)), np.ones((1, 2))
TASK = lr.tasks.semantic_hierarchy()
START = lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01)
PROBLEM = lr.Problem(TASK, START)


# Calls that are right but for what a case replaces.
from_data = lambda inputs=X, targets=Y, **options: lr.Task.from_data(inputs, targets, **options)
from_correlations = lambda sigma_yx=SIGMA_YX, **options: lr.Task.from_correlations(sigma_yx, **options)
TASK_OF_CORRELATIONS = lr.Task.from_correlations([[1.0, 2.0, 3.0]])
from_state_dict = lr.Network.from_state_dict
network = lambda last=W2, **options: lr.Network([W1, last], **options)
zero_balanced = lambda rng=0, sizes=(2, 3, 2), scale=1.0: lr.inits.zero_balanced(rng, sizes=sizes, scale=scale)
tilted = lambda rng=0, sizes=(2, 2, 2), lam=1.0: lr.inits.lambda_balanced(rng, sizes=sizes, lam=lam, scale=1.0)
aligned = lambda rng=0, task=TASK, **options: lr.inits.aligned(rng, task, **{"hidden": 14, "strengths": 1.0} | options)
neuron = lambda beta=(1.0, 2.0), delta=1.0, sign=1: lr.inits.single_neuron(beta, delta=delta, sign=sign)
problem = lambda task=TASK, start=START, **options: lr.Problem(task, start, **options)
classified = lambda targets=((1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 1)), loss="cross_entropy": lr.Problem(
    lr.Task.from_data(X + 1.0, targets), lr.inits.gaussian(0, sizes=(2, 4, len(targets[0])), scale=1.0), loss=loss
)
solve = lambda times=(0.0, 1.0), of=PROBLEM, **options: lr.solve(of, times, **options)
tree = lambda rng=0, **options: lr.tasks.binary_tree(rng, **options)
regression = lambda rng=0, **options: lr.tasks.random_regression(rng, **{"d_in": 2, "d_out": 2, "samples": 5} | options)
teacher = lambda rng=0, matrix=((1.0, 2.0),), **options: lr.tasks.linear_teacher(
    rng, matrix, **{"samples": 5} | options
)

# What came, and the sentence after the argument's name.
NO_REAL_NUMBERS = {
    "None": (None, r"must hold real numbers, and it is None"),
    "a file name": ("data.csv", r"must hold real numbers, and it is 'data\.csv'"),
    "strings": ([["a", "b"]], r"must hold real numbers, and it has dtype <U1"),
    "None inside": ([[1.0, None]], r"must hold real numbers, and it has dtype object"),
    "objects": (OBJECTS, r"must hold real numbers, and it has dtype object"),
    "a dictionary": ({"a": 1}, r"must hold real numbers, and it has dtype object"),
    "a generator": ((x for x in X), r"must hold real numbers, and it has dtype object"),
    "dates": (np.zeros((2, 2), dtype="M8[D]"), r"must hold real numbers, and it has dtype datetime64\[D\]"),
    "complex": (X + 1j, r"must hold real numbers, and it has dtype complex128"),
    "ragged": ([[1.0, 2.0], [3.0]], r"must be an array of numbers with rows of equal length, and this list could not"),
    "masked": (MASKED, r"must have no masked entries, and 2 of its 8 are masked"),
}
NO_FINITE_MATRICES = {
    "NaN": (np.where(X, X, NAN), r"must be finite, and 6 of its 8 entries are NaN or infinite"),
    "infinity": (np.where(X, INF, X), r"must be finite, and 2 of its 8 entries are NaN or infinite"),
    "no rows": (np.ones((0, 2)), r"is empty \(shape \(0, 2\)\), and at least one entry is needed"),
    "no columns": (np.ones((4, 0)), r"is empty \(shape \(4, 0\)\), and at least one entry is needed"),
}
NO_FINITE_VECTORS = {
    "NaN": ([0.0, NAN], r"must be finite, and 1 of its 2 entries are NaN or infinite"),
    "infinity": ([0.0, -INF], r"must be finite, and 1 of its 2 entries are NaN or infinite"),
    "empty": ([], r"is empty \(shape \(0,\)\), and at least one entry is needed"),
}
NO_MATRICES = {
    "a number": (3.0, r"must be a matrix, and it has shape \(\)"),
    "a vector": ([1.0, 2.0], r"must be a matrix, and it has shape \(2,\)"),
    "three axes": (np.ones((1, 4, 2)), r"must be a matrix, and it has shape \(1, 4, 2\)"),
}
NO_NUMBERS = {
    "None": (None, r"must be a number, and it is None"),
    "a string": ("big", r"must be a number, and it is 'big'"),
    "a list": ([1.0, 2.0], r"must be a number, and it has shape \(2,\)"),
    "complex": (1j, r"must hold real numbers, and it has dtype complex128"),
    "NaN": (NAN, r"must be finite"),
    "infinity": (INF, r"must be finite"),
}
NO_COUNTS = {
    "None": (None, r"must be a whole number, and it is None"),
    "a float": (2.5, r"must be a whole number, and it is 2\.5"),
    "a string": ("2", r"must be a whole number, and it is '2'"),
    "zero": (0, r"must be at least 1, and it is 0"),
    "negative": (-3, r"must be at least 1, and it is -3"),
}
NO_SEEDS = {
    "None": (None, r"None"),
    "a string": ("x", r"'x'"),
    "negative": (-1, r"-1"),
    "a float": (1.5, r"1\.5"),
    "a list": ([1, 2], r"\[1, 2\]"),
    "the old kind": (np.random.RandomState(0), r"RandomState"),
}

# Name of the argument in the message → who takes it.
TAKES_A_MATRIX = {
    "inputs": from_data,
    "sigma_yx": from_correlations,
    "sigma_xx": lambda bad: from_correlations(sigma_xx=bad),
    "sigma_yy": lambda bad: from_correlations(sigma_yy=bad),
    "weights[1]": network,
    "teacher": lambda bad: teacher(matrix=bad),
}
TAKES_A_VECTOR = {
    "beta": neuron,
    "strengths": lambda bad: aligned(strengths=bad),
    "lam": lambda bad: aligned(lam=bad),
    "rates": lambda bad: problem(rates=bad),
    "times": solve,
}
TAKES_A_NUMBER = {
    "scale": lambda bad: zero_balanced(scale=bad),
    "lam": lambda bad: tilted(lam=bad),
    "delta": lambda bad: neuron(delta=bad),
    "weight_decay": lambda bad: problem(weight_decay=bad),
    "perturbation": lambda bad: solve(on_separatrix="perturb", perturbation=bad),
    "split": lambda bad: lr.tasks.semantic_hierarchy(split=bad),
    "flip": lambda bad: tree(flip=bad),
    "noise": lambda bad: teacher(noise=bad),
}
TAKES_A_COUNT = {
    "each of sizes": lambda bad: zero_balanced(sizes=(2, bad, 2)),
    "hidden": lambda bad: aligned(hidden=bad),
    "features": lambda bad: tree(features=bad),
    "d_in": lambda bad: regression(d_in=bad),
    "d_out": lambda bad: regression(d_out=bad),
    "samples": lambda bad: regression(samples=bad),
}
TAKES_A_SEED = {
    "zero_balanced": zero_balanced,
    "lambda_balanced": tilted,
    "gaussian": lambda bad: lr.inits.gaussian(bad, sizes=(2, 2), scale=1.0),
    "orthogonal": lambda bad: lr.inits.orthogonal(bad, sizes=(2, 2), scale=1.0),
    "aligned": aligned,
    "prior_knowledge": lambda bad: lr.inits.prior_knowledge(bad, TASK, hidden=3),
    "binary_tree": tree,
    "random_regression": regression,
    "linear_teacher": teacher,
}
TAKES_A_TASK = {
    "aligned": lambda bad: aligned(task=bad),
    "prior_knowledge": lambda bad: lr.inits.prior_knowledge(0, bad, hidden=3),
    "reversal": lr.tasks.reversal,
    "Problem": problem,
}


NONE_IS_THE_DEFAULT = ("sigma_xx", "sigma_yy", "rates")


def crossed(takers, bad):
    return [
        (f"{name}, {kind}", f"^{re.escape(name)} {sentence}", take, value)
        for name, take in takers.items()
        for kind, (value, sentence) in bad.items()
        if not (value is None and name in NONE_IS_THE_DEFAULT)
    ]


def check(sentence, call, *arguments):
    with pytest.raises(lr.InvalidInput) as raised:
        call(*arguments)
    message = str(raised.value)
    assert re.search(sentence, message), message
    assert re.fullmatch(r"(?:[^.\n]|\.(?=[\w]))+\.", message), f"not one sentence: {message}"


@pytest.mark.parametrize(
    "takers, values",
    [
        (TAKES_A_MATRIX, NO_REAL_NUMBERS | NO_FINITE_MATRICES | NO_MATRICES),
        (TAKES_A_VECTOR, NO_REAL_NUMBERS | NO_FINITE_VECTORS),
        (TAKES_A_NUMBER, NO_NUMBERS),
        (TAKES_A_COUNT, NO_COUNTS),
    ],
    ids=["no matrix", "no vector", "no number", "no count"],
)
def test_what_is_none_of_what_is_taken(takers, values, subtests):
    for case, sentence, call, value in crossed(takers, values):
        with subtests.test(case):
            check(sentence, call, value)


def test_what_is_no_seed(subtests):
    for taker, call in TAKES_A_SEED.items():
        for kind, (value, came) in NO_SEEDS.items():
            with subtests.test(f"{taker}-{kind}"):
                must = r"^rng must be a seed \(a whole number, not negative\) or a numpy Generator"
                check(f"{must}, and it is {came}", call, value)


def test_what_is_no_task(subtests):
    for taker, call in TAKES_A_TASK.items():
        for value in (None, np.eye(8), "kingdom"):
            with subtests.test(f"{taker}-{type(value).__name__}"):
                check(rf"^task must be a lazyrich Task, and it is a {type(value).__name__}", call, value)


# The sentence: who says it.
SENTENCES = {
    # Task
    r"^targets must have one row per row of inputs \(4\), .* 3;": lambda: from_data(targets=Y[:3]),
    r"^inputs must not all be zero": lambda: from_data(np.zeros((4, 2))),
    r"^sigma_xx must not be zero": lambda: from_correlations(np.zeros((2, 3)), sigma_xx=np.zeros((3, 3))),
    r"^inputs .* overflow": lambda: from_data(1e200 * X),
    r"^reduction must be one of 'mean', 'sum', and it is 'max'": lambda: from_data(reduction="max"),
    r"and it is 'means' \(did you mean 'mean'\?\)": lambda: from_data(reduction="means"),
    r"^reduction must be one of 'mean', 'sum', and it is None": lambda: from_data(reduction=None),
    r"^sigma_xx must have shape 3 × 3, .* 2 × 2": lambda: from_correlations(sigma_xx=np.eye(2)),
    r"^sigma_xx must have shape 3 × 3, .* 3 × 2": lambda: from_correlations(sigma_xx=np.ones((3, 2))),
    r"^sigma_xx must be symmetric, and it differs from its transpose by 1": lambda: from_correlations(
        sigma_xx=np.eye(3) + np.eye(3, k=1)
    ),
    r"^sigma_xx must have no negative eigenvalue, and its least is -0\.5": lambda: from_correlations(
        sigma_xx=np.diag([1.0, 1.0, -0.5])
    ),
    r"^sigma_yx must vanish on the directions where sigma_xx does": lambda: from_correlations(
        sigma_xx=np.diag([1.0, 1.0, 0.0])
    ),
    r"^sigma_yy must have shape 2 × 2, .* 3 × 3": lambda: from_correlations(sigma_yy=np.eye(3)),
    r"^sigma_yy must be at least Σyx Σxx⁻¹ Σyxᵀ, and .* too small": lambda: from_correlations(sigma_yy=0.1 * np.eye(2)),
    r"^sigma_yy must be at least Σyx Σxx⁻¹ Σyxᵀ, .* 3\.09 too small": lambda: from_correlations(
        sigma_yy=np.diag([0.0, 100.0])
    ),
    r"^targets must hold real numbers, and it is None": lambda: from_data(targets=None),
    r"^targets must hold real numbers, and it has dtype <U1": lambda: from_data(targets=["a"] * 4),
    r"^targets must be finite, and 1 of its 4": lambda: from_data(targets=[1.0, NAN, 0.0, 2.0]),
    r"^targets must be a matrix, and it has shape \(1, 4, 2\)": lambda: from_data(targets=np.ones((1, 4, 2))),
    r"^targets must have one row per row of inputs \(4\), and it has 2": lambda: from_data(targets=[1.0, 2.0]),
    r"^labels must be a vector with one label per sample, .* \(4, 3\)": lambda: lr.Task.from_labels(X, Y),
    r"^labels must be whole numbers or words, .* fractions .*: try Task\.from_data": lambda: lr.Task.from_labels(
        X, [0.5, 1, 2, 3]
    ),
    r"^labels must be whole numbers or words, and it has dtype object": lambda: lr.Task.from_labels(
        X, np.array([None, 1, 2, 3])
    ),
    r"^labels must be among the classes, and 7 is not": lambda: lr.Task.from_labels(X, [0, 1, 7, 0], classes=range(3)),
    r"^classes must be two or more, each named once, and they are \[1\]": lambda: lr.Task.from_labels(X, [1] * 4),
    r"^classes must be two or more, each named once": lambda: lr.Task.from_labels(X, [1] * 4, classes=[1, 1, 2]),
    r"^targets must have one row per row of inputs \(4\), and it has 3": lambda: lr.Task.from_labels(X, [0, 1, 0]),
    r"^task must hold samples to be centred, .*: try Task\.from_data": lambda: TASK_OF_CORRELATIONS.centred(),
    r"^task must hold samples where the network has biases, .*: try Task\.from_data": lambda: lr.Problem(
        TASK_OF_CORRELATIONS, network(biases=[[0.0, 0.0], [0.0]])
    ),
    r"^task must be whitened before .*: try Problem\(task\.whitened\(\), network\)": lambda: (
        from_data().with_constant().whitened()
    ),
    # biases
    r"^biases must hold one vector per layer \(2\), and it holds 1: try \[b1, b2\]": lambda: network(
        biases=[[0.0, 0.0]]
    ),
    r"^biases must hold one vector per layer \(2\), and it is 1\.0": lambda: network(biases=1.0),
    r"^biases\[0\] must be a vector, and it has shape \(1, 2\)": lambda: network(biases=[[[0.0, 0.0]], [0.0]]),
    r"^biases\[1\] must hold one number per output of weights\[1\] \(1\), and it holds 2": lambda: network(
        biases=[[0.0, 0.0], [0.0, 0.0]]
    ),
    r"^biases\[1\] must be finite": lambda: network(biases=[[0.0, 0.0], [NAN]]),
    r"^x must be one input of 3 numbers, .* \(4,\)": lambda: network(biases=[[0.0, 0.0], [0.0]])(np.ones(4)),
    r"^state_dict must map names to arrays, and it is \[\]: try model\.state_dict\(\)": lambda: from_state_dict([]),
    r"^state_dict must hold the weights of layers, and it holds nothing": lambda: from_state_dict({}),
    r"^b in state_dict has shape \(3,\), and layers are matrices .* layers= names those": lambda: from_state_dict(
        {"a": W1, "b": np.ones(3)}
    ),
    r"^state_dict must hold a bias for every layer or for none, .* W2: try zeros\(1\)": lambda: from_state_dict(
        {"W1": W1, "W2": W2, "b1": np.ones(2)}
    ),
    r"^the layers of state_dict fit in more than one order \(a, b\): layers=\[a,b\] names": lambda: from_state_dict(
        {"a": np.eye(2), "b": np.eye(2)}
    ),
    r"^biases belong to a network that has them": lambda: lr.Trajectory.from_weights(
        PROBLEM, [0.0], [W[None] for W in START.weights], biases=[]
    ),
    # balanced
    r"^network must be a lazyrich Network, and it is a list": lambda: lr.balanced([W1, W2]),
    r"^network must have two linear layers or more, .* 3-2-1, relu: try": lambda: lr.balanced(
        network(activation="relu")
    ),
    r"^network must have two linear layers or more, .* 3-2, linear: try": lambda: lr.balanced(lr.Network([W1])),
    r"^function must be 8 × 8 .*, and it has shape \(3, 8\)": lambda: TASK.loss(np.ones((3, 8))),
    r"^function must be 8 × 8 .*, and it has shape \(8,\)": lambda: TASK.loss(np.ones(8)),
    # named tasks
    r"^levels must be a whole number, and it is 2\.5": lambda: tree(levels=2.5),
    r"^levels must be at least 0, and it is -1": lambda: tree(levels=-1),
    r"^levels must be at most 14 \(16,384 items\), and it is 15": lambda: tree(levels=15),
    r"^flip must be a probability between 0 and 1, and it is 1\.5": lambda: tree(flip=1.5),
    r"^samples must be at least d_in \(4\) for whitened inputs, and it is 3": lambda: regression(d_in=4, samples=3),
    r"^samples must be at least d_in \(2\) .* it is 1": lambda: teacher(samples=1),
    r"^noise must be at least 0, and it is -1": lambda: teacher(noise=-1),
    # Network
    r"^weights must be a list of matrices, one per layer, .* it is empty": lambda: lr.Network([]),
    r"^weights must be a list of matrices, one per layer, .* it is a NoneType": lambda: lr.Network(None),
    r"^weights must be a list of matrices, one per layer, .* it is a dict": lambda: lr.Network({"a": W1}),
    r"^weights must be a list of matrices, one per layer, .* it is a str": lambda: lr.Network("W.npz"),
    r"^weights must be a list of matrices, one per layer, .*: try \[W\]": lambda: lr.Network(W1),
    r"^weights\[0\] must reach 1e-153, .*, and its largest entry is 1e-160: try larger weights, or zeros": lambda: (
        lr.Network([1e-160 * W1, W2])
    ),
    r"^weights\[1\] must take the 2 outputs of weights\[0\], and it has shape 2 × 3; layers go from input": lambda: (
        lr.Network([W1, W1])
    ),
    r"^activation must be one of 'linear', 'relu', 'tanh', and it is 'sigmoid'": lambda: network(activation="sigmoid"),
    r"it is 'rleu' \(did you mean 'relu'\?\)": lambda: network(activation="rleu"),
    r"it is 'ReLU' \(did you mean 'relu'\?\)": lambda: network(activation="ReLU"),
    r"^activation, as the slope .*, must lie between 0 and 1, and it is 2": lambda: network(activation=2),
    r"must lie between 0 and 1, and it is -0\.1": lambda: network(activation=-0.1),
    r"^activation must be .*'linear', 'relu', 'tanh'.* it is None": lambda: network(activation=None),
    r"^activation must be .*'tanh'.* it is <ufunc 'tanh'>": lambda: network(activation=np.tanh),
    r"^function is the matrix of a linear network, and this one is .*0\.1": lambda: network(activation=0.1).function,
    # starts
    r"^sizes must list the layer widths, such as .* it is None": lambda: zero_balanced(sizes=None),
    r"^sizes must list the layer widths, such as .* it is 3": lambda: zero_balanced(sizes=3),
    r"^sizes must list the layer widths, such as .* it is '232'": lambda: zero_balanced(sizes="232"),
    r"^sizes must list the layer widths, such as .* it is b'232'": lambda: zero_balanced(sizes=b"232"),
    r"^sizes must name input and output at least, .* it is \(\)": lambda: zero_balanced(sizes=()),
    r"^sizes must name input and output at least, .* it is \(2,\)": lambda: zero_balanced(sizes=(2,)),
    r"^sizes must name a hidden layer between inputs and outputs, and it is \(2, 2\)": lambda: tilted(sizes=(2, 2)),
    r"^scale must be above 0, and it is 0": lambda: zero_balanced(scale=0),
    r"^scales must be two numbers, c1 and c2, and it is 5: try": lambda: lr.inits.orthogonal(
        0, sizes=(2, 4, 2), scales=5
    ),
    r"^scales\[0\] must be at least 0": lambda: lr.inits.orthogonal(0, sizes=(2, 4, 2), scales=(-1, 1)),
    r"^orthogonal needs scale or scales, and none": lambda: lr.inits.orthogonal(0, sizes=(2, 4, 2)),
    r"^orthogonal needs .* both are given: try": lambda: lr.inits.orthogonal(
        0, sizes=(2, 4, 2), scale=1, scales=(1, 1)
    ),
    r"^sizes must have .* try 4 or more": lambda: lr.inits.orthogonal(0, sizes=(2, 3, 2), scales=(1, 1)),
    r"^scale must be above 0, and it is -1": lambda: lr.inits.orthogonal(0, sizes=(2, 2), scale=-1),
    r"^lam = 1 needs a hidden layer no wider than the outputs \(2\), .* 3 units.* try .* hidden ≤ 2": lambda: tilted(
        sizes=(5, 3, 2)
    ),
    r"^lam = -1 needs a hidden layer no wider than the inputs \(2\), .* 3 units.* try .* hidden ≤ 2": lambda: tilted(
        sizes=(2, 3, 5), lam=-1.0
    ),
    r"^strengths must be one number or one per mode \(8\), and it has shape \(2,\)": lambda: aligned(
        strengths=[1.0, 2.0]
    ),
    r"^lam must be one number or one per mode \(8\), .* shape \(2,\)": lambda: aligned(lam=[1.0, 2.0]),
    r"^lam must be one number or one per mode \(8\), or a row per pair of layers \(2\) .* \(3, 1\)": lambda: aligned(
        hidden=(9, 9), lam=[[1.0], [2.0], [3.0]]
    ),
    r"^lam must be one number or one per pair of neighbouring layers \(2\), and it has 3": lambda: tilted(
        sizes=(2, 2, 2, 2), lam=[1.0, 2.0, 3.0]
    ),
    r"^lam = 1, 1 has no solution in layers of 2, 3, 3, 2 units: .* in W3; try lam = 0, equal": lambda: tilted(
        sizes=(2, 3, 3, 2)
    ),
    r"^hidden must be at least 1, and it is 0": lambda: aligned(hidden=(9, 0)),
    r"^beta must be a vector, and it has shape \(1, 2\)": lambda: neuron([[1.0, 2.0]]),
    r"^beta must be a vector, and it has shape \(\)": lambda: neuron(1.0),
    r"^beta must not be zero when delta is negative": lambda: neuron([0.0], delta=-1),
    r"^sign must be 1 or -1, .* and it is 0": lambda: neuron(sign=0),
    r"^sign must be 1 or -1, .* and it is '\+'": lambda: neuron(sign="+"),
    r"^sign must be 1 or -1, .* and it is array\(\[ 1, -1\]\)": lambda: neuron(sign=np.array([1, -1])),
    # Problem
    r"^network must be a lazyrich Network, and it is a list: try Network\(\[W1, W2\]\)": lambda: problem(
        start=[W1, W2]
    ),
    r"^task must be a lazyrich Task, and it is a Network": lambda: lr.Problem(START, TASK),
    r"^network must map the task's 8 inputs to its 8 outputs, and it maps 4 to 8": lambda: problem(
        start=lr.inits.gaussian(0, sizes=(4, 3, 8), scale=1.0)
    ),
    r"^network must map the task's 8 inputs to its 8 outputs, and it maps 8 to 4": lambda: problem(
        start=lr.inits.gaussian(0, sizes=(8, 4), scale=1.0)
    ),
    r"^rates must hold one number per layer \(2\), and it has shape \(3,\)": lambda: problem(rates=[1, 2, 3]),
    r"^rates must hold one number per layer \(2\), .* \(2, 1\)": lambda: problem(rates=np.ones((2, 1))),
    r"^rates must be above 0, and the least is 0": lambda: problem(rates=[1, 0]),
    r"^rates must be above 0, and the least is -0\.1": lambda: problem(rates=-0.1),
    r"^weight_decay must be at least 0, and it is -1": lambda: problem(weight_decay=-1),
    # losses
    r"^loss must be one of 'squared', 'cross_entropy', and it is 'crossentropy' \(did you mean 'cross_entropy'\?\)": (
        lambda: classified(loss="crossentropy")
    ),
    r"^loss must be one of 'squared', 'cross_entropy', or a function of outputs and targets .* and it is 2": (
        lambda: classified(loss=2)
    ),
    r"^labels must be among the classes, and 3 is not": lambda: lr.Task.from_labels(X, [0, 1, 2, 3], classes=range(3)),
    r"^task must hold samples where the loss is cross_entropy, and it holds correlations only.*from_data": lambda: (
        problem(lr.Task.from_correlations(np.eye(8)), loss="cross_entropy")
    ),
    r"^targets must be probabilities for loss='cross_entropy', each row with the sum 1, and row 2 sums to 0\.9": (
        lambda: classified([[1, 0, 0], [0, 0.5, 0.5], [0.4, 0.5, 0], [2, 0, 0]])
    ),
    r"^targets must be probabilities for loss='cross_entropy', and row 1 has -0\.5: try Task\.from_labels": (
        lambda: classified([[1, 0, 0], [1.5, -0.5, 0], [0, 1, 0], [0, 1, 0]])
    ),
    r"^loss='cross_entropy' needs an output for each of two classes or more, and there is 1: try": lambda: classified(
        [[1.0]] * 4
    ),
    r"^loss must give one finite number per sample, an array of shape \(4,\), .* gives one of shape \(\)": (
        lambda: classified(loss=lambda f, y: ((f - y) ** 2).mean())
    ),
    r"^loss must give one finite number per sample, .* and <lambda> is NaN or infinite for 4 of them at the net": (
        lambda: classified(loss=lambda f, y: (f - y).sum(-1) * NAN)
    ),
    r"^loss must give one finite number .* <lambda> has a gradient that is NaN or infinite for 4 of them at": lambda: (
        classified(loss=lambda f, y: ((f - f) ** 2).sum(-1) ** 0.5)  # the root has no derivative at 0
    ),
    r"^loss must be a function of outputs and targets \(samples × outputs\) written in JAX, and .* TypeError": lambda: (
        classified(loss=lambda f: f)
    ),
    r"^loss must be a function .* and <lambda> or its gradient raised TracerArrayConversionError on": lambda: (
        classified(loss=lambda f, y: np.sum(np.asarray(f) - y, axis=1))
    ),
    r"^loss must have a finite gradient where all outputs are 0, .* and <lambda> has none: try lr\.descend": lambda: (
        classified(loss=lambda f, y: ((f - y) ** 2).sum(-1) + (f**2).sum(-1) ** 0.5).facts
    ),
    # solve
    r"^problem must be a lazyrich Problem, and it is a Task": lambda: solve(of=TASK),
    r"^times must be sorted, and entry 2 \(2\) is below entry 1 \(3\): try np\.sort\(times\)": lambda: solve(
        [0.0, 3.0, 2.0]
    ),
    r"^times must not be negative, and the least is -1": lambda: solve([-1.0, 0.0]),
    r"^times must be a vector, and it has shape \(2, 2\)": lambda: solve(np.ones((2, 2))),
    r"^method must be one of 'shallow', .*'family', 'deep_modes', and it is 'xyz'": lambda: solve(method="xyz"),
    r"and it is 'ricatti' \(did you mean 'riccati'\?\)": lambda: solve(method="ricatti"),
    r"^method must be one of .*, and it is 2": lambda: solve(method=2),
    r"^on_separatrix must be one of 'stay', 'perturb', and it is 'pertrub' \(did you mean 'perturb'\?\)": lambda: solve(
        on_separatrix="pertrub"
    ),
    r"^perturbation must be above 0, and it is -1": lambda: solve(on_separatrix="perturb", perturbation=-1),
    r"^perturbation must be below 1, a fraction of the weights, and it is 1": lambda: solve(
        on_separatrix="perturb", perturbation=1
    ),
    r"^on_separatrix='perturb' works with the method riccati, and method is 'modes'": lambda: solve(
        of=problem(start=aligned()), on_separatrix="perturb", method="modes"
    ),
    r"^device_arrays works with the method riccati, and this problem is solved by modes": lambda: solve(
        np.ones(2), of=problem(start=aligned()), method="modes", device_arrays=True
    ),
    # Trajectory.network
    r"^index must lie between -2 and 1, and it is 2": lambda: solve().network(2),
    r"^index must lie between -2 and 1, and it is -3": lambda: solve().network(-3),
    r"^index must be a whole number, and it is 1\.0": lambda: solve().network(1.0),
    r"^index must be a whole number, and it is 'last'": lambda: solve().network("last"),
    r"^index must be a whole number, and it is None": lambda: solve().network(None),
    r"^index must be a whole number, and it is \[0\]": lambda: solve().network([0]),
    r"^index must be a whole number, and it is nan": lambda: solve().network(NAN),
    r"^biases must be True or False, and it is 'no'": lambda: lr.inits.pytorch(0, sizes=(3, 4, 2), biases="no"),
    r"^labels must be finite, and 1 of its 3 entries are NaN": lambda: lr.Task.from_labels(np.eye(3), [NAN, 0, 1]),
    r"^labels must be finite, and 2 of its 3 .* infinite": lambda: lr.Task.from_labels(np.eye(3), [np.inf, 0, -np.inf]),
    r"^classes must be a list of labels, and it is 2.5: try": lambda: lr.Task.from_labels(
        np.eye(2), [0, 1], classes=2.5
    ),
    r"^classes must be a list of labels, and it is 'ab'": lambda: lr.Task.from_labels(np.eye(2), [0, 1], classes="ab"),
    r"^classes must be labels, numbers or words, and they are": lambda: lr.Task.from_labels(
        np.eye(2), [0, 1], classes=[[0], [1]]
    ),
    r"^layers must be a list of names, .* and it is '0.weight': try": lambda: lr.Network.from_state_dict(
        {"0.weight": np.eye(2)}, layers="0.weight"
    ),
    r"^layers must be a list of names, .* and it is 5: try": lambda: lr.Network.from_state_dict(
        {"0.weight": np.eye(2)}, layers=5
    ),
    r"^a state_dict has no place for an output multiplier, and this network has 5: try": lambda: lr.Network(
        [np.eye(2), np.eye(2)], multiplier=5.0
    ).state_dict(),
    r"^network must have no output multiplier to be balanced, .* its multiplier is 5: try": lambda: lr.balanced(
        lr.Network([np.eye(2), np.eye(2)], multiplier=5.0)
    ),
}


@pytest.mark.filterwarnings("error")
def test_one_sentence_says_what_would_do(subtests):
    for sentence, call in SENTENCES.items():
        with subtests.test(sentence):
            check(sentence, call)


def start(kind, sizes=(8, 14, 8), **options):
    return getattr(lr.inits, kind)(0, sizes=sizes, scale=0.3, **options)


# id: (problem, method asked for, what the message must say)
NO_EXACT_SOLUTION = {
    "unbalanced": (
        lambda: problem(start=start("gaussian")),
        None,
        [r"riccati: it needs layers with W2ᵀW2 − W1W1ᵀ = λI, .* off by 0\.\d+", r"lr\.flow\(problem, times\)"],
    ),
    "relu": (
        lambda: problem(start=start("gaussian", activation="relu")),
        None,
        [r"linear networks, and this one is relu", r"lr\.descend\(problem, "],
    ),
    "leaky": (
        lambda: problem(start=start("gaussian", activation=0.1)),
        None,
        [r"linear networks, and this one is leaky ReLU 0\.1", r"lr\.descend\(problem, "],
    ),
    "tanh": (
        lambda: problem(start=start("gaussian", activation="tanh")),
        "riccati",
        [r"linear networks, and this one is tanh", r"lr\.descend\(problem, "],
    ),
    "deep": (
        lambda: problem(start=start("zero_balanced", sizes=(8, 9, 9, 8))),
        None,
        [
            r"deep_modes: it needs an initialisation aligned with the task in every layer, .* coupled by (0\.\d+|1);",
            r"lr\.flow\(problem, times\)",
        ],
    ),
    "correlated inputs": (
        lambda: problem(
            lr.Task.from_correlations(np.ones((1, 2)), np.diag([1.0, 3.0])), start("zero_balanced", (2, 3, 1))
        ),
        None,
        [r"riccati: it needs whitened inputs \(Σxx = c·I\), and these are off by 0\.5", r"task\.whitened\(\)"],
    ),
    "weight decay": (
        lambda: problem(start=start("lambda_balanced", (8, 3, 8), lam=2.0), weight_decay=0.1),
        None,
        [r"riccati: with weight decay it needs λ = 0, and λ is 2", r"lr\.flow\(problem, times\)"],
    ),
}


@pytest.mark.parametrize("case", NO_EXACT_SOLUTION)
def test_no_exact_solution_names_the_condition_the_amount_and_the_way_out(case):
    make, method, parts = NO_EXACT_SOLUTION[case]
    with pytest.raises(lr.NoExactSolution) as raised:
        lr.solve(make(), [0.0, 1.0], method=method)
    message = str(raised.value)
    assert all(re.search(part, message) for part in parts), message
    assert "\n" not in message and re.search(r"[^.]\.$", message), message


@pytest.mark.parametrize("ask", [lr.fate, lambda problem: lr.solve(problem, [0.0, np.inf])])
def test_where_no_theorem_applies_the_call_for_any_network_is_named_first(ask):
    with pytest.raises(lr.NoExactSolution) as raised:
        ask(problem(start=start("gaussian")))
    way_out = str(raised.value).rpartition(": try ")[2]
    assert re.match(r"lr\.predict\(problem\), which integrates .*lr\.flow\(problem, times\).*lr\.descend", way_out), (
        way_out
    )


@pytest.mark.parametrize("flow", [lr.flow, lambda problem, times: lr.batch.flow([problem], times)])
def test_a_flow_cannot_be_integrated_for_ever(flow):
    sentence = (
        r"^times must be finite, since flow integrates and would never arrive, and the last is inf: try "
        r"lr\.solve\(problem, times\) or lr\.fate\(problem\), which know the end .* or lr\.predict\(problem\)"
    )
    with pytest.raises(lr.InvalidInput, match=sentence):
        flow(PROBLEM, [0.0, 1.0, np.inf])


def test_the_methods_for_this_depth_come_first():
    with pytest.raises(lr.NoExactSolution) as raised:
        lr.solve(problem(start=start("gaussian")), [1.0])
    order = re.findall(r"(shallow|deep_modes|modes|riccati): it", str(raised.value))
    assert sorted(order[:2]) == ["modes", "riccati"]


def test_a_method_that_was_asked_for_and_does_not_apply_does_not_hide_the_one_that_does():
    with pytest.raises(lr.NoExactSolution) as raised:
        lr.solve(PROBLEM, [1.0], method="shallow")
    message = str(raised.value)
    assert re.search(r"shallow.* it solves one layer, and this network has 2", message), message
    assert "no exact solution applies" not in message and "riccati" in message, message


def test_bad_input_is_a_value_error():
    """So that code which knows nothing of lazyrich catches it as what it is."""
    assert issubclass(lr.InvalidInput, ValueError) and issubclass(lr.NoExactSolution, ValueError)


def test_arrays_that_cannot_be_read_keep_their_name():
    class Torn:
        """A tensor that its library cannot hand over."""

        dtype, shape = "float64", (2, 2)
        detach = cpu = lambda self: self

        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("lost the device. Sorry.")

    check(r"^inputs must be an array of numbers .* this Torn could not be read as one", from_data, Torn())
    check(r"^weights\[1\] must be an array of numbers .* this Torn could not be read as one", network, Torn())
