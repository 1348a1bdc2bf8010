"""A server that the tests started ends with them, whatever happens to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.process import ServerProcess, accepts, free_ports, wait_until

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
OWNER = """
import sys, time
from pathlib import Path
from tests.services.process import ServerProcess
server = ServerProcess(["sleep", "600"], Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
time.sleep(600)
"""


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_does_not_outlive_the_process_that_started_it(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path / "log")], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        server = int(owner.stdout.readline())
        assert _alive(server)
        owner.send_signal(number)
    wait_until(lambda: not _alive(server), "the end of the server", timeout_s=10)


def test_a_server_that_fails_says_why(tmp_path: Path) -> None:
    server = ServerProcess(["sh", "-c", "echo no such listener; exit 3"], tmp_path / "log")
    server.start()
    with pytest.raises(RuntimeError, match="no such listener"):
        server.wait_ready(lambda: False, timeout_s=10)


def test_a_server_that_does_not_answer_is_waited_for_only_so_long(tmp_path: Path) -> None:
    server = ServerProcess(["sleep", "600"], tmp_path / "log")
    server.start()
    (port,) = free_ports(1)
    with pytest.raises(TimeoutError, match="not within"):
        server.wait_ready(lambda: accepts(port), timeout_s=0.3)
    server.stop()
    assert not server.running


def test_a_server_that_ignores_the_polite_signal_is_killed(tmp_path: Path) -> None:
    server = ServerProcess(["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"], tmp_path / "log")
    server.start()
    server.wait_ready(lambda: "ready" in server.log_tail(), timeout_s=10)
    server.stop(grace_s=0.3)
    assert not server.running
