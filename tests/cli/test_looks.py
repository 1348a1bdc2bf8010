"""What the commands print: pinned at 80 columns, escaped, without colours in a pipe, the same as JSON."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from rich.cells import cell_len

from spanfuse_processor.cli.docs import JSON
from tests.cli.conftest import Spanfuse
from tests.cli.looks import FOLDER, LOOKS, POLICY, at_the_time, printed
from tests.support.api import FakeAlerts
from tests.support.console import FakeConsole
from tests.support.served import served

HOSTILE = "\x1b[2J\u202e界\r[red]%s\x9b"
"""Given to every name: what clears a screen, turns text around, is two cells wide, looks like markup."""
QUERIES = [
    ("status",), ("sessions",), ("breakers",), ("agents",), ("benchmark",), ("budget", "list"), ("policy", "show"),
    ("sessions", f"{HOSTILE}run-00011"), ("breakers", f"session:{HOSTILE}run-00011"),
    ("explain", f"session:{HOSTILE}run-00011"), ("insights", f"{HOSTILE}research"),
    ("status", f"session:{HOSTILE}run-00011"),
]  # fmt: skip
NAMES = {
    "KEY": "session:run-00011",
    "ID": "run-00011",
    "AGENT": "research",
    "SCOPE": "user:u-2",
    "BUDGET": "user/daily",
    "AMOUNT": "1",
    "FILE": "-",
}
"""Stand-ins of the reference → names that the host in memory knows."""


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    return printed()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(FakeConsole()) as base:
        yield base


@pytest.fixture(scope="module")
def hostile() -> Iterator[str]:
    with served(FakeConsole(name=HOSTILE)) as base:
        yield base


@pytest.mark.parametrize("name", LOOKS)
def test_what_is_printed_is_what_was_looked_at(found: dict[str, str], name: str) -> None:
    """If it was meant: python -m tests.cli.looks, and look at the diff."""
    assert found[name] == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def test_no_line_is_wider_than_80_columns_and_none_ends_in_blanks(found: dict[str, str]) -> None:
    lines = [line for text in found.values() for line in text.splitlines() if not line.startswith(("$", "spanfuse: "))]
    assert max(map(cell_len, lines)) <= 80
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("arguments", QUERIES, ids=lambda a: a[0])
def test_names_of_others_can_do_nothing_to_a_terminal_of_any_width(
    spanfuse: Spanfuse, hostile: str, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    ran = spanfuse(*arguments, "--api", hostile)
    assert ran.exit_code in (0, 1), ran.output
    assert ran.stdout
    assert all(line.isprintable() for line in [*ran.stdout.split("\n"), *ran.stderr.split("\n")])
    tables = [line for line in ran.stdout.splitlines() if "  " in line.strip()]
    assert width < 80 or max(map(cell_len, tables), default=0) <= width


@pytest.mark.parametrize("command", [one for one in JSON if one != "events"])
def test_json_is_one_document_with_the_fields_of_the_reference(spanfuse: Spanfuse, command: str) -> None:
    arguments = [NAMES.get(word, word) for word in command.split()]
    with served(FakeConsole(), alerts=FakeAlerts()) as base:
        ran = spanfuse(*arguments, "--api", base, "--format", "json", input=POLICY)
    assert ran.stdout.count("\n") == 1
    named = {said.partition(":")[0] for said in JSON[command]}
    assert set(json.loads(ran.stdout)) == named - {"signature"}


def test_a_pipe_has_every_column_and_no_value_is_cut(
    spanfuse: Spanfuse, hostile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    head, *rows = spanfuse("sessions", "--api", hostile).stdout.splitlines()[:-1]
    assert head.split() == [
        "SESSION", "AGENT", "USER", "TEAM", "MODEL", "CALLS", "TOKENS", "COST", "BREAKER", "RULE", "LAST",
    ]  # fmt: skip
    assert not any("…" in row for row in rows)


def test_more_rows_than_a_page_are_asked_for_page_by_page(spanfuse: Spanfuse) -> None:
    with served(FakeConsole(2_500)) as many:
        rows = json.loads(spanfuse("sessions", "--limit", 2_300, "--api", many, "--format", "json").stdout)["sessions"]
    assert len({row["session"] for row in rows}) == len(rows) == 2_300


@pytest.mark.parametrize(
    ("options", "holds"),
    [
        (("--state", "half-open"), lambda row: row["state"] == "half_open"),
        (("--agent", "triage"), lambda row: row["agent"] == "triage"),
        (("--user", "u-3"), lambda row: row["user"] == "u-3"),
        (("--team", "team-1"), lambda row: row["team"] == "team-1"),
        (("--find", "MINI"), lambda row: row["model"] == "gpt-4o-mini"),
        (("--since", "30m"), lambda row: int(row["session"][4:]) <= 30),
    ],
    ids=lambda v: v[0] if isinstance(v, tuple) else "",
)
def test_sessions_are_those_that_are_asked_for(
    spanfuse: Spanfuse, url: str, options: tuple[str, ...], holds: object
) -> None:
    with at_the_time():
        rows = json.loads(spanfuse("sessions", *options, "--api", url, "--format", "json").stdout)["sessions"]
    assert rows
    assert all(holds(row) for row in rows)  # type: ignore[operator]


def test_a_session_may_be_named_by_its_key(spanfuse: Spanfuse, url: str) -> None:
    assert spanfuse("sessions", "session:run-00001", "--api", url).stdout.startswith("session:run-00001  ok")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("sessions", "run-9"), "no session run-9 is known; look for it: spanfuse sessions --find run-9"),
        (("insights", "reserch"), "no agent reserch has made a call; did you mean research?"),
        (("insights", "zzz"), "no agent zzz has made a call; see: spanfuse agents"),
    ],
    ids=lambda v: v[0] if isinstance(v, tuple) else "",
)
def test_what_is_not_known_is_a_problem_that_says_where_to_look(
    spanfuse: Spanfuse, url: str, arguments: tuple[str, ...], says: str
) -> None:
    ran = spanfuse(*arguments, "--api", url)
    assert (ran.exit_code, ran.stderr) == (1, f"spanfuse: {says}\n")


def test_a_blocked_session_is_exit_code_1(spanfuse: Spanfuse, url: str) -> None:
    with at_the_time():
        ran = spanfuse("sessions", "run-00011", "--api", url)
    assert ran.exit_code == 1
    assert "release it with: spanfuse reset session:run-00011" in ran.stderr


def test_agents_and_models_stand_in_the_order_that_is_asked_for(spanfuse: Spanfuse, url: str) -> None:
    for command, name in (("agents", "agents"), ("benchmark", "models")):
        for by, field in (("cost", "cost_nano_usd"), ("calls", "calls"), ("failures", "failures_per_1000_calls")):
            ran = spanfuse(command, "--by", by, "--limit", 2, "--api", url, "--format", "json")
            values = [row[field] for row in json.loads(ran.stdout)[name]]
            assert len(values) == 2
            assert values == sorted(values, reverse=True)


def on_a_terminal(*arguments: str, **env: str) -> str:
    """What a command prints to a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    plain = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "CI")}
    command = [sys.executable, "-m", "spanfuse_processor", *arguments]
    with subprocess.Popen(
        command, stdout=theirs, stdin=theirs, stderr=subprocess.PIPE, env={**plain, "TERM": "xterm-256color", **env}
    ) as process:
        os.close(theirs)
        found = b""
        try:
            while chunk := os.read(ours, 65536):
                found += chunk
        except OSError:  # its end
            pass
        process.wait(10)
    os.close(ours)
    return found.decode()


def test_a_terminal_has_colours_unless_no_color_is_set(url: str) -> None:
    assert re.search(r"\x1b\[[\d;]*[349]\d", on_a_terminal("sessions", "--api", url))
    assert not re.search(r"\x1b\[[\d;]*[349]\d", on_a_terminal("sessions", "--api", url, NO_COLOR="1"))
