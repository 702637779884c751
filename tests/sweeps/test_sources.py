"""What belongs to a function: every way in which one of the user's uses another is followed, and state is not.

Modules are written, loaded, changed in one place that changes numbers, and loaded again.
"""

from __future__ import annotations

import importlib
import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from lazyrich.sweeps.sources import sources


class Change(NamedTuple):
    """Files by name, and one that changes."""

    files: dict[str, str]
    which: str
    before: str
    after: str


TIMES = "def g(s):\n    return s * 1\n"
SEEN = {
    "a module of a module": Change(
        {
            "user_m": "import user_h\ndef f(s):\n    return user_h.g(s)\n",
            "user_h": "import user_k\ndef g(s):\n    return user_k.g(s)\n",
            "user_k": TIMES,
        },
        "user_k",
        "* 1",
        "* 2",
    ),
    "a name from a module that has it from another": Change(
        {
            "user_m": "from user_h import g\ndef f(s):\n    return g(s)\n",
            "user_h": "from user_k import g\n",
            "user_k": TIMES,
        },
        "user_k",
        "* 1",
        "* 2",
    ),
    "a decorator": Change(
        {
            "user_m": "from user_h import d\n@d\ndef f(s):\n    return s\n",
            "user_h": "import functools\ndef d(g):\n    @functools.wraps(g)\n    def w(s):\n        return g(s) * 1\n"
            "    return w\n",
        },
        "user_h",
        "* 1",
        "* 2",
    ),
    "a function in a cache": Change(
        {
            "user_m": "from user_h import g\ndef f(s):\n    return g(s)\n",
            "user_h": "import functools\n@functools.lru_cache\n" + TIMES,
        },
        "user_h",
        "* 1",
        "* 2",
    ),
    "a base class": Change(
        {
            "user_m": "from user_h import C\ndef f(s):\n    return C().g(s)\n",
            "user_h": "class B:\n    def g(self, s):\n        return s * 1\nclass C(B):\n    pass\n",
        },
        "user_h",
        "* 1",
        "* 2",
    ),
    "what a property reads": Change(
        {
            "user_m": "from user_h import C\ndef f(s):\n    return C().x\n",
            "user_h": "from user_k import V\nclass C:\n    @property\n    def x(self):\n        return V\n",
            "user_k": "V = 1\n",
        },
        "user_k",
        "V = 1",
        "V = 2",
    ),
    "an attribute of a class": Change(
        {"user_m": "from user_h import V\nclass C:\n    v = V\ndef f(s):\n    return C.v\n", "user_h": "V = 1\n"},
        "user_h",
        "1",
        "2",
    ),
    "a table of functions": Change(
        {"user_m": "from user_h import T\ndef f(s):\n    return T['a'](s)\n", "user_h": TIMES + "T = {'a': g}\n"},
        "user_h",
        "* 1",
        "* 2",
    ),
    "an argument of a partial": Change(
        {
            "user_m": "from user_h import p\ndef f(s):\n    return p(s)\n",
            "user_h": "import functools\ndef g(k, s):\n    return s * k\np = functools.partial(g, 1)\n",
        },
        "user_h",
        "(g, 1)",
        "(g, 2)",
    ),
    "what an object holds": Change(
        {
            "user_m": "from user_h import o\ndef f(s):\n    return o(s)\n",
            "user_h": "class C:\n    def __init__(self, a):\n        self.a = a\n"
            "    def __call__(self, s):\n        return self.a * s\no = C(1)\n",
        },
        "user_h",
        "C(1)",
        "C(2)",
    ),
    "the method of an object": Change(
        {
            "user_m": "class C:\n    def __init__(self, a):\n        self.a = a\n"
            "    def g(self, s):\n        return self.a * s\nf = C(1).g\n"
        },
        "user_m",
        "C(1)",
        "C(2)",
    ),
    "a namespace": Change(
        {
            "user_m": "from user_h import o\ndef f(s):\n    return o.a\n",
            "user_h": "from types import SimpleNamespace\no = SimpleNamespace(a=1)\n",
        },
        "user_h",
        "a=1",
        "a=2",
    ),
    "a name imported when it is called": Change(
        {"user_m": "def f(s):\n    from user_h import g\n    return g(s)\n", "user_h": TIMES}, "user_h", "* 1", "* 2"
    ),
    "a module imported when it is called": Change(
        {"user_m": "def f(s):\n    import user_h\n    return user_h.g(s)\n", "user_h": TIMES}, "user_h", "* 1", "* 2"
    ),
    "a default": Change({"user_m": "V = 1\ndef f(s, k=V):\n    return k\n"}, "user_m", "V = 1", "V = 2"),
    "a default by name": Change({"user_m": "V = 1\ndef f(s, *, k=V):\n    return k\n"}, "user_m", "V = 1", "V = 2"),
    "an array": Change(
        {"user_m": "import numpy as np\nA = np.ones(3) * 1\ndef f(s):\n    return A\n"}, "user_m", "* 1", "* 2"
    ),
    "what was read from a file": Change(
        {
            "user_m": "import json, pathlib\nD = json.loads(pathlib.Path(__file__).with_name('user_d.py').read_text())"
            "\ndef f(s):\n    return D['a']\n",
            "user_d": '{"a": 1}',
        },
        "user_d",
        "1",
        "2",
    ),
}


def loaded(folder: Path, files: dict[str, str]) -> Any:
    """The function f of the first module, all of them anew."""
    for name, content in files.items():
        (folder / f"{name}.py").write_text(content)
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    linecache.checkcache()
    return importlib.import_module(next(iter(files))).f


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], Any]:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return lambda files: loaded(tmp_path, files)


@pytest.mark.parametrize("case", SEEN)
def test_what_a_function_uses_belongs_to_it(case: str, load: Callable[[dict[str, str]], Any]) -> None:
    change = SEEN[case]
    other = change.files | {change.which: change.files[change.which].replace(change.before, change.after)}
    first, second, changed = (sources([load(files)]) for files in (change.files, change.files, other))
    assert first == second != changed


STATE = {
    "a table": "C = {}\ndef f(s):\n    if s not in C:\n        C[s] = s\n    return C[s]\n",
    "a list": "C = []\ndef f(s):\n    C.append(s)\n    return s\n",
    "a counter": "C = 0\ndef f(s):\n    global C\n    C += 1\n    return C\n",
    "what a decorator closes over": "def d(g):\n    seen = {}\n    def w(s):\n        if s not in seen:\n"
    "            seen[s] = g(s)\n        return seen[s]\n    return w\n@d\ndef f(s):\n    return s\n",
    "an attribute of an object": "class C:\n    def __init__(self):\n        self.n = 0\n    def g(self, s):\n"
    "        self.n += 1\n        return s\no = C()\ndef f(s):\n    return o.g(s)\n",
    "a lazy property": "import functools\nclass C:\n    @functools.cached_property\n    def x(self):\n        return 1"
    "\no = C()\ndef f(s):\n    return o.x\n",
}


@pytest.mark.parametrize("case", STATE)
def test_what_a_function_changes_does_not(case: str, load: Callable[[dict[str, str]], Any]) -> None:
    """A cache in a module made workers refuse the work: there it was empty."""
    function = load({"user_m": STATE[case]})
    before = sources([function])
    function(1)
    assert sources([function]) == before
    assert any(name.startswith("user_m.") for name in before)


def test_a_table_that_nobody_changes_is_a_value(load: Callable[[dict[str, str]], Any]) -> None:
    function = load({"user_m": "C = {'a': 1}\ndef f(s):\n    return C['a']\n"})
    before = sources([function])
    sys.modules["user_m"].C["a"] = 2
    assert sources([function]) != before


def test_what_goes_round_comes_to_an_end(load: Callable[[dict[str, str]], Any]) -> None:
    files = {"user_m": "import user_h\nL = []\nL.append(L)\ndef f(s):\n    return user_h.g, L, f\n", "user_h": ""}
    files["user_h"] = "import user_m\ndef g(s):\n    return user_m.f(s)\n"
    assert {"user_m.f", "user_h.g"} <= sources([load(files)]).keys()


def test_what_is_installed_is_left_out() -> None:
    assert sources([np.linalg.norm, len, dict]) == {}
