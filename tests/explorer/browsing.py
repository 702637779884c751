"""The explorer in a tab of a real Chromium: what a test does there, and what it reads off the figure."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from typing import Any

import numpy as np

from lazyrich.explorer.state import State
from lazyrich.explorer.stories import story_named
from lazyrich.explorer.view import view

__all__ = ["NEURON", "STATES", "Page", "free_port", "shows", "started", "state_of"]

#: The single neuron, whose parameter space is drawn.
NEURON = {"task": "random_regression", "d_in": 2, "start": "single_neuron", "scale": 1, "lam": -2}


def state_of(story: str, step: int = 0, **more: Any) -> dict[str, Any]:
    """What a step of a story shows."""
    told = story_named(story)
    return {**told.state, **told.steps[step].state, **more}


#: One of each kind.
STATES = {
    "staircase": state_of("staircase"),
    "lazy": state_of("lazy-rich"),
    "rich-fast": state_of("lazy-rich", 3),
    "delayed": state_of("delayed"),
    "forgetting": state_of("forgetting"),
    "saddle": state_of("saddle"),
}


def started(port: int = 0) -> tuple[subprocess.Popen, str]:
    """A server of its own, and its address."""
    command = [sys.executable, "-m", "lazyrich", "explore", "--no-browser", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://[\d.:]+\d", line)
    assert found is not None, line
    return process, found.group()


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Page:
    """A tab with the explorer in it, and what happened there."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        options = {"reduced_motion": "reduce", **options}  # nothing plays by itself
        self.context = browser.new_context(viewport={"width": 1300, "height": 1000}, **options)
        self.tab, self.address = self.context.new_page(), address
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.tab.on("console", lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None)
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        self.tab.on("request", lambda request: self.requests.append(request.url))

    def open(self, state: dict[str, Any] | None = None, **page: Any) -> Page:
        """As if its address had been opened; a tab that is there already is used again."""
        choices = {"story": "", **(state or {}), **page}
        address = "#" + urllib.parse.urlencode({k: json.dumps(v) for k, v in choices.items()})
        if self.tab.url.startswith(self.address):
            change = "history.replaceState(null, '', address); dispatchEvent(new HashChangeEvent('hashchange'))"
            self.tab.evaluate(f"address => {{ {change} }}", address)
        else:
            self.tab.goto(f"{self.address}/{address}")
        self.rest()
        return self

    def rest(self) -> None:
        """Until the figure is that of what was chosen last."""
        self.tab.wait_for_selector("body[data-drawn]:not(.waiting)", timeout=60_000)

    def settle(self) -> Page:
        """Until everything that was asked for has come: words, descent, and last the phase picture."""
        self.tab.wait_for_selector("body[data-settled]", timeout=60_000)
        return self

    @property
    def state(self) -> dict[str, Any]:
        """What the address says."""
        self.tab.wait_for_timeout(350)
        pairs = urllib.parse.parse_qsl(urllib.parse.urlparse(self.tab.url).fragment)
        return {name: json.loads(value) for name, value in pairs}

    def drawn(self, axis: str, style: str = "") -> list[np.ndarray]:
        """The curves in one of the three panels, without marks and levels."""
        return [y for _, y in self._traces(axis, style)]

    def dashed(self, axis: str) -> list[np.ndarray]:
        """Levels, and in the kernel's panel its threshold and its rotation."""
        return self.drawn(axis, "dash")

    def times(self) -> np.ndarray:
        """When the curves are drawn, as the server computed them: single precision, and so too the first and last."""
        return np.array(self._traces("loss", "")[0][0], dtype=float)

    def cursor_time(self) -> float:
        """When the pictures beside the curves are drawn."""
        share = float(self.tab.input_value("#time")) / 1000
        times = self.times()
        return float(times[np.argmin(np.abs(times - share * times[-1]))])

    def rings(self, axis: str) -> np.ndarray:
        """Times and values of the marks in a panel."""
        return np.concatenate([np.stack(pair, axis=1) for pair in self._traces(axis, "", "rings")])

    def _traces(self, axis: str, style: str, mode: str = "line") -> list[tuple[np.ndarray, np.ndarray]]:
        read = "t => [t.panel, t.kind, t.dash ?? '', Array.from(t.x), Array.from(t.y)]"
        now = "document.getElementById('plot').drawn.traces.filter(t => !t.pinned)"
        traces = self.tab.evaluate(f"() => {now}.map({read})")
        found = [(x, y) for name, kind, dash, x, y in traces if (name, kind, dash) == (axis, mode, style)]
        return [(np.array(x, dtype=float), np.array(y, dtype=float)) for x, y in found]

    def check(self) -> None:
        assert self.errors == []
        hosts = {urllib.parse.urlparse(url).netloc for url in self.requests if not url.startswith(("data:", "blob:"))}
        assert hosts == {urllib.parse.urlparse(self.address).netloc}


def shows(page: Page, state: dict[str, Any]) -> None:
    """The figure is that of this state."""
    expected = view(State.from_dict({**State().to_dict(), **state})).arrays
    loss, modes = page.drawn("loss"), page.drawn("modes")
    np.testing.assert_array_equal(np.array(loss).T, np.float32(expected["loss"]))
    shown = np.append(True, np.diff(expected["times"]) > 0)  # no stroke from one task to the next
    np.testing.assert_array_equal(np.array(modes).T[shown], np.float32(expected["modes"][shown, :16]))
    np.testing.assert_array_equal(page.drawn("kernel")[0][shown], np.float32(expected["movement"][shown]))
    assert np.isnan(np.array(modes).T[~shown]).all()
