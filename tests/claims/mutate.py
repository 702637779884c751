"""Broken versions of a formula: each has one sign, factor, number or index changed.

A check that lets all of them pass checks nothing. Oracles and draws are never broken: they judge.
"""

from __future__ import annotations

import ast
import copy
import inspect
import math
import multiprocessing
import sys
import textwrap
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from typing import Any

import numpy as np

_OTHER = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
_OTHER |= {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
_JUDGES = (
    "lazyrich._check",
    "lazyrich.claims.draws",
    "lazyrich.claims.kunin2024._one_neuron",
    "lazyrich.claims.kunin2024.measures",
    "lazyrich.claims.ledger",
    "lazyrich.claims.notes.passages",
    "lazyrich.claims.oracles",
    "lazyrich.claims.searches",
)
_MOST = 12  # functions under a check


def error(check: Callable, identifier: str, seeds: int) -> float:
    """The worst of a check, with the draws that `lazyrich claims` makes."""
    streams = [np.random.default_rng([zlib.crc32(identifier.encode()), seed]) for seed in range(seeds)]
    with np.errstate(all="ignore"):
        return max(float(check(stream)) for stream in streams)


def error_within(seconds: float, check: Callable, identifier: str) -> float:
    """In a process of its own; NaN where a broken formula cannot be evaluated, or not in that time."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)

    def send() -> None:
        with suppress(Exception), redirect_stderr(None):
            there.send(error(check, identifier, seeds=2))

    process = context.Process(target=send)
    process.start()
    there.close()
    found = math.nan
    with suppress(EOFError):  # it ended without an answer
        found = here.recv() if here.poll(seconds) else math.nan
    process.kill()
    process.join()
    return found


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
    known = [(module, vars(module).get(function.__name__)) for module in holders]
    known = [(module, kept) for module, kept in known if inspect.unwrap(kept) is function]
    try:
        for module, _ in known:
            setattr(module, function.__name__, by)
        yield check
    finally:
        for module, kept in known:
            setattr(module, function.__name__, kept)


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
        return type(node.op) in _OTHER
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant)
    if isinstance(node, ast.Compare):
        return type(node.ops[0]) in _OTHER
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    return isinstance(node, ast.IfExp) or (isinstance(node, ast.Attribute) and node.attr == "T")


def _break(node: Any) -> None:
    if isinstance(node, ast.BinOp):
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
