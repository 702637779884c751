"""What can be known of the site without building it: `make docs` does the rest."""

from __future__ import annotations

import json
import re

import pytest

import lazyrich as lr
from lazyrich.cli import main

from . import DOCS

import ledger as ledger_page  # isort: skip
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

    def test_of_the_ledger_is_converted(self, subtests):
        for name, claim in CLAIMS.items():
            with subtests.test(name):
                to_mathml(claim.formula, display=True)
                if claim.amendment:
                    to_mathml(claim.amendment.formula, display=True)


class TestLedger:
    def test_has_every_claim_and_what_was_not_checked(self):
        page = ledger_page.page({})
        for name in CLAIMS:
            assert f"({ledger_page.anchor(name)})=\n" in page and f"](#{ledger_page.anchor(name)})" in page
        for entry in lr.papers.not_checked():
            assert entry.statement in page and entry.why in page

    def test_groups_the_claims_that_share_a_slip(self):
        page = ledger_page.page({})
        assert f"come from {len(lr.papers.slips(CLAIMS.values()))} distinct slips." in page
        links = "[gap-time](#claim-notes-gap-time), [near-degeneracy](#claim-notes-near-degeneracy)"
        assert f"own strength sets. {links}\n" in page.partition("### One slip, several claims")[2]
        assert "The same slip: [near-degeneracy](#claim-notes-near-degeneracy)." in page

    def test_anchors_differ(self):
        assert len({ledger_page.anchor(name) for name in CLAIMS}) == len(CLAIMS)

    def test_has_what_was_measured(self, capsys):
        names = ["notes/loss-identity", "post/equation-9"]
        assert main(["claims", *names, "--seeds", "2", "--workers", "1", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        page = ledger_page.page({entry["claim"]: entry for entry in document["claims"]}, document["seeds"])
        assert "The numbers below are from 2 problems for each claim." in page
        own = ledger_page.page({entry["claim"]: entry for entry in document["claims"]})
        assert "The numbers below are from as many problems as each claim needs." in own
        assert "**Wrong as printed.** It fails on 2 of 2 problems, with an error of up to " in page
        assert "As printed: 0. In truth: 0.5." in page
        assert re.search(
            r"\*\*Holds\.\*\* The largest error on 2 problems is .*e-1\d, 10. times below the tolerance", page
        )


class TestPages:
    def test_are_all_in_a_table_of_contents(self):
        texts = {"ledger": ""} | {f"reference/{name}": text for name, text in pages().items()}
        for path in DOCS.rglob("*.md"):
            texts.setdefault(path.relative_to(DOCS).with_suffix("").as_posix(), path.read_text(encoding="utf-8"))
        entered = {"index"}
        for page, text in texts.items():
            folder = page.rpartition("/")[0]
            for contents in re.findall(r"^```\{toctree\}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
                entries = [line for line in contents.splitlines() if line and not line.startswith(":")]
                names = [re.sub(r".*<(.*)>", r"\1", entry) for entry in entries]
                entered |= {f"{folder}/{name}".lstrip("/") for name in names}
        assert entered == set(texts)


class TestLinks:
    @pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
    def test_of_the_files_that_are_read_on_a_code_host_lead_to_files(self, name):
        text = (DOCS.parent / name).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            assert target.startswith("https://") or (DOCS.parent / target).is_file(), target
            assert not re.search(r"docs/(ledger|reference)", target), "made by `make docs` alone"

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
