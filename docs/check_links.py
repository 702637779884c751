"""Checks the links of the built site: python docs/check_links.py build/docs

Every link and picture inside the site must lead to a file that is there, and every anchor to an element of that name.
Nothing that a page or a style sheet loads (scripts, styles, pictures, fonts) may come from another host: the site works
offline.
"""

from __future__ import annotations

import re
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
        self._in_style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attributes if value}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if "href" in given:
            (self.links if tag == "a" else self.loaded).add(given["href"])
        self.loaded |= {given["src"]} if "src" in given else set()
        self.loaded |= {part.split()[0] for part in given.get("srcset", "").split(",") if part.split()}
        self.loaded |= _in_styles(given.get("style", ""))
        self._in_style = tag == "style"

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.loaded |= _in_styles(data)


def _in_styles(text: str) -> set[str]:
    """What a style sheet loads, but for what it holds itself."""
    return {
        url
        for url in re.findall(r"(?:@import\s+(?:url\()?|url\()\s*[\"']?([^\"')\s;]+)", text)
        if not url.startswith("data:")
    }


def faults(site: Path) -> list[str]:
    """What does not lead anywhere, one sentence each."""
    pages = {path.resolve(): _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for sheet in sorted(site.rglob("*.css")):
        elsewhere = [url for url in sorted(_in_styles(sheet.read_text(encoding="utf-8"))) if urlsplit(url).netloc]
        found += [f"{sheet.relative_to(site)} loads {url} from elsewhere" for url in elsewhere]
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        found += [f"{name} loads {url} from elsewhere" for url in sorted(page.loaded) if urlsplit(url).netloc]
        for url in sorted(page.links | page.loaded):
            parts = urlsplit(url)
            if parts.scheme == "file":
                found.append(f"{name} links to {url}, a place on one machine")
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
