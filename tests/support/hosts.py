"""The two live hosts as processes, as an operator would start them."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

SPANFUSE = [sys.executable, "-m", "spanfuse_processor"]
START_S = 60.0
STOP_S = 10.0


@dataclass
class Deployment:
    """A running host.

    Attributes:
        name: `embedded` or `stream`.
        otlp: where spans go, base URL for OTLP/HTTP.
        guard: where a Guard subscribes.
        config: path of its configuration.
        process: the host's process.
    """

    name: str
    otlp: str
    guard: str
    config: Path
    process: subprocess.Popen[str]
    api: str = ""
    lines: list[str] = field(default_factory=list)

    def spanfuse(self, *arguments: str) -> str:
        """Run a command of an operator against it; its standard output."""
        where = ["--api", self.api] if self.api else ["--config", str(self.config)]
        command = [*SPANFUSE, arguments[0], *where, *arguments[1:]]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def kill(self) -> None:
        """End it without warning."""
        self.process.kill()
        self.process.wait(STOP_S)


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def any_port(content: dict[str, Any]) -> None:
    """Serve the metrics on some port, unless the content of a configuration says where: workers run side by side."""
    telemetry = content.setdefault("service", {}).setdefault("telemetry", {})
    telemetry.setdefault("metrics", {}).setdefault("endpoint", "127.0.0.1:0")


def _written(folder: Path, config: dict[str, Any], **sections: Any) -> Path:
    path = folder / "spanfuse.yaml"
    path.write_text(yaml.safe_dump({**config, **sections}))
    return path


@contextmanager
def _running(command: list[str], ready: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A process, from the line that says it is ready to a clean end."""
    lines: list[str] = []
    seen = threading.Event()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                if re.search(ready, line):
                    seen.set()
            seen.set()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            assert seen.wait(START_S), f"not ready: {''.join(lines[-20:])}"
            assert process.poll() is None, "".join(lines[-20:])
            yield process, lines
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(STOP_S)
        finally:
            process.kill()


@contextmanager
def embedded(folder: Path, config: dict[str, Any], extensions: dict[str, Any] | None = None) -> Iterator[Deployment]:
    """`spanfuse up` on free ports, with its state in a folder."""
    http, grpc, api = free_port(), free_port(), free_port()
    path = _written(
        folder,
        config,
        receivers={
            "otlp": {
                "protocols": {"http": {"endpoint": f"127.0.0.1:{http}"}, "grpc": {"endpoint": f"127.0.0.1:{grpc}"}}
            }
        },
        extensions={"api": {"endpoint": f"127.0.0.1:{api}"}, "storage": {"path": str(folder / "spanfuse.db")}}
        | (extensions or {}),
    )
    with _running([*SPANFUSE, "up", "--config", str(path)], "spanfuse is up") as (process, lines):
        url = f"http://127.0.0.1:{api}"
        yield Deployment("embedded", f"http://127.0.0.1:{http}", url, path, process, url, lines)


@contextmanager
def stream(folder: Path, config: dict[str, Any], brokers: str, **kafka: Any) -> Iterator[Deployment]:
    """`spanfuse topics create`, then `spanfuse worker` with an OTLP receiver of its own."""
    http, grpc = free_port(), free_port()
    config = deepcopy(config)
    any_port(config)
    path = _written(
        folder,
        config,
        receivers={
            "otlp": {
                "protocols": {"http": {"endpoint": f"127.0.0.1:{http}"}, "grpc": {"endpoint": f"127.0.0.1:{grpc}"}}
            },
            "kafka": {"brokers": brokers, "partitions": 4, **kafka},
        },
    )
    created = subprocess.run(
        [*SPANFUSE, "topics", "create", "--config", str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert created.returncode == 0, created.stderr
    with _running([*SPANFUSE, "worker", "--config", str(path)], "worker is up") as (process, lines):
        yield Deployment("stream", f"http://127.0.0.1:{http}", f"kafka://{brokers}", path, process, "", lines)


@contextmanager
def api(folder: Path, config: dict[str, Any], brokers: str) -> Iterator[str]:
    """`spanfuse api` beside the workers of a broker; its base URL."""
    path = _written(folder, config, receivers={"kafka": {"brokers": brokers, "partitions": 4}})
    with _running([*SPANFUSE, "api", "--config", str(path)], "api is up") as (_, lines):
        yield next(found.group(1) for line in lines if (found := re.search(r"api is up: (\S+)", line)))
