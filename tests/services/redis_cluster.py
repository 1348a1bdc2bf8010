"""A cluster of one node, which refuses keys of different slots in one script as any does."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from tests.services.process import ServerProcess, free_ports
from tests.services.redis_server import _binary, answers


@contextmanager
def cluster_of_one() -> Iterator[str]:
    """Its URL."""
    folder = Path(tempfile.mkdtemp(prefix="spanfuse-cluster-"))
    port, bus = free_ports(2)
    options = {
        "port": port, "bind": "127.0.0.1", "dir": folder, "save": "''", "cluster-enabled": "yes", "cluster-port": bus,
    }  # fmt: skip
    flags = [text for key, value in options.items() for text in (f"--{key}", str(value))]
    server, url = ServerProcess([_binary(), *flags], folder / "redis.log"), f"redis://127.0.0.1:{port}/0"
    server.start()
    try:
        server.wait_ready(lambda: answers(url), 20)
        with redis.Redis.from_url(url, decode_responses=True) as node:
            node.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            end = time.monotonic() + 10
            while "cluster_state:ok" not in str(node.execute_command("CLUSTER", "INFO")):
                assert time.monotonic() < end, "the cluster is not ready within 10 s"
                time.sleep(0.01)
        yield url
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
