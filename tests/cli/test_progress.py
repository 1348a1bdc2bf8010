"""How far a replay is shows on a terminal only, and never among data."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.recorded import repeater, write_lines

pytestmark = pytest.mark.integration


def test_a_terminal_shows_each_step_and_the_output_stays_clean(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "r.jsonl", [r for n in range(40) for r in repeater(6, f"{n:03}")])
    command = [sys.executable, "-m", "spanfuse_processor", "replay", str(path), "--format", "json"]
    mine, theirs = pty.openpty()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    with ThreadPoolExecutor() as aside:
        reading = aside.submit(_all, mine)
        printed, _ = child.communicate(timeout=60)
        shown = reading.result(10)
    assert json.loads(printed)["totals"]["sessions_blocked"] == 40
    assert "reading" in shown
    assert "replaying" in shown


def test_what_is_no_terminal_is_told_nothing(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "r.jsonl", repeater(6))
    command = [sys.executable, "-m", "spanfuse_processor", "replay", str(path), "--format", "json"]
    ran = subprocess.run(command, capture_output=True, timeout=60, check=True)
    assert ran.stderr == b""


def _all(terminal: int) -> str:
    found = b""
    while True:
        try:
            some = os.read(terminal, 65_536)
        except OSError:  # nobody writes any more
            some = b""
        if not some:
            os.close(terminal)
            return found.decode(errors="replace")
        found += some
