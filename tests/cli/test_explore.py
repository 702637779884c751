"""`lazyrich explore`: what it refuses, where it serves, how it ends."""

from __future__ import annotations

import logging
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request

import pytest

from lazyrich.cli import main
from lazyrich.explorer import server

pytestmark = pytest.mark.timeout(120)


def answer(capsys, *arguments):
    status = main(["explore", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def refused(capsys, *arguments):
    status, out, err = answer(capsys, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1) and err.startswith("lazyrich") and err.endswith(".\n")
    return err


@pytest.fixture
def served(monkeypatch):
    """What would be served and opened, without serving it."""
    told = {}
    opened = threading.Event()

    def run(web, sockets):
        told["place"] = sockets[0].getsockname()[:2]
        raise KeyboardInterrupt  # as uvicorn does in the end

    def browse(address):
        told["browser"] = address
        opened.set()

    monkeypatch.setattr("uvicorn.Server.run", run)
    monkeypatch.setattr("webbrowser.open", browse)
    told["opened"] = opened
    return told


def test_help_ends_with_an_example(capsys):
    status, out, err = answer(capsys, "--help")
    assert (status, err) == (0, "") and out.rstrip().endswith("example:\n  lazyrich explore")


def test_it_serves_this_machine_and_opens_a_page(capsys, served):
    status, out, err = answer(capsys, "--port", "0")
    host, port = served["place"]
    assert (status, host, err) == (0, "127.0.0.1", "")
    assert out.splitlines() == [f"The explorer is at http://127.0.0.1:{port}/ until Ctrl-C."]
    assert served["opened"].wait(60) and served["browser"] == f"http://127.0.0.1:{port}/"


def test_no_browser(capsys, served):
    before = threading.active_count()
    assert answer(capsys, "--port", "0", "--no-browser")[0] == 0
    assert threading.active_count() == before and not served["opened"].is_set()


def test_handlers_of_other_libraries_stay_open(capsys, served):
    """absl's closes the stream it writes to: once that was standard error of all the tests."""
    closed = []

    class Theirs(logging.Handler):
        def close(self):
            closed.append(True)
            super().close()

    handler = Theirs()
    assert answer(capsys, "--port", "0", "--no-browser")[0] == 0
    assert not closed and handler.close() is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "lab.example", ""])
def test_other_machines_need_a_flag(capsys, served, host):
    told = refused(capsys, "--host", host, "--no-browser")
    assert "--allow-other-hosts" in told and "place" not in served


def test_with_the_flag_other_machines_may_come(capsys, served):
    status, out, _ = answer(capsys, "--host", "0.0.0.0", "--allow-other-hosts", "--port", "0", "--no-browser")
    host, port = served["place"]
    assert (status, host) == (0, "0.0.0.0") and f"http://127.0.0.1:{port}/" in out


def test_a_default_port_that_is_taken(capsys, caplog, served, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(server, "PORT", port)
        status, out, _ = answer(capsys, "--no-browser")
        other = served["place"][1]
        assert status == 0 and other != port and f":{other}/" in out
        assert caplog.messages == [f"Port {port} is taken, and {other} is free."]
        told = refused(capsys, "--port", str(port), "--no-browser")  # one that is asked for is not exchanged
        assert f"port {port} of 127.0.0.1 cannot be served" in told


@pytest.mark.parametrize("port", ["-1", "65536", "99999999999999999999"])
def test_ports_are_bounded(capsys, served, port):
    assert "--port must be at" in refused(capsys, "--port", port) and "place" not in served


def test_a_host_that_is_not_there(capsys, served):
    told = refused(capsys, "--host", "no.such.host.invalid", "--allow-other-hosts", "--no-browser")
    assert "no.such.host.invalid cannot be served" in told
    told = refused(capsys, "--host", f"{'x' * 80}.invalid", "--allow-other-hosts", "--no-browser")
    assert "cannot be served" in told


@pytest.mark.parametrize("missing", ["starlette", "uvicorn", "websockets"])
def test_a_missing_extra_is_one_sentence(capsys, served, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    told = refused(capsys, "--no-browser")
    assert told == f"lazyrich: lazyrich explore needs {missing}: pip install 'lazyrich[explorer]'.\n"


# as a program -----------------------------------------------------------------------------------------------

ENDLESS = """
import sys, threading
from lazyrich.cli import main
from lazyrich.explorer import scheduling

def endless(state, *rest):
    print("computing", flush=True)
    threading.Event().wait()

scheduling.view = endless
sys.exit(main(["explore", "--no-browser", "--port", "0"]))
"""


def started(*command):
    process = subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    address = re.search(r"http://\S+/", process.stdout.readline())
    assert address, process.communicate()[1]
    return process, address.group()


@pytest.mark.parametrize(("given", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, -signal.SIGTERM)])
def test_it_ends_quietly(given, status):
    process, address = started("-m", "lazyrich", "explore", "--no-browser", "--port", "0")
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{address}hello", timeout=60) as told:
        assert told.status == 200
    process.send_signal(given)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (status, "", "")


def test_a_computation_that_goes_on_does_not_keep_it():
    from websockets.sync.client import connect

    process, address = started("-c", ENDLESS)
    with connect(f"ws{address.removeprefix('http')}live", proxy=None) as link:
        link.send('{"id": 1, "state": {}, "phase": false}')
        assert process.stdout.readline() == "computing\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")
