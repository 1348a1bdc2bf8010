"""`status`, `reset` and `tail` against an API."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from spanfuse_schemas.names import normal_name
from tests.cli.conftest import Spanfuse
from tests.support.fake_api import FakeApi

OPEN = {
    "key": "session:a/b",
    "state": "open",
    "action": "block",
    "mode": "enforce",
    "rule": "repeat.prompt",
    "message": "The same prompt 3 times.",
    "issued_at_ns": 1,
    "epoch": 4,
}
DETECTION = {
    "id": "1", "rule": "cycle", "action": "block", "mode": "shadow", "session": "s", "call": 5, "at_ns": 1, "message": "ABAB",
}  # fmt: skip
STREAM = [
    ": keep-alive\n\n",
    f"event: decision\ndata: {json.dumps(OPEN)}\n\n",
    "event: ready\ndata: {}\n\n",
    f"event: detection\ndata: {json.dumps(DETECTION)}\n\n",
]


@pytest.fixture
def api() -> Iterator[FakeApi]:
    answers: dict[tuple[str, str], Any] = {
        ("GET", "/v1/status"): (200, {"mode": "enforce", "spans": {"received": 12}}),
        ("GET", "/v1/decisions"): (200, {"decisions": [OPEN]}),
        ("GET", "/v1/sessions/a%2Fb"): (200, {"session": "a/b", "calls": 3}),
        ("POST", "/v1/reset"): (200, {"key": "session:a/b", "state": "closed", "epoch": 5}),
        ("GET", "/v1/decisions/stream"): STREAM,
    }
    with FakeApi(answers) as fake:
        yield fake


def test_status_shows_the_counters_and_the_breakers(spanfuse: Spanfuse, api: FakeApi) -> None:
    result = spanfuse("status", "--api", api.url)
    assert result.exit_code == 0
    assert "spans.received  12" in result.stdout
    assert "session:a/b  blocked  repeat.prompt" in result.stdout


def test_status_fits_80_columns_and_shows_keys_in_full_and_what_was_counted(
    spanfuse: Spanfuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    key = f"session:trace:{'0123456789abcdef' * 2}"
    decision = {k: v for k, v in OPEN.items() if k != "mode"} | {"key": key, "message": "The same prompt again. " * 8}
    status = {"streams": 0, "counts": {"calls": 12, "late": 0}, "ledger": {"most": [{"account": "team:a", "spans": 7}]}}
    with FakeApi(
        {("GET", "/v1/status"): (200, status), ("GET", "/v1/decisions"): (200, {"decisions": [decision]})}
    ) as api:
        lines = [line.strip() for line in spanfuse("status", "--api", api.url).stdout.splitlines()]
    assert max(map(len, lines)) <= 80
    shown = {words[0]: words[1] for line in lines if len(words := line.split()) == 2}
    assert shown == {
        "streams": "0",
        "counts.calls": "12",
        "ledger.most.0.account": "team:a",
        "ledger.most.0.spans": "7",
    }
    assert lines[-1].split()[:3] == [key, "would", "block"]


def test_status_as_json_is_one_document(spanfuse: Spanfuse, api: FakeApi) -> None:
    shown = json.loads(spanfuse("status", "--api", api.url, "--format", "json").stdout)
    assert shown["status"]["mode"] == "enforce"
    assert shown["decisions"] == [OPEN]


def test_the_status_of_a_blocked_key_exits_with_1_and_says_how_to_release_it(spanfuse: Spanfuse, api: FakeApi) -> None:
    result = spanfuse("status", "session:a/b", "--api", api.url)
    assert result.exit_code == 1
    assert "spanfuse reset session:a/b" in result.stderr
    shown = json.loads(spanfuse("status", "session:a/b", "--api", api.url, "--format", "json").stdout)
    assert shown == {"key": "session:a/b", "decision": OPEN, "session": {"session": "a/b", "calls": 3}}


def test_the_status_of_a_half_open_key_exits_with_0_and_says_that_a_probe_passes(spanfuse: Spanfuse) -> None:
    with FakeApi({("GET", "/v1/decisions"): (200, {"decisions": [OPEN | {"state": "half_open"}]})}) as api:
        result = spanfuse("status", "session:a/b", "--api", api.url)
    assert result.exit_code == 0
    assert "session:a/b  probe next" in result.stdout
    assert "the next call passes as a probe" in result.stdout


def test_the_status_of_a_key_that_is_only_observed_exits_with_0_and_says_what_would_be(spanfuse: Spanfuse) -> None:
    observed = {k: v for k, v in OPEN.items() if k != "mode"}  # the default is left out on the wire
    with FakeApi({("GET", "/v1/decisions"): (200, {"decisions": [observed]})}) as api:
        result = spanfuse("status", "session:a/b", "--api", api.url)
    assert result.exit_code == 0
    assert "session:a/b  would block" in result.stdout
    assert "this deployment observes" in result.stdout


def test_the_status_of_another_key_is_closed(spanfuse: Spanfuse, api: FakeApi) -> None:
    result = spanfuse("status", "session:other", "--api", api.url)
    assert (result.exit_code, result.stdout) == (0, "session:other: closed\n")


def test_the_api_may_come_from_the_environment(spanfuse: Spanfuse, api: FakeApi) -> None:
    assert spanfuse("status", env={"SPANFUSE_API_URL": api.url}).exit_code == 0


def test_reset_closes_the_breaker_and_says_who_ordered_it(spanfuse: Spanfuse, api: FakeApi) -> None:
    result = spanfuse("reset", "session:a/b", "--api", api.url)
    assert (result.exit_code, result.stdout) == (0, "session:a/b: closed (epoch 5)\n")
    method, path, body = api.requests[-1]
    assert (method, path, body["key"]) == ("POST", "/v1/reset", "session:a/b")
    assert body["actor"]


def test_reset_takes_a_name_as_the_agent_writes_it(spanfuse: Spanfuse, api: FakeApi) -> None:
    """Blanks and all: the processor knows it by its one form."""
    name = "run " * 100
    assert spanfuse("reset", f"session: {name}", "--api", api.url).exit_code == 0
    assert api.requests[-1][2]["key"] == f"session:{normal_name(name)}"


@pytest.mark.parametrize("arguments", [["status"], ["reset", "session:a"], ["tail"]], ids=lambda a: a[0])
def test_a_server_that_is_away_is_one_line_and_exit_code_1(
    spanfuse: Spanfuse, closed_port: int, arguments: list[str]
) -> None:
    result = spanfuse(*arguments, "--api", f"http://127.0.0.1:{closed_port}")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert f"127.0.0.1:{closed_port} does not answer" in result.stderr


@pytest.mark.parametrize("answer", [(500, {"error": "disk full"}), (200, b"<html>")], ids=["error", "no JSON"])
def test_an_answer_that_makes_no_sense_is_one_line_and_exit_code_1(spanfuse: Spanfuse, answer: Any) -> None:
    with FakeApi({("GET", "/v1/status"): answer}) as api:
        result = spanfuse("status", "--api", api.url)
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)


def test_a_reset_of_what_nobody_knows_is_one_line_and_exit_code_1(spanfuse: Spanfuse, api: FakeApi) -> None:
    with FakeApi({("POST", "/v1/reset"): (404, {"error": "nothing is known of this key"})}) as forgetful:
        result = spanfuse("reset", "session:other", "--api", forgetful.url)
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert "nothing is known of this key" in result.stderr


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1", "http://[::1"])
def test_an_address_that_is_none_is_one_line_and_exit_code_1(spanfuse: Spanfuse, url: str) -> None:
    result = spanfuse("status", "--api", url)
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)


def test_tail_follows_decisions_and_detections(spanfuse: Spanfuse) -> None:
    with FakeApi({("GET", "/v1/decisions/stream"): STREAM}, closes=True) as api:
        text = spanfuse("tail", "--api", api.url)
        lines = spanfuse("tail", "--api", api.url, "--format", "json").stdout.splitlines()
    assert text.stdout.splitlines() == [
        "session:a/b block (open, enforce) repeat.prompt: The same prompt 3 times.",
        "session:s detection (shadow) cycle block: ABAB",
    ]
    assert [json.loads(line)["type"] for line in lines] == ["decision", "detection"]
    assert (text.exit_code, len(text.stderr.splitlines())) == (1, 1)  # the server has ended the stream


def spawn_tail(api: FakeApi) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "spanfuse_processor", "tail", "--api", api.url]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_ctrl_c_ends_tail_without_a_word(api: FakeApi) -> None:
    with spawn_tail(api) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (0, "")


def test_a_reader_that_goes_away_ends_tail_without_a_word() -> None:
    many = [*STREAM, *[f"event: decision\ndata: {json.dumps(OPEN)}\n\n"] * 5000]
    with FakeApi({("GET", "/v1/decisions/stream"): many}) as api, spawn_tail(api) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(10) == 0
    assert errors == ""
