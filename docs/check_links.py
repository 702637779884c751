"""Checks the links of the built site: python docs/check_links.py build/docs

Every link and picture inside the site must lead to a file that is there, and every anchor to an element of that name.
Nothing that a page loads (scripts, styles, pictures, fonts) may come from another host: the site works offline.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """The anchors of a page, the links on it, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attributes if value}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if "href" in given:
            (self.links if tag == "a" else self.loaded).add(given["href"])
        if "src" in given:
            self.loaded.add(given["src"])


def faults(site: Path) -> list[str]:
    """What does not lead anywhere, one sentence each."""
    pages = {path.resolve(): _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        found += [f"{name} loads {url} from elsewhere" for url in sorted(page.loaded) if urlsplit(url).netloc]
        for url in sorted(page.links | page.loaded):
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                found.append(f"{name} links to {url}, which is not there")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{name} links to {url}, which has no such anchor")
    return found


def main() -> int:
    site = Path(sys.argv[1])
    found, pages = faults(site), len(list(site.rglob("*.html")))
    print(*found, f"{pages} pages, {len(found)} broken links", sep="\n")
    return int(bool(found) or not pages)


if __name__ == "__main__":
    sys.exit(main())
