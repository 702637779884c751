"""The progress bar shows where somebody looks, after a while, also before the first step has ended."""

from __future__ import annotations

import time

import lazyrich._progress as room


def test_a_first_step_that_takes_long_is_not_silent(monkeypatch, capsys):
    monkeypatch.setenv("LAZYRICH_PROGRESS", "1")
    monkeypatch.setattr(room, "_DELAY", 0.05)
    with room.progress(10.0, "compiling") as advance:
        time.sleep(0.3)
        shown = capsys.readouterr().err
        advance(10.0)
    assert "compiling:   0%" in shown


def test_what_is_quick_is_silent(monkeypatch, capsys):
    monkeypatch.setenv("LAZYRICH_PROGRESS", "1")
    with room.progress(10.0, "quick") as advance:
        advance(10.0)
    assert "quick" not in capsys.readouterr().err.strip()
