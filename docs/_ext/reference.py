"""The reference, one page for each public namespace, written from the code: names in `__all__`, signatures as they
stand in the source, docstrings, and of classes their fields (with the comment beside each), properties and methods.

A name that several namespaces share is described in the first of them, and the others lead there.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import tokenize
from collections.abc import Iterator
from functools import cache, cached_property
from importlib import import_module
from io import StringIO
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx
from written import write

NAMESPACES = {
    "lazyrich": "problems, methods, trajectories",
    "lazyrich.tasks": "what is to be learned",
    "lazyrich.inits": "where learning starts",
    "lazyrich.methods": "closed forms, one per file",
    "lazyrich.observables": "functions of a trajectory",
    "lazyrich.landscape": "where the flow ends, and why",
    "lazyrich.laziness": "what lazy and rich mean, and how lazy a model of your own is",
    "lazyrich.bias": "function space, and which of many solutions is reached",
    "lazyrich.generalisation": "test error along training, and when to stop",
    "lazyrich.sequences": "one task after another, mixtures, and what helps against forgetting",
    "lazyrich.batch": "many networks at once, in stacked arrays or one compiled program",
    "lazyrich.jax": "the closed form for JAX, with derivatives",
    "lazyrich.sweeps": "grids of problems",
    "lazyrich.plot": "one-line plots",
    "lazyrich.papers": "claims, figures, experiments and sweeps of the papers",
    "lazyrich.papers.braun2022.formulas": "the theorems of Braun et al. to the letter",
    "lazyrich.papers.kunin2024.formulas": "those of Kunin et al.",
    "lazyrich.papers.saxe2014.formulas": "those of Saxe et al.",
    "lazyrich.papers.lampinen2019.formulas": "those of Lampinen and Ganguli",
    "lazyrich.papers.saxe2019.formulas": "those of Saxe, McClelland and Ganguli on semantic development",
}

_INDEX = """\
# Reference

Every public name, with an example that the tests run. In all of them `lr` is lazyrich and `np` is NumPy. Shapes are
part of signatures: `Float[Array, "T out in"]` is an array of floats, and what its axes are.

| namespace | what it holds |
|---|---|
{rows}

```{{toctree}}
:hidden:

{names}
```
"""


def pages() -> dict[str, str]:
    """Every page as MyST Markdown, by its name."""
    written = {name: _page(import_module(name)) for name in NAMESPACES}
    rows = [f"| [`{name}`]({name}.md) | {words} |" for name, words in NAMESPACES.items()]
    return {"index": _INDEX.format(rows="\n".join(rows), names=_titled())} | written


def _titled() -> str:
    """The entries of the sidebar, short."""
    return "\n".join(f"{name.removeprefix('lazyrich.')} <{name}>" for name in NAMESPACES)


@cache
def described() -> dict[int, str]:
    """The role and the full name under which a thing is described, by its identity: the first that it is found by."""
    found: dict[int, str] = {}
    for full, thing in ((f"{space}.{name}", thing) for space in NAMESPACES for name, thing in _things(space)):
        found.setdefault(id(thing), f"{_role(thing)} {full}")
    return found


def _things(space: str) -> Iterator[tuple[str, Any]]:
    """The public names of a namespace that the reference describes: functions, classes, and modules without a page."""
    namespace = import_module(space)
    for name in namespace.__all__:
        thing = getattr(namespace, name)
        if inspect.isclass(thing) or inspect.isroutine(thing) or _without_page(thing):
            yield name, thing


def _without_page(thing: Any) -> bool:
    return inspect.ismodule(thing) and thing.__name__ not in NAMESPACES


def _page(namespace: ModuleType) -> str:
    rows, parts = [], []
    for name in namespace.__all__:
        thing, full = getattr(namespace, name), f"{namespace.__name__}.{name}"
        if inspect.ismodule(thing) and thing.__name__ in NAMESPACES:
            rows.append(f"| [`{name}`]({thing.__name__}.md) | {NAMESPACES[thing.__name__]} |")
        elif id(thing) not in described():
            rows.append(f"| `{name}` | {_value(thing)} |")
        else:
            role, _, where = described()[id(thing)].partition(" ")
            if where == full:
                parts.append(_described(thing, full))
            rows.append(f"| {{py:{role}}}`{name} <{where}>` | {_first_line(thing)} |")
    head = f"# {namespace.__name__}\n\n```{{py:module}} {namespace.__name__}\n```"
    table = "\n".join(["| name | what it is |", "|---|---|", *rows])
    return "\n\n".join([head, markdown(inspect.getdoc(namespace)), table, *parts]) + "\n"


def _described(thing: Any, full: str) -> str:
    if inspect.ismodule(thing):
        own, _, name = full.rpartition(".")
        back = f"```{{py:currentmodule}} {own}\n```"  # what follows on the page belongs to the namespace again
        return f"```{{py:module}} {full}\n```\n\n## {name}\n\n{markdown(inspect.getdoc(thing))}\n\n{back}"
    body, name = markdown(inspect.getdoc(thing)), full.rpartition(".")[2]
    if not inspect.isclass(thing):
        return _directive("function", _signature(thing, name), body, fence=4)
    kind = "exception" if issubclass(thing, BaseException) else "class"
    return _directive(kind, _signature(thing, name), "\n\n".join([body, *_members(thing)]), fence=5)


def _members(owner: type) -> Iterator[str]:
    """Fields, then what is computed from them; what other packages bring (Enum, Exception) is theirs to describe."""
    ours = [base for base in owner.__mro__ if base.__module__.startswith("lazyrich")]
    fields = {name: about for base in reversed(ours) for name, about in _fields(base).items()}
    for name, (annotation, comment) in fields.items():
        yield _directive("attribute", name, markdown(comment), fence=4, type=annotation)
    seen = set(fields)
    for name, thing in [item for base in ours for item in vars(base).items()]:
        if name.startswith("_") or name in seen:
            continue
        seen.add(name)
        body = markdown(inspect.getdoc(thing))
        if isinstance(thing, property | cached_property):
            getter = thing.fget if isinstance(thing, property) else thing.func
            yield _directive(
                "property", name, body, fence=4, type=_annotation(inspect.signature(getter).return_annotation)
            )
        elif isinstance(thing, classmethod | staticmethod):
            flag = type(thing).__name__
            yield _directive("method", _signature(getattr(owner, name), name), body, fence=4, **{flag: ""})
        elif inspect.isfunction(thing):
            yield _directive("method", _signature(thing, name, drop=1), body, fence=4)


def _fields(owner: type) -> dict[str, tuple[str, str]]:
    """Type and comment of what an instance holds: annotated in the class body, or assigned in `__init__`."""
    source = textwrap.dedent(inspect.getsource(owner))
    tokens = tokenize.generate_tokens(StringIO(source).readline)
    comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, tuple[str, str]] = {}
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if not ast.unparse(node.annotation).startswith("ClassVar"):
                found[node.target.id] = (ast.unparse(node.annotation), comments.get(node.end_lineno or 0, ""))
        elif isinstance(node, ast.FunctionDef) and node.name == "__init__":
            for line in node.body:
                if isinstance(line, ast.Assign) and (target := ast.unparse(line.targets[0])).startswith("self."):
                    found.setdefault(target.removeprefix("self."), ("", comments.get(line.end_lineno or 0, "")))
    return {name: about for name, about in found.items() if not name.startswith("_")}


def _signature(thing: Any, name: str, drop: int = 0) -> str:
    """The call as the source has it: annotations are text there, and stay so."""
    try:
        signature = inspect.signature(thing)
    except ValueError:
        return name
    parts, parameters = [], list(signature.parameters.values())[drop:]
    for index, parameter in enumerate(parameters):
        starred = any(p.kind in {p.VAR_POSITIONAL, p.KEYWORD_ONLY} for p in parameters[:index])
        if parameter.kind == parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        annotation = _annotation(parameter.annotation)
        text = f"{stars}{parameter.name}" + f": {annotation}" * bool(annotation)
        if parameter.default is not parameter.empty:
            text += f" = {_default(parameter.default)}" if annotation else f"={_default(parameter.default)}"
        parts.append(text)
    returns = "" if inspect.isclass(thing) else _annotation(signature.return_annotation)
    return f"{name}({', '.join(parts)})" + f" -> {returns}" * bool(returns)


def _annotation(annotation: Any) -> str:
    if annotation is inspect.Signature.empty:
        return ""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(value: Any) -> str:
    if " at 0x" in repr(value) and not inspect.isroutine(value):  # an address differs from build to build
        return f"{type(value).__name__}()"
    return getattr(value, "__name__", None) or repr(value)


def markdown(doc: str | None) -> str:
    """A docstring as Markdown: examples and indented blocks stay as they are, in prose only `code` is marked."""
    blocks = []
    for block in re.split(r"\n\s*\n", doc or ""):
        lines = block.splitlines()
        if lines and lines[0].startswith(">>>"):
            blocks.append(f"```pycon\n{block}\n```")
        elif len(lines) > 1 and re.fullmatch("-{3,}", lines[1]):
            blocks.append(_section(lines[0], lines[2:]))
        elif lines and all(re.match(r"    |\S.* {3,}\S", line) for line in lines):
            blocks.append(f"```text\n{textwrap.dedent(block)}\n```")
        else:
            blocks.append(_escaped(block))
    return "\n\n".join(blocks)


def _section(title: str, lines: list[str]) -> str:
    """Arguments or returns in the style of NumPy, "name : what it is" and more of it indented, as a list."""
    entries = re.split(r"\n(?=\S)", "\n".join(lines))
    named = [" ".join(entry.split()).partition(" : ") for entry in entries]
    return f"**{title}**\n\n" + "\n".join(f"- `{name}`{': ' * bool(what)}{_escaped(what)}" for name, _, what in named)


def _escaped(prose: str) -> str:
    parts = re.split(r"(`[^`]+`)", prose)
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_<\[$])", r"\\\1", part) for part in parts)


def _first_line(thing: Any) -> str:
    """The first sentence, or what there is of it before the first blank line."""
    paragraph = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return _escaped(re.split(r"(?<=[.:])\s(?=[A-Z`])", paragraph)[0]).replace("|", "\\|")


def _role(thing: Any) -> str:
    if inspect.isclass(thing):
        return "exc" if issubclass(thing, BaseException) else "class"
    return "mod" if inspect.ismodule(thing) else "func"


def _value(thing: Any) -> str:
    if isinstance(thing, dict | tuple):
        return ", ".join(f"`{_default(entry)}`" for entry in thing)
    return f"`{_default(thing)}`"


def _directive(kind: str, argument: str, body: str, *, fence: int, **options: str) -> str:
    ticks = "`" * fence
    lines = [f":{name}: {value}".rstrip() for name, value in options.items() if value or name != "type"]
    return "\n".join([f"{ticks}{{py:{kind}}} {argument}", *lines, "", body, ticks])


def _write(app: Sphinx) -> None:
    write(app, "reference", pages())


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
