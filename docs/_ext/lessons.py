"""Lessons as notebooks to take away: notebooks/*.ipynb of the site, made of the pages that it was built from."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from myst_nb.core.read import read_myst_markdown_notebook
from sphinx.application import Sphinx

_FOLDED = re.compile(
    r"^(`{3,}|:{3,})\{(?:admonition|dropdown)\} ([^\n]+)\n((?::[\w-]+:[^\n]*\n)*)(.*?)^\1$", re.M | re.S
)
_LINK = re.compile(r"\]\(([\w-]+)\.md(#[\w-]+)?\)")  # to another lesson
_BEYOND = re.compile(r"\[([^\]]+)\]\((?:\.\./)[^)]*\)")  # to a page that is not beside the notebook


def notebook(text: str) -> str:
    """A page with code in MyST as a notebook, not yet run: answers unfold, other lessons are notebooks too.

    >>> "Take it" in notebook("Take it.")
    True
    """
    found = read_myst_markdown_notebook(text)
    assert found is not None
    for number, cell in enumerate(found.cells):
        cell.id = f"cell-{number}"  # the same from the same page
        if cell.cell_type == "markdown":
            cell.source = _BEYOND.sub(r"\1", _LINK.sub(r"](\1.ipynb\2)", _FOLDED.sub(_unfolding, cell.source)))
        else:
            cell.outputs, cell.execution_count = [], None
    found.metadata.kernelspec = {"display_name": "Python 3", "language": "python", "name": "python3"}
    found.nbformat, found.nbformat_minor = 4, 5
    nbformat.validate(found)
    return nbformat.writes(found)


def _unfolding(block: re.Match[str]) -> str:
    return f"<details><summary>{block[2]}</summary>\n\n{block[4].strip()}\n\n</details>"


def _write(app: Sphinx, failed: Exception | None) -> None:
    if failed is not None or app.builder.format != "html":
        return
    for page in sorted((Path(app.srcdir) / "notebooks").glob("*.md")):
        if page.stem != "index":
            target = Path(app.outdir) / "notebooks" / f"{page.stem}.ipynb"
            target.write_text(notebook(page.read_text(encoding="utf-8")), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
