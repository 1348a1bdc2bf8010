"""The commands of an operator against a real `spanfuse up`: a session is seen going round, explained, and released."""

from __future__ import annotations

import json
import select
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from spanfuse_processor.cli import cli
from tests.support.hosts import SPANFUSE, Deployment, embedded
from tests.support.recorded import START_NS
from tests.support.script import Act, Sent, agent, tool

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

ADMIN = "admin-" + "a" * 16
CONFIG = {"service": {"mode": "enforce"}, "budgets": {"user": {"limit_usd": 1.0, "period": "daily"}}}
TOKENS = {
    "tokens": [
        {"name": "root", "token": ADMIN, "role": "admin"},
        {"name": "guard", "token": "read-" + "r" * 16},
    ]
}
ROUND = (tool("search", q="a") >> "nothing", tool("fetch", u="b") >> "empty")
HEALTHY = [tool("read", path=f"f{n}") >> f"text {n}" for n in range(4)]


def send(host: Deployment, spans: list[Sent]) -> None:
    """Each by itself, as agents at work do."""
    for one in spans:
        body = {"resourceSpans": [{"scopeSpans": [{"spans": [one.span]}]}]}
        asked = urllib.request.Request(
            f"{host.otlp}/v1/traces", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        urllib.request.urlopen(asked, timeout=10).read()


def play(host: Deployment, steps: list[Act], session: str, name: str, user: str) -> None:
    at = (time.time_ns() - START_NS) / 1e9 - 60
    trace = f"{abs(hash(session)):032x}"
    send(host, agent(*steps, at=at, trace=trace, session=session, name=name, user=user))


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with embedded(tmp_path_factory.mktemp("up"), CONFIG) as host:
        play(host, HEALTHY, "healthy", "writer", "u1")
        play(host, [*ROUND * 5], "looper/4f1c", "research", "u2")
        yield host


def ran(api: str, *arguments: str, code: int = 0, **env: str) -> str:
    """What a command prints at 80 columns."""
    told = {"COLUMNS": "80", "SPANFUSE_API_URL": api, **env}
    done = CliRunner().invoke(cli, arguments, prog_name="spanfuse", env=told, catch_exceptions=False)
    assert done.exit_code == code, done.output
    lines = [line for line in done.stdout.splitlines() if "storage" not in line]  # a path stays whole
    assert max(map(len, lines), default=0) <= 80 or "json" in arguments
    return done.stdout


def found(api: str, *arguments: str, code: int = 0) -> Any:
    return json.loads(ran(api, *arguments, "--format", "json", code=code))


def test_the_whole_is_seen(up: Deployment) -> None:
    text = ran(up.api, "status")
    assert "sessions  2" in text
    assert "session:looper/4f1c  blocked  cycle" in text
    assert [row["agent"] for row in found(up.api, "agents")["agents"]] == ["research", "writer"]
    assert [row["model"] for row in found(up.api, "benchmark")["models"]] == ["gpt-4o-mini"]
    assert [row["key"] for row in found(up.api, "breakers")["breakers"]] == ["session:looper/4f1c"]
    assert "looper/4f1c" in ran(up.api, "sessions", "--state", "open")
    assert [row["scope"] for row in found(up.api, "budget", "list")["budgets"]] == ["user:u2", "user:u1"]


def test_a_cycle_shows_in_the_drawing_and_no_loop_in_that_of_a_healthy_session(up: Deployment) -> None:
    drawn = ran(up.api, "sessions", "looper/4f1c", code=1)
    assert "·ABCDABCDA BCDABCDABC" in drawn
    assert "X blocked" in drawn
    assert "·········" in ran(up.api, "sessions", "healthy")


def test_why_it_tripped_is_explained(up: Deployment) -> None:
    first = found(up.api, "explain", "session:looper/4f1c")["rules"][0]
    assert (first["rule"], first["stands"], first["threshold"]) == ("cycle", True, 3)
    assert "stands" in ran(up.api, "explain", "session:looper/4f1c")
    assert "cycle" in ran(up.api, "insights", "research")


def test_another_policy_is_tried_and_set_and_taken_back(up: Deployment, tmp_path: Path) -> None:
    path = tmp_path / "stricter.yaml"
    path.write_text("detectors:\n  cycle: {rounds: 2}\n")
    (moved,) = found(up.api, "policy", "dry-run", str(path))["stopped_elsewhere"]
    assert moved["new"]["blocked_at"] < moved["old"]["blocked_at"]
    assert "looper/4f1c" in ran(up.api, "policy", "dry-run", str(path))
    assert "laid over  detectors" in ran(up.api, "policy", "set", str(path), "--reason", "trial")
    assert "trial" in ran(up.api, "policy", "show")
    assert "laid over" not in ran(up.api, "policy", "set", "--clear")


def test_a_policy_file_with_mistakes_is_said_line_by_line_and_not_sent(up: Deployment, tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text("detectors:\n  cycle: {rounds: many}\nreceivers: {}\n")
    done = CliRunner().invoke(cli, ["policy", "set", str(path), "--api", up.api])
    assert done.exit_code == 1
    first, second = done.stderr.splitlines()
    assert first.startswith(f"spanfuse: {path}:2: detectors.cycle.rounds: ")
    assert second.startswith(f"spanfuse: {path}:3: receivers: ")


def test_a_session_is_released_and_that_is_heard(up: Deployment) -> None:
    play(up, [*ROUND * 5], "second", "research", "u2")
    ran(up.api, "status", "session:second", code=1)
    command = [*SPANFUSE, "events", "--key", "session:second", "--kind", "decision", "--api", up.api]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as events:
        try:
            assert events.stdout is not None
            while not select.select([events.stdout], [], [], 0.2)[0]:  # until it listens
                assert events.poll() is None
                assert "closed" in ran(up.api, "reset", "session:second")
            assert json.loads(events.stdout.readline())["data"]["state"] == "closed"
        finally:
            events.kill()
    assert ran(up.api, "status", "session:second") == "session:second: closed\n"
    assert found(up.api, "breakers", "session:second")["history"][0]["state"] == "closed"


def test_one_with_tokens_takes_them_from_the_environment(tmp_path: Path) -> None:
    port = "127.0.0.1:0"
    with embedded(tmp_path, CONFIG, {"api": {"endpoint": port, **TOKENS}}) as host:
        line = next(line for line in host.lines if "spanfuse is up" in line)
        host.api = line.split("API ")[1].split()[0]
        ran(host.api, "status", code=1)
        assert "enforces" in ran(host.api, "status", SPANFUSE_API_TOKEN=ADMIN)
        ran(host.api, "policy", "set", "--clear", SPANFUSE_API_TOKEN=ADMIN)
        ran(host.api, "policy", "set", "--clear", code=1, SPANFUSE_API_TOKEN="read-" + "r" * 16)
