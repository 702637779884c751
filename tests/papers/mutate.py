"""Broken versions of a formula: each has one sign, factor, number, index, transpose or case changed.

A check that lets all of them pass checks nothing. Oracles and draws are never broken: they judge.
"""

from __future__ import annotations

import ast
import copy
import inspect
import math
import signal
import sys
import textwrap
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lazyrich.papers import Claim

_OTHER = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
_OTHER |= {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
_JUDGES = (
    "lazyrich._check",
    "lazyrich.papers.base.draws",
    "lazyrich.papers.kunin2024.claims._one_neuron",
    "lazyrich.papers.kunin2024.claims.measures",
    "lazyrich.papers.base.claim",
    "lazyrich.papers.notes.claims.passages",
    "lazyrich.papers.base.oracles",
    "lazyrich.papers.base.searches",
)
_MOST = 12  # functions under a check


class _Late(BaseException):
    """Not an Exception: no check may catch it."""


def draw(check: Callable, identifier: str, seed: int) -> float:
    """The error of a check on a draw that `lazyrich claims` makes."""
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        return float(check(np.random.default_rng([zlib.crc32(identifier.encode()), seed])))


def noticed(check: Callable, claim: Claim, seeds: int, seconds: float) -> tuple[int, bool] | None:
    """The first of so many draws on which a check does not pass, and whether it gives a number there.

    None where all pass. A check that takes too long, as a broken flow that blows up may, counts as no number on draw 0.
    """
    kept = signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)  # of the processor: others may be using it as well
    try:
        for seed in range(seeds):
            found = _error_or_nan(check, claim.identifier, seed)
            if not found <= claim.tolerance:
                return seed, not math.isnan(found)
    except _Late:
        return 0, False
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, kept)
    return None


def _error_or_nan(check: Callable, identifier: str, seed: int) -> float:
    try:
        return draw(check, identifier, seed)
    except Exception:  # of any kind: a broken formula may fail in any way
        return math.nan


def _stop(*_: Any) -> None:
    raise _Late


def parts(check: Callable) -> list[Callable]:
    """What a check is made of: itself, and the functions of lazyrich that it names, with those that these name."""
    found: dict[Any, None] = {}
    waiting = [check]
    while waiting and len(found) < _MOST:
        function = inspect.unwrap(waiting.pop(0))
        if function in found:
            continue
        found[function] = None
        scope = vars(sys.modules[function.__module__])
        for node in ast.walk(_tree(function)):
            if isinstance(node, ast.Name) and node.id != "_":
                thing = scope.get(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                thing = getattr(scope.get(node.value.id), node.attr, None)
            else:
                continue
            if (
                inspect.isfunction(thing)
                and thing.__module__.startswith("lazyrich.")
                and thing.__module__ not in _JUDGES
            ):
                waiting.append(thing)
    return list(found)


def mutants(function: Callable) -> Iterator[tuple[str, Callable]]:
    """Each with what was changed, in words."""
    tree = _tree(function)
    for number in range(len(_sites(tree))):
        broken = copy.deepcopy(tree)
        site = _sites(broken)[number]
        before = ast.unparse(site)
        _break(site)
        yield f"{function.__name__}: {before} → {ast.unparse(site)}", _compiled(broken, function)


def rewritten(function: Callable, old: str, new: str) -> Callable:
    """With one expression of its source exchanged."""
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) == 1, f"{old!r} is there {source.count(old)} times in {function.__name__}"
    tree = ast.parse(source.replace(old, new))
    tree.body[0].decorator_list = []
    return _compiled(tree, function)


@contextmanager
def replaced(check: Callable, function: Callable, by: Callable) -> Iterator[Callable]:
    """The check, for a while with `by` wherever it looks for `function`."""
    if inspect.unwrap(check) is function:
        yield by
        return
    holders = [module for name, module in sys.modules.items() if name.startswith("lazyrich.")]
    holders += [thing for module in holders for thing in vars(module).values() if isinstance(thing, Claim)]
    known = [  # also under another name, a paper's for a function of the library, or as the check of a claim
        (holder, name, kept)
        for holder in holders
        for name, kept in list(vars(holder).items())
        if inspect.isfunction(kept) and inspect.unwrap(kept) is function
    ]
    try:
        for holder, name, _ in known:
            setattr(holder, name, by)
        yield check
    finally:
        for holder, name, kept in known:
            setattr(holder, name, kept)


def _compiled(tree: ast.Module, function: Callable) -> Callable:
    scope = vars(sys.modules[function.__module__])
    kept = scope.get(function.__name__)
    made: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(tree), f"<{function.__name__}>", "exec"), scope, made)
    assert scope.get(function.__name__) is kept
    return made[function.__name__]


def _tree(function: Callable) -> ast.Module:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    tree.body[0].decorator_list = []
    return tree


def _sites(tree: ast.Module) -> list[ast.AST]:
    """What can be broken, except within a draw: rng.uniform(1, 2), draws.target(rng, 3, 4)."""
    drawn = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in ("rng", "draws")
        for inner in ast.walk(node)
    }
    return [node for node in ast.walk(tree) if _can_break(node) and node not in drawn]


def _can_break(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return type(node.op) in (*_OTHER, ast.MatMult)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant)
    if isinstance(node, ast.Compare):
        return type(node.ops[0]) in _OTHER
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    return isinstance(node, ast.IfExp) or (isinstance(node, ast.Attribute) and node.attr == "T")


def _break(node: Any) -> None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        node.left, node.op, node.right = copy.copy(node), ast.Mult(), ast.Constant(2.0)
    elif isinstance(node, ast.BinOp):
        node.op = _OTHER[type(node.op)]()
    elif isinstance(node, ast.UnaryOp):
        node.op = ast.UAdd()
    elif isinstance(node, ast.Compare):
        node.ops[0] = _OTHER[type(node.ops[0])]()
    elif isinstance(node, ast.IfExp):
        node.body, node.orelse = node.orelse, node.body
    elif isinstance(node, ast.Attribute):
        node.attr = "real"  # of a real array, the array itself: a transpose is left out
    else:
        node.value = 2 * node.value if node.value else 1
