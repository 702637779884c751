"""The Python of every page runs as it stands, block after block, in one session and an empty folder.

Where a block of text follows, it is what the Python before it prints.
"""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

import lazyrich as lr

from . import DOCS
from .as_printed import AsPrinted

README = DOCS.parent / "README.md"
ELSEWHERE = {
    "laziness.md",  # tests/laziness, where there is PyTorch
}
PAGES = [
    path for folder in (DOCS, DOCS / "theory") for path in sorted(folder.glob("*.md")) if path.name not in ELSEWHERE
]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(page: Path) -> list[tuple[int, str, str | None]]:
    """Line, Python, and the output shown right after it."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```\n(?:\s*^```text\n(.*?)^```)?", text, flags=re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, match.start(1)), match[1], match[2]) for match in found]


def run(page: Path, session: dict[str, object], capsys: pytest.CaptureFixture[str]) -> int:
    """How many blocks ran."""
    found = blocks(page)
    for line, code, shown in found:
        exec(compile("\n" * line + code, str(page), "exec"), session)
        printed = capsys.readouterr().out
        if shown is not None:
            assert AsPrinted().check_output(shown, printed, FLAGS), f"{page}:{line} prints\n{printed}"
    return len(found)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")


@pytest.mark.documentation
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_page(page, capsys):
    run(page, {"lr": lr, "np": np}, capsys)


@pytest.mark.documentation
def test_readme(rng, tmp_path, capsys):
    W1, W2 = lr.inits.zero_balanced(0, sizes=(4, 5, 3), scale=0.1).weights
    session = {"inputs": rng.normal(size=(20, 4)), "targets": rng.normal(size=(20, 3)), "W1": W1, "W2": W2}
    assert run(README, session, capsys) >= 3
    for picture in re.findall(r'savefig\("(.*?)"\)', README.read_text(encoding="utf-8")):
        assert (tmp_path / picture).stat().st_size > 1000


def test_a_predicted_end_is_where_the_flow_ends():
    task = lr.Task.from_data([[0.5, 1.0]], [[1.1]])
    problem = lr.Problem(task, lr.inits.single_neuron([0.4, 0.05], delta=-2.0))
    predicted, compared = lr.bias.predicted_end(problem), lr.bias.compare_with_flow(problem)
    assert np.abs(predicted.beta - compared.reached).max() < 1e-11  # 1e-12, the README says


def test_what_is_shown_is_compared(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 2\n```\n\nand\n\n```python\nprint(x + 1)\n```\n\n```text\n4\n```\n")
    with pytest.raises(AssertionError, match=r"prints\s+3"):
        run(page, {}, capsys)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("within 0.0089 of", "within 0.009 of", True),
        ("within 0.0339 of", "within 0.034 of", True),
        ("within 0.0339 of", "within 0.035 of", False),
        ("1e-07, 5.2e-3", "1.3e-07, 5.3e-3", True),
        ("[0.25 3.  ]", "[0.26 3.  ]", True),
        ("[0.25 3.  ]", "[0.27 3.  ]", False),
        ("ŝ 3..., theory 3.249", "ŝ 3.31, theory 3.248", True),
        ("8-32-8 in 25 steps", "8-32-8 in 26 steps", False),
        ("8-32-8 in 25 steps", "8-32-8 in 25 step", False),
        ("-0.5 and more", "0.5 and more", False),
        ("a ... of 0.11", "a part or two of 0.12", True),
    ],
)
def test_only_the_last_digit_of_a_number_may_differ(shown, printed, same):
    assert AsPrinted().check_output(shown + "\n", printed + "\n", FLAGS) is same
