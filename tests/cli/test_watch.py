"""`--watch`: a look that is repeated until Ctrl-C."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.cli.conftest import Spanfuse
from tests.support.console import FakeConsole
from tests.support.hosts import free_port
from tests.support.served import served

SPANFUSE = [sys.executable, "-m", "spanfuse_processor"]


@contextmanager
def watching(url: str, *arguments: str, stdout: int = subprocess.PIPE) -> Iterator[subprocess.Popen[bytes]]:
    command = [*SPANFUSE, *arguments, "--api", url, "--watch", "0.1"]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "12"}
    with subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, env=env) as process:
        try:
            yield process
        finally:
            process.kill()


def test_json_is_one_document_a_line_and_ctrl_c_ends_it_without_a_word() -> None:
    with served(FakeConsole()) as url, watching(url, "agents", "--format", "json") as process:
        assert process.stdout is not None
        rows = [json.loads(process.stdout.readline())["agents"] for _ in range(3)]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
    assert rows[0] == rows[1] == rows[2]
    assert (process.returncode, errors) == (0, b"")


def test_a_pipe_has_one_table_after_the_other() -> None:
    with served(FakeConsole()) as url, watching(url, "sessions", "--limit", "1") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().split(maxsplit=1)[:1] for _ in range(7)]
    assert lines == [[b"SESSION"], [b"run-00000"], [b"There"], [], [b"SESSION"], [b"run-00000"], [b"There"]]


def test_a_host_that_goes_away_is_told_of_and_looked_at_again() -> None:
    port = free_port()
    with ExitStack() as stack:
        with served(FakeConsole(), port=port) as url:
            process = stack.enter_context(watching(url, "agents", "--format", "json"))
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
        said = process.stderr.readline()
        assert b"does not answer" in said
        assert b"trying again every 0.1 s" in said
        os.set_blocking(process.stdout.fileno(), False)
        while process.stdout.read():  # what was printed before it went away
            pass
        os.set_blocking(process.stdout.fileno(), True)
        with served(FakeConsole(), port=port):
            assert json.loads(process.stdout.readline())["agents"]


def test_one_that_was_never_there_is_a_problem(spanfuse: Spanfuse, closed_port: int) -> None:
    ran = spanfuse("agents", "--watch", "--api", f"http://127.0.0.1:{closed_port}")
    assert ran.exit_code == 1
    assert "does not answer" in ran.stderr


def screen(ours: int, until: Callable[[bytes], bool]) -> bytes:
    """What a terminal was sent."""
    found = b""
    while not until(found):
        found += os.read(ours, 65536)
    return found


def test_a_terminal_is_drawn_in_place_and_holds_no_more_lines_than_it_has() -> None:
    ours, theirs = pty.openpty()
    with served(FakeConsole()) as url, watching(url, "sessions", stdout=theirs) as process:
        os.close(theirs)
        found = screen(ours, lambda seen: seen.count(b"\x1b[J") >= 3)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    os.close(ours)
    frames = found.decode().split("\x1b[H")[1:3]
    for frame in frames:
        lines = frame.split("\r\n")
        assert "every 0.1 s; stop with Ctrl-C" in lines[0]
        assert len(lines) <= 12
        assert "more lines" in lines[-2]
        assert all(line.endswith("\x1b[K") for line in lines[:-1])


@pytest.mark.parametrize("seconds", ["0", "soon", "9999"])
def test_what_is_no_pause_is_wrong_usage(spanfuse: Spanfuse, seconds: str) -> None:
    assert spanfuse("status", "--watch", seconds).exit_code == 2
