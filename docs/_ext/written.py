"""Pages that the documentation makes of the code, written beside those that people write."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sphinx.application import Sphinx

__all__ = ["write"]


def write(app: Sphinx, folder: str, pages: Mapping[str, str]) -> None:
    """Writes pages, by name, into a folder of the site that holds no others; an unchanged one is not built again."""
    target = Path(app.srcdir) / folder
    target.mkdir(exist_ok=True)
    for path in target.glob("*.md"):
        if path.stem not in pages:
            path.unlink()
    for name, text in pages.items():
        path = target / f"{name}.md"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
