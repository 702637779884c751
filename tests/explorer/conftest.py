"""The server, the browser and the tab that the explorer's tests share."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from .browsing import Page, free_port, started
from .serving import Running

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET = (
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def running():
    started = Running()
    yield started
    started.stop()


@pytest.fixture(scope="package")
def address() -> Iterator[str]:
    process, url = started(free_port())
    yield url
    process.send_signal(signal.SIGINT)
    assert process.wait(30) in (0, 130)


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """One for all pages. While it is open Playwright's event loop runs in this thread, and asyncio.run refuses."""
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("NO BROWSER: the explorer's page was NOT tested; `make browser` says how to install Chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=list(QUIET))
        yield running
        running.close()


@pytest.fixture(scope="module")
def tab(browser: Any, address: str) -> Iterator[Page]:
    opened = Page(browser, address)
    yield opened
    opened.context.close()


@pytest.fixture
def in_a_thread() -> Callable[[Any], Any]:
    """Runs a coroutine where no event loop is running, whatever a browser does in this thread."""

    def run(coroutine: Any) -> Any:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, coroutine).result()

    return run


@pytest.fixture
def page(tab: Page) -> Iterator[Page]:
    """One tab for all: opening a page takes seconds."""
    tab.errors.clear()
    yield tab
    tab.check()
