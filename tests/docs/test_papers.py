"""The READMEs of the papers' rooms: every name, command and path in them is there, and all of the room is in them."""

from __future__ import annotations

import re

import pytest

import lazyrich as lr

from . import DOCS

import paper_pages  # isort: skip

KEYS = [paper.key for paper in lr.papers.papers()]


@pytest.mark.parametrize("key", KEYS)
def test_what_is_named_is_there(key):
    paper = lr.papers.paper(key)
    found = list(paper_pages.names(paper.readme))
    assert found
    assert [code for code, line in found if paper_pages.meaning(code, key, line) is None] == []
    for target in re.findall(r"\]\(([^)#]+)\)", paper.readme):
        assert (paper.folder / target).resolve().is_file(), target


@pytest.mark.parametrize("key", KEYS)
def test_what_the_room_holds_is_named(key):
    paper = lr.papers.paper(key)
    named = {code for code, _ in paper_pages.names(paper.readme)}
    wanted = {f"lazyrich figure {key}/{name}" for name in paper.figure_names}
    wanted |= {f"lazyrich experiment {name}" for name in paper.experiments}
    wanted |= {f"lazyrich sweep {key}/{name}" for name in paper.sweeps}
    wanted |= {f"claims/{topic}.py" for topic in paper.topics}
    wanted |= {f"lazyrich claims --source {key}"} if paper.topics else set()
    if (paper.folder / "formulas.py").is_file():
        wanted |= {f"formulas.{name}" for name in getattr(lr.papers, key).formulas.__all__}
    assert wanted - named == set()


@pytest.mark.parametrize("key", KEYS)
def test_says_the_same_things_in_the_same_order(key):
    headings = re.findall(r"^## (.*)$", lr.papers.paper(key).readme, flags=re.MULTILINE)
    assert headings == ["What of it is where", "Wrong in print", "Its letters and ours"]


@pytest.mark.parametrize(
    "code",
    [
        "lr.observables.no_such",
        "formulas.no_such",
        "braun2022/no-such",
        "claims/no_such.py",
        "lazyrich figure braun2022/99",
        "lazyrich claims --source domine2025",
        "lazyrich paint braun2022/3",
        "task.no_such",
        "no_such",
    ],
)
def test_what_is_not_there_is_noticed(code):
    assert paper_pages.meaning(code, "braun2022", f"`{code}` of `lr.solve`") is None


def test_pages_lead_to_ledger_gallery_and_reference():
    page = paper_pages.page("braun2022")
    assert "[`braun2022/t-peak`](../ledger/braun2022.md#claim-braun2022-t-peak)" in page
    assert "[`lazyrich figure braun2022/4`](../gallery/README.md#decoupling-modes-of-the-task" in page
    assert "{py:func}`lr.fate <lazyrich.fate>`" in page
    assert "{py:func}`formulas.theorem_3_1 <lazyrich.papers.braun2022.formulas.theorem_3_1>`" in page
    assert "](../theory/closed-form.md)" in page and (DOCS / "theory" / "closed-form.md").is_file()
