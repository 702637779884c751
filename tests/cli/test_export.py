"""`lazyrich export`: what it writes and says, and what it refuses before it computes."""

from __future__ import annotations

import json

import pytest

from lazyrich.cli import main

pytestmark = pytest.mark.timeout(300)


def answer(capsys, *arguments):
    status = main(["export", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out, err


def test_help_ends_with_an_example(capsys):
    status, out, err = answer(capsys, "--help")
    assert (status, err) == (0, "") and out.rstrip().endswith(
        "example:\n  lazyrich export story.html --story staircase"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["story.txt"], "must end in .html"),
        (["none/story.html"], "does not exist"),
        (["story.html", "--story", "nothing"], "there is no story 'nothing': try staircase"),
        (["story.html", "--own", "http://127.0.0.1:8765/"], "--own must be the address of a view"),
        (["story.html", "--own", "#scale=a"], "--own must have JSON values, and scale is 'a'"),
        (["story.html", "--own", "#size=3"], "each name in state must be one of"),
        (["story.html", "--own", "#scale=-1"], "scale must lie between"),
    ],
)
def test_bad_input_gets_one_sentence(capsys, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    status, out, err = answer(capsys, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1) and words in err and err.endswith(".\n")
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_it_says_what_to_install(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("lazyrich.cli.export.find_spec", lambda name: None)
    status, _, err = answer(capsys, tmp_path / "story.html")
    assert status == 2 and "pip install 'lazyrich[explorer]'" in err


@pytest.mark.long
def test_a_view_of_ones_own_in_one_file(capsys, tmp_path):
    own = "http://127.0.0.1:8765/#task=%22own%22&matrix=%223+0%3B+0+2%22&width=4&scale=0.05&cursor=0.4"
    status, out, err = answer(capsys, tmp_path / "mine.html", "--own", own, "--json")
    told = json.loads(out)
    assert (status, err) == (0, "") and told["stories"] == ["own"] and told["states"] == 21
    assert (tmp_path / "mine.html").stat().st_size == told["bytes"] < 1_000_000
    assert [file.name for file in tmp_path.iterdir()] == ["mine.html"]
