"""Mathematics as MathML: LaTeX is converted when the site is built, and browsers draw it by themselves.

latex2mathml does the work. It passes over what it does not know; here that is a warning, which a strict build turns
into a failure. What it lacks is put into words that it knows (`_WORDS`), and what browsers would set too wide, too
narrow or too tall is put right afterwards (`_spaced`, `_sized`).
"""

from __future__ import annotations

import re
from html import escape
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

_WORDS = [
    (r"\\(begin|end)\{(?:aligned|split|align)\}", r"\\\1{align*}"),
    (r"\\(?:operatorname\*?\{arg\\,(min|max)\}|arg\s*\\(min|max)(?![A-Za-z]))", r"\\arg\1\2"),
    (r"\\operatorname\*", r"\\operatorname"),
    (r"\\(math[a-z]+|boldsymbol)\s+([A-Za-z0-9])", r"\\\1{\2}"),
    (r"\\!", ""),  # browsers have no negative space
]
_NAME = re.compile(r"[A-Za-z]{2,}(\u2009[a-z]+)?")  # of a function: tr, log, arg min
_LIMITS = {"lim", "max", "min", "sup", "inf", "arg\u2009min", "arg\u2009max"}
_ARROW = re.compile(r"[\u2190-\u21ff\u27f0-\u27ff]")
_DOTS = {"˙": ".", "¨": ".."}  # as accents, the dots of some fonts sink into a W
_ACCENTS = {"^", "~", "˜", "¯", "\u2015", "→"}
_THIN = "0.167em"
_logger = logging.getLogger(__name__)

Element = ElementTree.Element


class NotMathematics(ValueError):
    """A formula that cannot be converted, and why."""


def to_mathml(latex: str, *, display: bool = False) -> str:
    """The formula as a `<math>` element; `NotMathematics` if some of it would be lost."""
    _check_braces(latex)
    text = latex
    for pattern, word in _WORDS:
        text = re.sub(pattern, word, text)
    try:
        mathml = convert(text, display="block" if display else "inline")
        math = ElementTree.fromstring(mathml.replace(' xmlns="http://www.w3.org/1998/Math/MathML"', ""))
    except Exception as error:  # of many kinds, some without a message
        raise NotMathematics(f"{type(error).__name__}, {error}: {latex}") from error
    for element in math.iter():
        if element.text and re.fullmatch(r"\\[A-Za-z]*|&", element.text):
            raise NotMathematics(f"{element.text} is not known: {latex}")
        _sized(element, display=display)
    for row in list(math.iter()):
        if row.tag in {"mrow", "mtd", "mstyle"}:
            row[:] = _spaced(list(row))
    return ElementTree.tostring(math, encoding="unicode")


def _check_braces(latex: str) -> None:
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", latex):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            break
    if depth:
        raise NotMathematics(f"its braces do not match: {latex}")


def _sized(element: Element, *, display: bool) -> None:
    """What single symbols need: height, slant and space as TeX has them."""
    text = element.text or ""
    if element.tag == "mover" and element[1].text in _DOTS:
        element.attrib.update({"accent": "true", "class": "dot"})
        element[1].text = _DOTS[element[1].text]
    elif element.tag == "mover" and element[1].text in _ACCENTS:
        narrow = len("".join(element[0].itertext())) == 1 and element[1].text in "^~˜"
        element.set("accent", "false" if narrow else "true")  # a script over one letter, an accent over more
        element[1].set("stretchy", "false" if narrow else "true")
    elif element.tag == "msub" and display and element[0].text in _LIMITS:
        element.tag = "munder"
    elif element.tag == "mo" and text in {"|", "‖", "/"} and element.get("stretchy") != "true":
        element.attrib.update(stretchy="false", lspace="0", rspace="0")
    elif element.tag == "mo" and text == "∞":
        element.tag = "mi"
    elif element.tag == "mi" and _ARROW.fullmatch(text):
        element.tag = "mo"
    elif element.tag == "mi" and re.fullmatch("[Α-Ω]", text):
        element.attrib.setdefault("mathvariant", "normal")


def _spaced(row: list[Element]) -> list[Element]:
    """A function's name is no operator: thin spaces set it off from its neighbours, but not from parentheses."""
    spaced: list[Element] = []
    for before, element, after in zip([None, *row], row, [*row[1:], None], strict=False):
        if not _is_name(element):
            spaced.append(element)
            continue
        if before is not None and before.tag not in {"mo", "mspace"} and not _is_name(before):
            spaced.append(Element("mspace", width=_THIN))
        spaced.append(element)
        if after is not None and (_is_name(after) or after.tag not in {"mo", "mspace", "mtable"}):
            spaced.append(Element("mspace", width=_THIN))
    return spaced


def _is_name(element: Element) -> bool:
    base = element[0] if element.tag in {"msub", "msup", "msubsup", "munder"} and len(element) else element
    if base.tag not in {"mi", "mo"} or not _NAME.fullmatch(base.text or ""):
        return False
    base.set("lspace", "0")
    base.set("rspace", "0")
    return True


def _converted(node: nodes.Element, *, display: bool) -> str:
    latex = node.astext().strip()
    try:
        return to_mathml(latex, display=display)
    except NotMathematics as error:
        _logger.warning("a formula cannot be converted: %s", error, location=node)
        return f"<code>{escape(latex)}</code>"


def _visit_inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(_converted(node, display=False))
    raise nodes.SkipNode


def _visit_display(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(translator.starttag(node, "div", CLASS="formula"))
    translator.body.append(_converted(node, display=True))
    if node["number"]:
        number = get_node_equation_number(translator, node)
        translator.body.append(f'<span class="eqno">({number})')
        translator.add_permalink_ref(node, "Link to this equation")
        translator.body.append("</span>")
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
