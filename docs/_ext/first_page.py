"""The story on the first page: the explorer in one file, which the page has in a frame; it asks nobody for anything."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

from lazyrich.cli import main

STORY, FILE = "lazy-rich", "story.html"


def _write(app: Sphinx, failed: Exception | None) -> None:
    if failed is None and app.builder.format == "html":
        status = main(["export", str(Path(app.outdir) / FILE), "--story", STORY])
        assert status == 0, "the story was not exported"


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
