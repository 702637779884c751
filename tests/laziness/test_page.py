"""The page "How lazy is my network?": one complete script for each framework, run as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.documentation,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore"),  # of the frameworks, about workers, defaults and deprecations
]
PAGE = (Path(__file__).parents[2] / "docs" / "laziness.md").read_text(encoding="utf-8")
SCRIPTS = dict(re.findall(r"```\{code-block\} python\n:caption: (.*?)\n\n(.*?)```", PAGE, flags=re.DOTALL))
NEEDS = {
    "plain PyTorch": ("torch", r"step 200: the kernel moved by .*: rich so far"),
    "Lightning": ("lightning", r"step 30: the kernel moved by .* so far|step 20: the kernel moved by .* so far"),
    "Hugging Face": ("transformers", r"True"),
    "equinox": ("equinox", r"step 200: the kernel moved by .*: rich so far"),
    "Flax": ("flax", r"step 200: the kernel moved by .*\(first\).* so far"),
}


def test_each_framework_has_a_script():
    assert set(SCRIPTS) == set(NEEDS)


@pytest.mark.parametrize("framework", NEEDS)
def test_the_script_runs(framework, tmp_path, monkeypatch, capsys):
    module, printed = NEEDS[framework]
    pytest.importorskip(module)
    pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    exec(compile(SCRIPTS[framework], "laziness.md", "exec"), {"__name__": "script"})
    assert re.search(printed, capsys.readouterr().out)
    if framework == "plain PyTorch":
        assert (tmp_path / "laziness.png").stat().st_size > 10_000 and (tmp_path / "laziness.csv").is_file()
    if framework == "Lightning":
        assert "lazyrich/kernel_distance" in next(tmp_path.rglob("metrics.csv")).read_text()
