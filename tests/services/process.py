"""A server process of the tests: started on loopback, waited for on a condition, ended by its pid."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def free_ports(count: int) -> list[int]:
    """Loopback ports that nothing listens on.

    They lie below the range from which the kernel takes the ports of outgoing connections: a client that keeps dialling
    a server that is down could otherwise be given the server's own port, and keep it from coming back.
    """
    found: list[int] = []
    for port in random.sample(range(20_000, 32_000), 2_000):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"found {len(found)} of {count} free ports on loopback")


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 60, every_s: float = 0.05) -> None:
    """Return once `condition()` is true.

    Raises:
        TimeoutError: after `timeout_s` seconds; `what` says what was waited for.
    """
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")
        time.sleep(every_s)


def accepts(port: int, host: str = "127.0.0.1") -> bool:
    """Whether something accepts TCP connections there."""
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


class ServerProcess:
    """One child process. It does not outlive this one, not even a kill -9."""

    def __init__(self, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        """
        Args:
            command: program and arguments.
            log: file to which its output is appended.
            env: whole environment; none: that of this process.
        """
        self.command = list(command)
        self.log = log
        self._env = env
        self._child: subprocess.Popen[bytes] | None = None
        self._guardian: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id; 0 before the first start."""
        return self._child.pid if self._child else 0

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        """Start it; it is not yet ready then."""
        self._dismiss_guardian()
        with self.log.open("ab") as out:
            # A session of its own: Ctrl-C reaches the tests first, and they end it in order.
            self._child = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self._env, start_new_session=True
            )
        # Its standard input ends when this process does, however that happens.
        self._guardian = subprocess.Popen(
            ["sh", "-c", "read _; kill -9 $0", str(self.pid)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def wait_ready(self, ready: Callable[[], bool], timeout_s: float) -> None:
        """Wait for `ready()`.

        Raises:
            RuntimeError: the process ended before; with the end of its log.
            TimeoutError: it was not ready in time; likewise.
        """

        def ready_or_dead() -> bool:
            if not self.running:
                raise RuntimeError(f"{self.command[0]} ended before it was ready:\n{self.log_tail()}")
            return ready()

        try:
            wait_until(ready_or_dead, self.command[0], timeout_s)
        except TimeoutError as error:
            raise TimeoutError(f"{error}:\n{self.log_tail()}") from None

    def stop(self, grace_s: float = 20) -> None:
        """End it with SIGTERM, and with SIGKILL after `grace_s` seconds."""
        self._signal(signal.SIGTERM)
        try:
            self._wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._signal(signal.SIGKILL)
        self._wait(20)

    def log_tail(self, chars: int = 4_000) -> str:
        """The end of its output."""
        return self.log.read_text(errors="replace")[-chars:] if self.log.exists() else ""

    def _signal(self, number: signal.Signals) -> None:
        if self._child is not None and self.running:
            self._child.send_signal(number)

    def _wait(self, timeout_s: float) -> None:
        if self._child is not None:
            self._child.wait(timeout_s)
        self._dismiss_guardian()

    def _dismiss_guardian(self) -> None:
        if self._guardian is not None:
            self._guardian.kill()
            self._guardian.communicate()
            self._guardian = None
