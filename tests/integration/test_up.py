"""`spanfuse up` as a process, with the examples and the operator's commands against it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SPANFUSE = [sys.executable, "-m", "spanfuse_processor"]
CONFIG = """\
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:0"}, grpc: {endpoint: "127.0.0.1:0"}}}}
extensions: {api: {endpoint: "127.0.0.1:0"}, storage: {path: "${env:FOLDER}/spanfuse.db"}}
service: {mode: enforce}
"""


@dataclass
class Up:
    """A running `spanfuse up`."""

    process: subprocess.Popen[str]
    environment: dict[str, str]
    """Where its receiver and its API are, as programs expect it."""

    def spanfuse(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._run([*SPANFUSE, *arguments])

    def example(self, name: str) -> subprocess.CompletedProcess[str]:
        return self._run([sys.executable, str(EXAMPLES / name)])

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    with running(tmp_path) as started:
        yield started


@contextmanager
def running(folder: Path, *within: str) -> Iterator[Up]:
    """Run it, `within` another command if any."""
    config = folder / "spanfuse.yaml"
    config.write_text(CONFIG)
    environment = {**os.environ, "FOLDER": str(folder)}
    command = [*within, *SPANFUSE, "up", "--config", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        timer = threading.Timer(60, process.kill)
        timer.start()
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            http, _, api = re.findall(r"127\.0\.0\.1:(\d+)", said)
            environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{http}"
            environment["SPANFUSE_API_URL"] = f"http://127.0.0.1:{api}"
            yield Up(process, environment)
        finally:
            timer.cancel()
            process.kill()


def test_the_guard_example_is_refused_its_fourth_call_until_an_operator_resets_it(up: Up) -> None:
    ran = up.example("guard_any_client.py")
    assert ran.returncode == 0
    assert "call 3: " in ran.stdout
    refused = ran.stdout.splitlines()[-1]
    assert refused.startswith("call 4 was refused: session:example-")
    key = refused.split()[4]
    assert up.spanfuse("status").returncode == 0
    assert up.spanfuse("status", key).returncode == 1
    reset = up.spanfuse("reset", key, "--format", "json")
    assert (reset.returncode, json.loads(reset.stdout)["state"]) == (0, "closed")
    assert up.spanfuse("status", key).returncode == 0


def test_the_otlp_example_names_session_agent_user_and_team(up: Up) -> None:
    ran = up.example("otlp_setup.py")
    assert (ran.returncode, ran.stdout) == (0, "one call of session checkout-42 was sent\n")
    shown = json.loads(up.spanfuse("status", "session:checkout-42", "--format", "json").stdout)
    assert shown["session"]["calls"] == 1


def test_tail_shows_a_block_as_it_happens(up: Up) -> None:
    tail = [*SPANFUSE, "tail", "--format", "json"]
    with subprocess.Popen(tail, env=up.environment, stdout=subprocess.PIPE, text=True) as following:
        try:
            up.example("guard_any_client.py")
            assert following.stdout is not None
            shown = json.loads(following.stdout.readline())
            assert (shown["type"], shown["action"], shown["rule"]) == ("decision", "block", "repeat.prompt")
            following.send_signal(signal.SIGINT)
            assert following.wait(10) == 0
        finally:
            following.kill()


def test_more_clients_than_it_may_open_files_are_refused_and_it_goes_on(tmp_path: Path) -> None:
    """Half of the descriptors are for streams; who is refused is told so, and holds none."""
    limited = ["sh", "-c", 'ulimit -n 128 && exec "$@"', "sh"]
    with running(tmp_path, *limited) as up, ExitStack() as opened:
        host, _, port = up.environment["SPANFUSE_API_URL"].removeprefix("http://").partition(":")
        answers: Counter[bytes] = Counter()
        for _ in range(200):
            client = opened.enter_context(socket.create_connection((host, int(port)), timeout=10))
            client.sendall(b"GET /v1/decisions/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answers[client.recv(12)] += 1
        assert answers == {b"HTTP/1.1 200": 64, b"HTTP/1.1 503": 136}
        assert up.example("otlp_setup.py").returncode == 0
        assert up.spanfuse("status").returncode == 0
        assert up.process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_up_stops_cleanly(up: Up, number: signal.Signals) -> None:
    up.process.send_signal(number)
    _, errors = up.process.communicate(timeout=10)
    assert up.process.returncode == 0
    assert "Traceback" not in errors


def test_a_port_that_is_taken_is_one_clear_line(up: Up, tmp_path: Path) -> None:
    taken = up.environment["SPANFUSE_API_URL"].rpartition(":")[2]
    config = tmp_path / "second.yaml"
    second = CONFIG.replace('api: {endpoint: "127.0.0.1:0"}', f'api: {{endpoint: "127.0.0.1:{taken}"}}')
    config.write_text(second.replace("spanfuse.db", "second.db"))
    ran = up.spanfuse("up", "--config", str(config))
    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) == 1
    assert taken in ran.stderr


@pytest.mark.parametrize("name", ["embedded.yaml", "worker.yaml"])
def test_the_example_configurations_are_valid(name: str) -> None:
    command = [*SPANFUSE, "validate", "--config", str(EXAMPLES / name)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
