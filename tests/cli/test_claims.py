"""`lazyrich claims`: the table, one claim in full, JSON, what it refuses, and its exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import lazyrich as lr
from lazyrich.cli import main
from lazyrich.papers import Finding, Verdict, ledger

ENVIRONMENT = {"PYTHONPATH": os.pathsep.join([str(Path(lr.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])}
FEW = ["post/equation-9", "notes/loss-identity"]


def answer(capsys, *arguments):
    status = main(["claims", *arguments])
    return status, *capsys.readouterr()


def test_help_ends_with_an_example(capsys):
    status, out, err = answer(capsys, "--help")
    assert (status, err) == (0, "") and out.rstrip().endswith("lazyrich claims --source braun2022 --seeds 20")


def test_the_table_has_the_measured_errors(capsys):
    status, out, err = answer(capsys, *FEW, "--seeds", "2", "--workers", "1")
    lines = out.splitlines()
    assert (status, err) == (0, "") and lines[0].split()[:5] == ["claim", "verdict", "error", "fails", "instead"]
    assert lines[1].startswith("post/equation-9      holds") and " 0/2 " in lines[1]
    assert lines[2].startswith("notes/loss-identity  wrong as printed") and " 2/2 " in lines[2]
    assert lines[-3].startswith("2 claims on 2 problems each in ") and lines[-1] == "no verdict has changed"
    assert lines[-2] == "1 claim not right as printed, 1 distinct slip"


@pytest.mark.long
def test_every_claim_has_its_own_number_of_seeds(capsys):
    names = ["post/equation-9", "kunin2024/theorem-6"]
    few, more = (ledger()[name].seeds for name in names)
    _, out, _ = answer(capsys, *names, "--workers", "1")
    assert 3 == few < more and f"\n2 claims on {few} to {more} problems each in " in out
    document = json.loads(answer(capsys, *names, "--workers", "1", "--json")[1])
    assert document["seeds"] is None
    assert [(entry["seeds"], len(entry["errors"])) for entry in document["claims"]] == [(few, few), (more, more)]


def test_claims_that_are_named_are_shown_in_full(capsys):
    _, out, _ = answer(capsys, "notes/loss-identity", "--seeds", "1", "--workers", "1")
    claim = ledger()["notes/loss-identity"]
    flat = " ".join(out.split())
    assert claim.statement in flat and claim.conditions in flat and claim.amendment.statement in flat
    assert "Counterexample: One input and one output" in flat and "Printed 0.0, truth 0.5." in flat


def test_json(capsys):
    status, out, err = answer(capsys, *FEW, "--seeds", "2", "--workers", "1", "--json")
    document = json.loads(out)
    assert (status, err, document["changed"], document["seeds"]) == (0, "", False, 2)
    first, second = document["claims"]
    assert first["measured"] == first["on_record"] == "holds" and len(first["errors"]) == 2
    assert first["amendment"] is None and first["margin"] > 1
    assert (second["counterexample_printed"], second["counterexample_truth"]) == (0.0, 0.5)
    assert second["amendment"]["formula"] == ledger()["notes/loss-identity"].amendment.formula


def test_a_formula_stands_whole_and_once(capsys):
    """What holds under a stronger condition is the printed formula: it is not said again."""
    _, out, _ = answer(capsys, "kunin2024/a-upstream", "--seeds", "1", "--workers", "1")
    parts = [part.strip() for part in ledger()["kunin2024/a-upstream"].formula.split(r"\qquad")]
    lines = [line.strip() for line in out.splitlines()]
    assert len(parts) == 3 and [line for line in lines if line.startswith(("a(t)", "Y =", "b_0"))] == parts


def test_where_a_formula_has_no_value_that_is_said(capsys):
    """A number in the counterexample, and the errors of every draw: neither is printed as nan."""
    _, out, _ = answer(capsys, "kunin2024/a-upstream", "saxe2014/equations-25-26", "--seeds", "1", "--workers", "1")
    assert "nan" not in out and out.splitlines()[2].split()[-6:-3] == ["no", "value", "1/1"]
    assert "Printed no value, truth 2.0." in " ".join(out.split())


def test_a_name_given_twice_counts_once(capsys):
    _, out, _ = answer(capsys, "post/equation-9", "post/equation-9", "--seeds", "1", "--workers", "1")
    assert "\n1 claim on one problem each in " in out


@pytest.mark.processes
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_it_soon():
    command = [sys.executable, "-m", "lazyrich", "claims", "--source", "notes", "--seeds", "200", "--workers", "2"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | ENVIRONMENT)
    with pytest.raises(subprocess.TimeoutExpired):
        run.wait(8)
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=60)
    assert run.returncode == 130 and out == b""


def test_a_source(capsys):
    status, out, _ = answer(capsys, "--source", "saxe2014", "--seeds", "1", "--workers", "1")
    assert status == 0 and len(out.split("\n\n")[0].splitlines()) == 1 + len(ledger("saxe2014"))


def test_the_list_tries_nothing(capsys, monkeypatch):
    monkeypatch.setattr("lazyrich.papers.try_claims", None)
    status, out, _ = answer(capsys, "--list")
    assert status == 0 and all(name in out for name in ledger()) and "not checked: notes, References" in out
    document = json.loads(answer(capsys, "--list", "--source", "notes", "--json")[1])
    assert [entry["claim"] for entry in document["claims"]] == list(ledger("notes")) and document["not_checked"]


def test_claims_that_share_a_slip_are_shown_together(capsys):
    names = ["notes/gap-time", "notes/near-degeneracy", "notes/stage-r", "post/equation-9"]
    out = " ".join(answer(capsys, "--list", *names)[1].split())
    assert "3 claims not right as printed, 2 distinct slips notes/gap, in 2 claims The gap to the next mode" in out
    assert out.endswith("notes/gap-time, notes/near-degeneracy")  # and the slip of one claim alone is its verdict
    document = json.loads(answer(capsys, "--list", "--json", *names)[1])
    assert [slip["claims"] for slip in document["slips"]] == [names[:2], names[2:3]]
    assert [entry["slips"] for entry in document["claims"]] == [["notes/gap"], ["notes/gap"], ["notes/stage-r"], []]


@pytest.mark.parametrize("fault", [(), ("ValueError: no",)])
def test_a_changed_verdict_is_exit_status_1(capsys, monkeypatch, fault):
    claim = ledger()["post/equation-9"]
    found = Finding(claim, (0.5,), (), None, faults=fault)
    monkeypatch.setattr("lazyrich.papers.try_claims", lambda *_, **__: [found])
    status, out, _ = answer(capsys, "post/equation-9")
    assert status == 1 and found.measured is Verdict.FAILS
    assert "fails (on record: holds)" in out and out.endswith("VERDICTS CHANGED: post/equation-9\n")
    assert ("could not be tried: ValueError: no" in out) == bool(fault)
    status, out, err = answer(capsys, "post/equation-9", "--json")
    assert status == 1 and json.loads(out)["changed"] and err.endswith("VERDICTS CHANGED: post/equation-9\n")


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["post/equation-8x"], "there is no claim 'post/equation-8x' (did you mean post/equation-"),
        (["qzx"], f"there is no claim 'qzx': lazyrich claims --list names all {len(ledger())}."),
        (["--source", "braun"], "invalid choice: 'braun'"),
        (["--seeds", "0"], "seeds must be"),
        (["--seeds", "many"], "invalid int value: 'many'"),
        (["--workers", "0"], "workers must be"),
        (["post/equation-9", "--source", "notes"], "there is no claim 'post/equation-9' in notes, but one in post"),
        (
            ["notes"],
            "there is no claim 'notes', but a source of that name: try --source notes (source='notes' in Python)",
        ),
    ],
)
def test_bad_input_is_one_sentence(capsys, arguments, words):
    status, out, err = answer(capsys, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1) and words in err
