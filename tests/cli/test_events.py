"""`spanfuse events`: what happens, as lines that go on where they were."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest

from spanfuse_processor.cli.events import concerns
from tests.cli.conftest import Spanfuse
from tests.support.console import FakeConsole
from tests.support.fake_api import FakeApi
from tests.support.hosts import free_port
from tests.support.served import served

KEY = "session:run-00001"
DECISION = {
    "key": KEY,
    "state": "open",
    "action": "block",
    "mode": "enforce",
    "rule": "cycle",
    "message": "ABAB",
    "issued_at_ns": 1,
    "epoch": 1,
}
DETECTION = {
    "id": "f",
    "rule": "near",
    "action": "warn",
    "mode": "warn",
    "session": "run-00002",
    "agent": "research",
    "at_ns": 1,
    "message": "\x1b[2J",
}
POLICY = {"key": "policy:*", "epoch": 7, "issued_at_ns": 1, "policy": {"mode": "enforce"}}
ORDER = {
    "order": {
        "scope": "user:u",
        "budget": "user/daily",
        "action": "extend",
        "actor": "ann",
        "reason": "month end",
        "at_ns": 1,
    },
    "done": True,
}
CHANGED = {"changed": [f"run-{n}" for n in range(7)], "more": False}
HAPPENED: list[tuple[str, dict[str, Any]]] = [
    ("ready", {}), ("decision", DECISION), ("detection", DETECTION), ("policy", POLICY), ("audit", ORDER),
    ("sessions", CHANGED), ("anew", {}),
]  # fmt: skip
STREAM = [f"id: a-{n}\nevent: {event}\ndata: {json.dumps(said)}\n\n" for n, (event, said) in enumerate(HAPPENED)]


def followed(spanfuse: Spanfuse, *options: str) -> list[str]:
    """The lines of a stream that ends."""
    with FakeApi({("GET", "/v1/events"): STREAM}, closes=True) as api:
        ran = spanfuse("events", "--api", api.url, "--retry", "0", *options)
    assert ran.exit_code == 1
    assert (
        ran.stderr
        == f"spanfuse: the API at {api.url} has ended the stream; go on later with: spanfuse events --after a-6\n"
    )
    return ran.stdout.splitlines()


def test_each_event_is_a_line_of_json_with_its_id(spanfuse: Spanfuse) -> None:
    lines = [json.loads(line) for line in followed(spanfuse)]
    assert lines == [{"id": f"a-{n}", "event": event, "data": said} for n, (event, said) in enumerate(HAPPENED)][1:]


def test_or_a_line_for_people_which_is_escaped(spanfuse: Spanfuse) -> None:
    lines = followed(spanfuse, "--format", "table")
    assert lines[:4] == [
        "00:00:00 decision  session:run-00001 block (open, enforce) cycle: ABAB",
        r"00:00:00 detection session:run-00002 detection (warn) near warn: \x1b[2J",
        "00:00:00 policy    7, mode enforce",
        "00:00:00 audit     extend user/daily of user:u by ann (month end)",
    ]
    assert lines[4].endswith("sessions  run-0, run-1, run-2, run-3, run-4 and 2 more")
    assert lines[5].endswith("load anew what you keep")


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        (("--kind", "detection"), ["detection"]),
        (("--kind", "decision", "--kind", "audit"), ["decision", "audit"]),
        (("--key", KEY), ["decision"]),
        (("--key", "agent:research"), ["detection"]),
        (("--key", "user:u"), ["audit"]),
        (("--key", "session:run-3"), ["sessions"]),
        (("--key", KEY, "--kind", "detection"), []),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else "",
)
def test_only_what_is_asked_for_is_shown_and_that_something_was_missed(
    spanfuse: Spanfuse, options: tuple[str, ...], kinds: list[str]
) -> None:
    assert [json.loads(line)["event"] for line in followed(spanfuse, *options)] == [*kinds, "anew"]


def test_more_sessions_than_are_told_may_be_any() -> None:
    assert concerns("sessions", {"changed": ["a"], "more": True}, "session:b")


@contextmanager
def following(url: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "spanfuse_processor", "events", "--api", url, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def reset(url: str, session: str) -> None:
    """Something happens."""
    assert httpx.post(f"{url}/v1/reset", json={"key": f"session:{session}"}, trust_env=False).is_success


def run_of(console: FakeConsole) -> str:
    """How ids of this host begin."""
    ready = next(iter(console.log.follow()[0])).decode()
    return ready.removeprefix("id: ").partition("-")[0]


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = json.loads(process.stdout.readline())
    key: str = line["data"].get("key", line["event"])
    return key


def test_it_goes_on_behind_an_event_and_ctrl_c_ends_it_without_a_word() -> None:
    console = FakeConsole()
    with served(console) as url:
        reset(url, "run-00000")
        reset(url, "run-00011")
        with following(url, "--after", f"{run_of(console)}-1") as process:
            assert heard(process) == "session:run-00011"
            reset(url, "run-00022")
            assert heard(process) == "session:run-00022"
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=10)[1] == ""
            assert process.returncode == 0


def test_nothing_is_missed_while_the_host_is_away() -> None:
    console, port = FakeConsole(), free_port()
    with ExitStack() as stack:
        with served(console, port=port) as url:
            process = stack.enter_context(following(url, "--after", f"{run_of(console)}-0"))
            reset(url, "run-00000")
            assert heard(process) == "session:run-00000"
        console.log.publish("decision", json.dumps(DECISION).encode())
        with served(console, port=port):
            assert heard(process) == KEY


def test_after_a_restart_it_says_that_some_may_have_been_missed() -> None:
    port = free_port()
    first = FakeConsole()
    with ExitStack() as stack:
        with served(first, port=port) as url:
            process = stack.enter_context(following(url, "--after", f"{run_of(first)}-0"))
            reset(url, "run-00000")
            assert heard(process) == "session:run-00000"
        with served(FakeConsole(), port=port):
            assert heard(process) == "anew"
