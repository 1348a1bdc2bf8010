"""What the commands print at 80 columns, pinned. After a change that is meant: `python -m tests.cli.looks`, and look at what
has changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from unittest.mock import patch

from click.testing import CliRunner

from spanfuse_processor.cli import cli
from tests.support.api import FakeAlerts
from tests.support.console import NOW_NS, FakeConsole
from tests.support.served import served

FOLDER: Final = Path(__file__).parent / "looks"
POLICY: Final = "mode: enforce\ndetectors:\n  cycle: {rounds: 2}\n"
BUDGET: Final = ("user:u-16", "user/daily")

LOOKS: Final[dict[str, tuple[str, ...]]] = {
    "status": ("status",),
    "status-key": ("status", "session:run-00011"),
    "sessions": ("sessions", "--limit", "5"),
    "sessions-open": ("sessions", "--state", "open", "--sort", "cost", "--limit", "3"),
    "session": ("sessions", "run-00033"),
    "session-long": ("sessions", "run-00049"),
    "breakers": ("breakers", "--mode", "enforce", "--limit", "4"),
    "breaker": ("breakers", "session:run-00011"),
    "explain": ("explain", "session:run-00011"),
    "explain-unknown": ("explain", "session:nobody", "--all"),
    "agents": ("agents", "--by", "loops"),
    "benchmark": ("benchmark",),
    "insights": ("insights", "research"),
    "policy-show": ("policy", "show"),
    "policy-dry-run": ("policy", "dry-run", "-", "--since", "6h"),
    "policy-set": ("policy", "set", "-", "--reason", "loops since the release"),
    "alerts-list": ("alerts", "list"),
    "alerts-ack": ("alerts", "ack", "a1"),
    "alerts-snooze": ("alerts", "snooze", "a1", "--for", "2h"),
    "alerts-test": ("alerts", "test"),
    "budget-list": ("budget", "list"),
    "budget-extend": ("budget", "extend", *BUDGET, "2", "--reason", "month end"),
    "budget-audit": ("budget", "audit"),
    "reset": ("reset", "session:run-00011"),
}
"""Name → arguments. They are run one after the other against the same host."""


@contextmanager
def at_the_time() -> Iterator[None]:
    """The clock of the host in memory, and the user of its audit."""
    with (
        patch("spanfuse_processor.cli.words.now_ns", lambda: NOW_NS),
        patch("time.time_ns", lambda: NOW_NS),
        patch("getpass.getuser", lambda: "ann"),
    ):
        yield


def printed() -> dict[str, str]:
    """What each of them prints: its command, standard output, errors and the exit code where it is not 0."""
    env = {"COLUMNS": "80", "SPANFUSE_API_URL": "", "SPANFUSE_API_TOKEN": "", "NO_COLOR": ""}
    found = {}
    with served(FakeConsole(), alerts=FakeAlerts()) as url, at_the_time():
        for name, arguments in LOOKS.items():
            given = [*arguments, "--api", url]
            ran = CliRunner().invoke(cli, given, input=POLICY, prog_name="spanfuse", env=env, catch_exceptions=False)
            code = f"exit code {ran.exit_code}\n" if ran.exit_code else ""
            found[name] = f"$ spanfuse {' '.join(arguments)}\n{ran.stdout}{ran.stderr}{code}"
    return found


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.txt"):
        os.remove(old)
    for name, text in printed().items():
        (FOLDER / f"{name}.txt").write_text(text, encoding="utf-8")
