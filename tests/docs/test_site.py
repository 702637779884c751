"""What can be known of the site without building it: `make docs` does the rest."""

from __future__ import annotations

import json
import re
import shlex

import pytest

import lazyrich as lr
from lazyrich.cli import _parser, main

from . import DOCS

import architecture  # isort: skip
import ledger as ledger_page  # isort: skip
import lessons  # isort: skip
import paper_pages  # isort: skip
from check_links import faults  # isort: skip
from mathml import NotMathematics, to_mathml  # isort: skip
from reference import pages  # isort: skip

CLAIMS = lr.papers.ledger()
FORMULAS = {
    r"\dot Q = FQ - \tfrac12 QQ^\top Q": "<mfrac>",
    r"\begin{pmatrix} -\frac{\lambda}{2} I & \Sigma^\top \\ \Sigma & 0 \end{pmatrix}": "<mtable>",
    r"f = \begin{cases} a & x > 0 \\ b & \text{otherwise} \end{cases}": "otherwise",
    r"\begin{aligned} a &= b \\ &= c \end{aligned}": 'columnalign="right"',
    r"\sum_{\alpha \in S} s_\alpha u_\alpha v_\alpha^\top": "∑",
    r"\dot W_1": '<mover accent="true" class="dot"><mi>W</mi><mo>.</mo></mover>',
    r"\widehat{AB}": '<mo stretchy="true">^</mo>',
    r"\arg\min_\beta \Psi(\beta)": "arg\u2009min",
    r"\operatorname*{arg\,min}_\beta \Psi(\beta)": "arg\u2009min",
    r"\mathbb R^n": "ℝ",
    r"2\log\det M": '<mspace width="0.167em" />',
    r"\lim_{t \to \infty} W(t)": "<munder>",
}
BROKEN = [r"\foo x", r"\frac{1}{2", "x}", r"\begin{foo} a & b \end{foo}", "a & b"]


class TestMathematics:
    @pytest.mark.parametrize("formula", FORMULAS)
    def test_is_converted(self, formula):
        assert FORMULAS[formula] in to_mathml(formula, display=True)

    @pytest.mark.parametrize("formula", BROKEN)
    def test_that_would_be_lost_is_refused(self, formula):
        with pytest.raises(NotMathematics, match=re.escape(formula)):
            to_mathml(formula)

    def test_of_the_ledger_is_converted(self):
        for claim in CLAIMS.values():
            to_mathml(claim.formula, display=True)
            if claim.amendment:
                to_mathml(claim.amendment.formula, display=True)


class TestLedger:
    def test_has_every_claim_on_the_page_of_its_source_and_what_was_not_checked(self):
        pages = ledger_page.pages({})
        assert set(pages) == {"index", *(claim.source for claim in CLAIMS.values())}
        for name, claim in CLAIMS.items():
            anchor = ledger_page.anchor(name)
            assert f"({anchor})=\n" in pages[claim.source] and f"](#{anchor})" in pages[claim.source]
            assert (f"](#{anchor})" in pages["index"]) == (claim.verdict is not lr.papers.Verdict.HOLDS)
        for entry in lr.papers.not_checked():
            assert entry.statement in pages[entry.source] and entry.why in pages[entry.source]

    def test_groups_the_claims_that_share_a_slip(self):
        pages = ledger_page.pages({})
        assert f"come from {len(lr.papers.slips(CLAIMS.values()))} distinct slips." in pages["index"]
        links = "[gap-time](#claim-notes-gap-time), [near-degeneracy](#claim-notes-near-degeneracy)"
        assert f"own strength sets. {links}\n" in pages["index"].partition("### One slip, several claims")[2]
        assert "The same slip: [near-degeneracy](#claim-notes-near-degeneracy)." in pages["notes"]

    def test_can_be_filtered_by_the_verdicts_that_a_source_has(self):
        """A button for each, with its count; the style sheet hides by the badge that the claims carry."""
        sheet = (DOCS / "_static" / "site.css").read_text(encoding="utf-8")
        for source, page in ledger_page.pages({}).items():
            claims = lr.papers.ledger(source).values() if source != "index" else []
            for verdict in ledger_page.VERDICTS:
                count = sum(claim.verdict is verdict for claim in claims)
                button = f'id="show-{verdict.name.lower()}"> {verdict} ({count})'
                assert (button in page) == (count > 0)
                badge = f"sd-bg-{ledger_page._BADGES[verdict]}"
                assert re.search(rf"#show-{verdict.name.lower()}:checked.*{badge}", sheet)
                assert page.count(f"{{bdg-{ledger_page._BADGES[verdict]}}}") == 2 * count  # in its table and above it

    def test_anchors_differ(self):
        assert len({ledger_page.anchor(name) for name in CLAIMS}) == len(CLAIMS)

    def test_has_what_was_measured(self, capsys):
        names = ["notes/loss-identity", "post/equation-9"]
        assert main(["claims", *names, "--seeds", "2", "--workers", "1", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        measured = {entry["claim"]: entry for entry in document["claims"]}
        pages = ledger_page.pages(measured, document["seeds"])
        assert "The numbers below are from 2 problems for each claim." in pages["notes"]
        own = ledger_page.pages(measured)
        assert "The numbers below are from as many problems as each claim needs." in own["notes"]
        assert "**Wrong as printed.** It fails on 2 of 2 problems, with an error of up to " in pages["notes"]
        assert "As printed: 0. In truth: 0.5." in pages["notes"]
        assert re.search(
            r"\*\*Holds\.\*\* The largest error on 2 problems is .*e-1\d, 10. times below the tolerance", pages["post"]
        )


class TestHouse:
    def test_rooms_stand_above_all_that_they_import(self):
        found = architecture.house()
        height = {room: level for level, layer in enumerate(found.layers) for room in layer}
        assert height["tasks"] < height["problem"] < height["trajectory"] < height["observables"] < height["papers"]
        assert height[architecture.FACE] < height["papers"] < height["cli"] and height["explorer"] < height["cli"]
        assert ("trajectory", "certificate") in found.arrows
        assert all(height[room] == height[other] + 1 for room, other in found.arrows)

    def test_every_line_of_the_package_is_in_one_room(self):
        source = DOCS.parent / "src" / "lazyrich"
        lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in source.rglob("*.py"))
        assert sum(architecture.house().lines.values()) == lines

    def test_the_table_says_what_each_room_holds(self):
        rows = architecture.table(architecture.house()).splitlines()[2:-1]
        assert len(rows) > 15 and not [row for row in rows if "|  |" in row]


class TestGallery:
    def test_says_what_the_figures_say(self):
        """Pictures and numbers take `make gallery`; the words beside them must be those of today."""
        page = (DOCS / "gallery" / "README.md").read_text(encoding="utf-8")
        sections = page.split("\n### ")
        for known in map(lr.papers.figure, lr.papers.figures()):
            (section,) = [part for part in sections if f"`lazyrich figure {known.name}`" in part]
            calls = ", ".join(f"`{call}`" for call in known.calls)
            assert section.startswith(f"{known.title}\n") and known.about in section, known.name
            assert f"built on {calls}." in section, known.name
            checks = re.findall(r"^- (.*): \S+$", section, re.MULTILINE)
            assert checks == [str(check) for check in known.checks.values()], known.name


class TestPages:
    def test_are_all_in_a_table_of_contents(self):
        made = {"reference": pages(), "ledger": ledger_page.pages({}), "papers": paper_pages.pages()}
        texts = {f"{folder}/{name}": text for folder, found in made.items() for name, text in found.items()}
        for path in DOCS.rglob("*.md"):
            if path.parent.name not in ("generated", *made):
                texts[path.relative_to(DOCS).with_suffix("").as_posix()] = path.read_text(encoding="utf-8")
        entered = {"index"}
        for page, text in texts.items():
            folder = page.rpartition("/")[0]
            for contents in re.findall(r"^```\{toctree\}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
                entries = [line for line in contents.splitlines() if line and not line.startswith(":")]
                names = [re.sub(r".*<(.*)>", r"\1", entry) for entry in entries]
                entered |= {f"{folder}/{name}".lstrip("/") for name in names}
        assert entered == set(texts)

    def test_code_fits_its_column(self):
        """121 characters at 1400 pixels, half of it in the cards of the first page; what is printed wraps."""
        for path in DOCS.rglob("*.md"):
            text = path.read_text(encoding="utf-8")
            for fence, code in re.findall(r"^```(\S.*?)$(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
                if fence.startswith(("python", "console", "toml", "{code")):
                    longest = max(code.splitlines(), key=len)
                    assert len(longest) <= 121, f"{path.name}: {longest}"
        cards = (DOCS / "index.md").read_text(encoding="utf-8").partition(":::::{grid}")[2].partition(":::::")[0]
        blocks = re.findall(r"^```(?:python|console)\n(.*?)^```$", cards, flags=re.DOTALL | re.MULTILINE)
        assert len(blocks) == 4 and max(len(line) for block in blocks for line in block.splitlines()) <= 50


class TestCommands:
    def test_that_pages_show_are_understood_and_name_what_is_there(self):
        """Those with words in capitals or three dots in them are forms to fill in."""
        known = {"figure": lr.papers.figures(), "sweep": lr.papers.sweeps()}
        known["experiment"] = [name.partition("/")[2] for name in lr.papers.experiments()]
        pages = [
            DOCS.parent / "README.md",
            *DOCS.glob("*.md"),
            *DOCS.glob("notebooks/*.md"),
            *DOCS.glob("gallery/*.md"),
        ]
        found = set()
        for path in pages:
            text = path.read_text(encoding="utf-8")
            found |= set(
                re.findall(r"(?:^\$ |`|&& )(?:\.venv/bin/)?lazyrich ([a-z][^`#\n]*?)(?: +#.*)?(?:`|$)", text, re.M)
            )
        assert len(found) > 60
        for command in found:
            words = shlex.split(command)
            if len(words) > 1 and not re.search(r"\b[A-Z]{3,}|…|\$", command) and "baldi1989" not in command:
                arguments = vars(_parser().parse_args(words))
                named = arguments.get("names", [arguments.get(words[0])]) if words[0] in known else []
                for name in filter(None, named):
                    assert name in known[words[0]] or name.endswith(".toml") or name in {"all", "saxe2014/logistic"}, (
                        command
                    )


class TestLinks:
    @pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
    def test_of_the_files_that_are_read_on_a_code_host_lead_to_files(self, name):
        text = (DOCS.parent / name).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            assert target.startswith("https://") or (DOCS.parent / target).is_file(), target
            assert not re.search(r"docs/(ledger|papers|generated|reference)", target), "made by `make docs` alone"

    def test_that_lead_nowhere_are_found(self, tmp_path):
        (tmp_path / "there.html").write_text('<h1 id="top"></h1><script src="https://example.org/x.js"></script>')
        (tmp_path / "index.html").write_text(
            '<a href="there.html#top"></a><a href="there.html#bottom"></a><a href="gone.html"></a><img src="gone.png">'
            '<a href="https://example.org"></a><a href="file:///nowhere"></a>'
            '<img srcset="https://example.org/x.png 2x">'
            "<style>@import url(https://example.org/y.css); a { background: url(data:x) }</style>"
        )
        (tmp_path / "site.css").write_text('@font-face { src: url("https://example.org/z.woff") }')
        assert faults(tmp_path) == [
            "site.css loads https://example.org/z.woff from elsewhere",
            "index.html loads https://example.org/x.png from elsewhere",
            "index.html loads https://example.org/y.css from elsewhere",
            "index.html links to file:///nowhere, a place on one machine",
            "index.html links to gone.html, which is not there",
            "index.html links to gone.png, which is not there",
            "index.html links to there.html#bottom, which has no such anchor",
            "there.html loads https://example.org/x.js from elsewhere",
        ]


class TestLessons:
    @pytest.mark.parametrize("page", sorted((DOCS / "notebooks").glob("*.md")), ids=lambda page: page.stem)
    def test_are_notebooks_with_the_same_code_and_answers(self, page):
        text = page.read_text(encoding="utf-8")
        if page.stem == "index":
            assert all(f'href="{other.stem}.ipynb"' in text for other in page.parent.glob("*.md") if other != page)
            return
        made = json.loads(lessons.notebook(text))
        cells = made["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        assert len(code) == text.count("```{code-cell}") and not any(cell["outputs"] for cell in code)
        prose = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        assert "{admonition}" not in prose and "{dropdown}" not in prose and ".md)" not in prose
        assert prose.count("<details>") == text.count("{admonition}") + text.count("{dropdown}")
        assert made == json.loads(lessons.notebook(text))  # the same again
