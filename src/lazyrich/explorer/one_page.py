"""The explorer as one HTML page, which opens from a disk and asks nobody for anything.

It is the live page with its files put in: style sheet, icon, modules as one script, and a recording of the states
that it shows. Its policy (CSP) forbids every request.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path

PAGE = Path(__file__).parent / "page"

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
    "form-action 'none'"
)
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./([\w.]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


def page_with(recording: str) -> str:
    """The page around a recording."""
    icon = base64.b64encode((PAGE / "icon.svg").read_bytes()).decode()
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    put_in = {
        '<meta charset="utf-8">': f'<meta charset="utf-8">\n  {policy}',
        'href="/page/icon.svg"': f'href="data:image/svg+xml;base64,{icon}"',
        '<link rel="stylesheet" href="/page/style.css">': f"<style>\n{(PAGE / 'style.css').read_text('utf-8')}</style>",
        '  <script type="module" src="/page/main.js"></script>\n': "",
        '      <a class="live" href="/help" target="_blank" rel="noopener">Help</a>\n': "",  # the server has it
        "</body>": f'<script type="text/plain" id="recording">{recording}</script>\n'
        f'<script type="module">\n{script("main.js")}</script>\n</body>',
    }
    text = (PAGE / "index.html").read_text("utf-8")
    for place, content in put_in.items():
        assert text.count(place) == 1, place
        text = text.replace(place, content)
    return text


def script(first: str) -> str:
    """A module and all that it needs as one script: each becomes a function that gives its exports back."""
    found: dict[str, str] = {}

    def take(name: str) -> None:
        if name in found:
            return
        source = (PAGE / name).read_text("utf-8")
        for _, needed in _IMPORT.findall(source):
            take(needed)
        exports = ", ".join(made for _, made in _EXPORT.findall(source))
        body = _EXPORT.sub(r"\1", _IMPORT.sub(r'const \1 = modules["\2"];', source))
        found[name] = f'modules["{name}"] = await (async () => {{\n{body}return {{ {exports} }};\n}})();\n'

    take(first)
    return "const modules = {};\n" + "".join(found.values())
