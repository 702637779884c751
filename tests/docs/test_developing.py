"""A new contributor does what docs/developing.md says, word for word, on a copy of the repository.

Every block with a path above it is that file, or for a diff the lines to exchange in it; every line that begins with $
is run, in the order of the page, with this environment in place of `.venv`.
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
    """What git would give: no caches, no builds."""
    folder = tmp_path_factory.mktemp("contributor") / "lazyrich"
    folder.mkdir()
    for part in ("src", "tests", "docs", "benchmarks"):
        ignored = shutil.ignore_patterns("__pycache__", "*.png", "data" if part == "docs" else "")
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder / name)
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
    command = command.replace(".venv/bin/lazyrich", ".venv/bin/python -m lazyrich.cli")
    words = command.replace(".venv/bin/", f"{Path(sys.executable).parent}{os.sep}").split()
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_page_can_be_followed(copy):
    outputs = {}
    for kind, path, content, commands in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "diff":
            (copy / path).write_text(exchange((copy / path).read_text(encoding="utf-8"), content), encoding="utf-8")
        elif kind:
            assert not (copy / path).exists()
            (copy / path).write_text(content, encoding="utf-8")
        for command in re.findall(r"^\$ (.*)$", commands, re.MULTILINE):
            outputs[command] = run(command, copy)
    told = "\n".join(outputs.values())
    assert "3 passed" in told and "1 passed" in told  # the method's tests, and the task's
    assert "post/half-life  holds" in told and (copy / "build" / "figures" / "saxe2014-logistic.png").exists()
    run(".venv/bin/ruff check .", copy)  # once more: of the task, the claim and the figure too


def test_the_copy_was_tried_and_not_the_repository(copy):
    """In a fresh process the method is chosen where nothing else applies; here it does not exist."""
    code = (
        "import numpy as np, lazyrich as lr; task = lr.Task.from_data(np.arange(12.).reshape(4, 3) ** 2, np.eye(4)); "
        "net = lr.Network([np.zeros((2, 3)), np.zeros((2, 2)), np.zeros((4, 2))]); "
        "print(lr.solve(lr.Problem(task, net), [0.0, 5.0]).method, lr.tasks.ring(items=5).d_in)"
    )
    environment = os.environ | {"PYTHONPATH": str(copy / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "rest 5", done.stderr
    assert not (ROOT / "src" / "lazyrich" / "exact" / "rest.py").exists()
