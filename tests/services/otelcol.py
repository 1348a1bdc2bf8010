"""The OpenTelemetry Collector of deploy/collector/builder.yaml, built once into the checkout's `.cache/`, and run as a process.

A build takes some minutes of two cores: `python -m tests.services.otelcol` makes it before the tests.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.services import go_builds
from tests.services.kafka_jars import MissingTool
from tests.services.process import ServerProcess, free_ports

CONFIGS = Path(__file__).parents[2] / "deploy" / "collector"
_MANIFEST = CONFIGS / "builder.yaml"
_BUILDER = "go.opentelemetry.io/collector/cmd/builder"


def version() -> str:
    """The version that is pinned."""
    return str(yaml.safe_load(_MANIFEST.read_text())["dist"]["version"])


@functools.cache
def binary() -> Path:
    """The Collector: that of `SPANFUSE_TEST_OTELCOL`, one of this version on the PATH, or one that was built.

    Raises:
        MissingTool: there is none; the message says how to get it.
    """
    named = os.environ.get("SPANFUSE_TEST_OTELCOL")
    if named:
        return Path(named)
    found = _on_path() or _folder() / "otelcol-spanfuse"
    if not found.exists():
        raise MissingTool("a real Collector is needed: `python -m tests.services.otelcol` builds one with Go")
    return found


def _on_path() -> Path | None:
    found = shutil.which("otelcol-contrib")
    if found is None:
        return None
    told = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=20).stdout
    return Path(found) if told.split()[-1:] == [version()] else None


def _folder() -> Path:
    return go_builds.CACHE / f"otelcol-{hashlib.sha256(_MANIFEST.read_bytes()).hexdigest()[:12]}"


def build() -> None:
    """Make it, if there is none.

    Raises:
        MissingTool: Go is not installed.
        RuntimeError: it cannot be built; with what Go says.
    """
    if os.environ.get("SPANFUSE_TEST_OTELCOL") or _on_path():
        return
    go_builds.made_once(_folder(), _make)


def _make(partial: Path) -> None:
    go = go_builds.go("the Collector")
    manifest = yaml.safe_load(_MANIFEST.read_text())
    manifest["dist"]["output_path"] = str(partial / "build")
    (partial / "builder.yaml").write_text(yaml.safe_dump(manifest))
    command = [go, "run", f"{_BUILDER}@v{version()}", "--config", "builder.yaml"]
    environment = {**os.environ, "GOTOOLCHAIN": "auto", "PATH": f"{Path(go).parent}:{os.environ['PATH']}"}
    go_builds.run(command, partial, environment, "the Collector")
    (partial / "build" / "otelcol-spanfuse").rename(partial / "otelcol-spanfuse")
    shutil.rmtree(partial / "build")


class Collector:
    """A Collector as a process of its own, with files of deploy/collector.

    Args:
        folder: for its output.
        files: names of the files, the first and what is laid over it.
        env: variables of the files; ports and host are chosen here.
    """

    def __init__(self, folder: Path, files: Sequence[str], env: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.grpc, self.http, self.health, self.metrics_port = free_ports(4)
        configs = [argument for name in files for argument in ("--config", str(CONFIGS / name))]
        ports = {
            "OTELCOL_HOST": "127.0.0.1",
            "OTELCOL_GRPC_PORT": str(self.grpc),
            "OTELCOL_HTTP_PORT": str(self.http),
            "OTELCOL_HEALTH_PORT": str(self.health),
            "OTELCOL_METRICS_PORT": str(self.metrics_port),
        }
        self.log = folder / f"{files[0]}.log"
        self.process = ServerProcess([str(binary()), *configs], self.log, {**os.environ, **ports, **env})

    def start(self) -> Collector:
        """Start it, and wait until it is healthy."""
        self.process.start()
        self.process.wait_ready(self._healthy, timeout_s=30)
        return self

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    @property
    def output(self) -> str:
        """All that it has logged."""
        return self.log.read_text(errors="replace")

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric of its own over all series that have these labels; 0 if there are none."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=5) as answer:
            families = text_string_to_metric_families(answer.read().decode())
        samples: list[Any] = [sample for family in families for sample in family.samples]
        # The parser writes `_total` behind the names of counters, which the Collector does not.
        found = (s for s in samples if s.name.removesuffix("_total") == name and labels.items() <= s.labels.items())
        return sum(float(s.value) for s in found)


if __name__ == "__main__":
    sys.exit(go_builds.main(build))
