"""A new contributor does what docs/developing.md says, word for word, on a copy of the repository.

Every block with a path above it is that file, or for a diff the lines to exchange in it; every line that begins with $
is run, in the order of the page (its tests at the end, together), with this environment in place of `.venv`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.documentation

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "developing.md"
BLOCK = re.compile(r"```\{code-block\} (\w+)\n:caption: (\S+)\n\n(.*?)```|```console\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """What git would give, no builds; and what mypy remembers of an earlier `make lint`, as a contributor has it."""
    folder = tmp_path_factory.mktemp("contributor") / "lazyrich"
    folder.mkdir()
    for part in ("src", "tests", "docs", "benchmarks"):
        ignored = shutil.ignore_patterns("__pycache__", "*.png", "data" if part == "docs" else "")
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder / name)
    if (ROOT / ".mypy_cache").is_dir():
        shutil.copytree(ROOT / ".mypy_cache", folder / ".mypy_cache")
    return folder


def exchange(text: str, diff: str) -> str:
    """Replaces each run of lines that begin with − by the run that begins with + below it."""
    for old, new in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)+)", diff, re.MULTILINE):
        before, after = (re.sub("^.", "", lines, flags=re.MULTILINE) for lines in (old, new))
        assert text.count(before) == 1, f"not there, or not once: {before}"
        text = text.replace(before, after)
    return text


def run(command: str, folder: Path) -> str:
    environment = os.environ | {"PYTHONPATH": str(folder / "src"), "MPLBACKEND": "agg", "HOME": str(folder)}
    # the module and not the script: its PYTHONPATH decides which lazyrich is meant, and it need not be installed
    command = command.replace(".venv/bin/lazyrich", ".venv/bin/python -m lazyrich")
    words = command.replace(".venv/bin/", f"{Path(sys.executable).parent}{os.sep}").split()
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


PYTEST = ".venv/bin/python -m pytest -q "


def test_the_page_can_be_followed(copy):
    outputs, tests = {}, []
    for kind, path, content, commands in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "diff":
            (copy / path).write_text(exchange((copy / path).read_text(encoding="utf-8"), content), encoding="utf-8")
        elif kind:
            assert not (copy / path).exists()
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).write_text(content, encoding="utf-8")
        for command in re.findall(r"^\$ (.*)$", commands, re.MULTILINE):
            if command.startswith(PYTEST):
                tests.append(command.removeprefix(PYTEST))  # in one process below: most of its time is set-up
            else:
                outputs[command] = run(command, copy)
    assert len(tests) == 2 and "4 passed" in run(PYTEST + " ".join(tests), copy)  # of the method and of the task
    told = "\n".join(outputs.values())
    assert "post/half-life  holds" in told and "baldi1989/minimum  holds" in told
    assert {path.name for path in (copy / "build" / "figures").glob("*.png")} == {
        "saxe2014-logistic.png",
        "baldi1989-width.png",
    }
    assert {".venv/bin/mypy", ".venv/bin/lint-imports --no-logo"} <= set(list(outputs)[-4:])  # of all that was added


TRIED = """
import sys
import numpy as np, lazyrich as lr
sys.path.insert(0, "docs/_ext")
from paper_pages import meaning, names

task = lr.Task.from_data(np.arange(12.0).reshape(4, 3) ** 2, np.eye(4))
net = lr.Network([np.zeros((2, 3)), np.zeros((2, 2)), np.zeros((4, 2))])
print(lr.solve(lr.Problem(task, net), [0.0, 5.0]).method, lr.tasks.common(items=5).d_in)
paper = lr.papers.papers()[0]
found = [meaning(code, paper.key, line) is not None for code, line in names(paper.readme)]
print(paper.key, len(found), all(found))
"""


def test_the_copy_was_tried_and_not_the_repository(copy):
    """In a fresh process the method is chosen where nothing else applies, and the paper is on the shelf, with a README
    in which every name is there; here they do not exist."""
    environment = os.environ | {"PYTHONPATH": str(copy / "src")}
    command = [sys.executable, "-c", TRIED]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["rest", "5", "baldi1989", "5", "True"], done.stderr
    assert not (ROOT / "src" / "lazyrich" / "methods" / "rest.py").exists()
