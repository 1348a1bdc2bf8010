"""The demo as it is run: five real agent processes, and nothing left behind."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

DEMO = [sys.executable, "-m", "spanfuse_processor", "demo"]
MARK = "DEMO_OF_TEST"


def marked(mark: str) -> list[int]:
    """Processes that carry the mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:  # it has ended meanwhile, or is none of ours
            continue
    return found


def wait_until(condition: Callable[[], bool], timeout_s: float = 15) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
def mark() -> str:
    return uuid.uuid4().hex


def start(mark: str, *arguments: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    # What a user may have set must not matter.
    hostile = {"SPANFUSE_DISABLED": "1", "OTEL_SDK_DISABLED": "true", "HTTP_PROXY": "http://127.0.0.1:9"}
    environment = {**os.environ, **hostile, "http_proxy": hostile["HTTP_PROXY"], MARK: mark}
    return subprocess.Popen(
        [*DEMO, *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )


def test_four_runaways_are_stopped_and_the_healthy_agent_finishes(mark: str) -> None:
    began = time.monotonic()
    with start(mark, "--format", "json") as demo:
        output, errors = demo.communicate(timeout=60)
    assert (demo.returncode, errors) == (0, "")
    agents = {a.pop("name"): a for a in json.loads(output)["agents"]}
    assert agents["repeater"] == {"calls_allowed": 3, "blocked_by": "repeat.prompt", "finished": False}
    assert agents["cycler"] == {"calls_allowed": 6, "blocked_by": "cycle", "finished": False}
    assert agents["overspender"] == {"calls_allowed": 3, "blocked_by": "budget.session", "finished": False}
    assert agents["healthy"] == {"calls_allowed": 9, "blocked_by": None, "finished": True}
    assert agents["burster"]["blocked_by"] == "velocity"
    assert 40 <= agents["burster"]["calls_allowed"] < 100
    assert time.monotonic() - began < 60
    assert marked(mark) == []


def test_without_a_terminal_it_prints_lines(mark: str) -> None:
    with start(mark) as demo:
        output, _ = demo.communicate(timeout=60)
    assert demo.returncode == 0
    assert "repeater: stopped before call 4 by repeat.prompt" in output
    assert "\x1b[" not in output


def test_in_a_terminal_it_shows_a_table_in_place(mark: str) -> None:
    ours, theirs = pty.openpty()
    with start(mark, stdout=theirs) as demo:
        os.close(theirs)
        shown = bytearray()
        try:
            while chunk := os.read(ours, 65536):
                shown += chunk
        except OSError:  # the terminal is gone with the last process that had it open
            pass
        assert demo.wait(60) == 0
    os.close(ours)
    assert b"\x1b[" in shown
    assert b"budget.session" in shown


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_ends_its_agents_without_a_traceback(mark: str, number: signal.Signals) -> None:
    with start(mark) as demo:
        assert wait_until(lambda: len(marked(mark)) == 6)
        demo.send_signal(number)
        _, errors = demo.communicate(timeout=20)
    assert demo.returncode == 130
    assert "Traceback" not in errors
    assert marked(mark) == []


def test_agents_end_when_their_launcher_is_killed(mark: str) -> None:
    with start(mark) as demo:
        assert wait_until(lambda: len(marked(mark)) == 6)
        demo.kill()
        assert wait_until(lambda: marked(mark) == [])
