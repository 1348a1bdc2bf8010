"""A real Prometheus, and promtool: those of the PATH, else out of Debian's package, unpacked into the checkout's `.cache/`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

import yaml

from tests.services.kafka_jars import MissingTool
from tests.services.process import ServerProcess, free_ports

_CACHE = Path(__file__).parents[2] / ".cache"
_FOLDER = _CACHE / "prometheus"
_direct = build_opener(ProxyHandler({}))


def program(name: str) -> str:
    """Path of `prometheus` or `promtool`: of the folder SPANFUSE_TEST_PROMETHEUS, of the PATH, or unpacked.

    Raises:
        MissingTool: it is not there, and apt does not have it.
    """
    own = os.environ.get("SPANFUSE_TEST_PROMETHEUS")
    found = shutil.which(name, path=own) if own else shutil.which(name)
    unpacked = _FOLDER / "usr" / "bin" / name
    if found is None and not unpacked.exists():
        _fetch()
    return found or str(unpacked)


def _fetch() -> None:
    """Unpack the package: it is not installed, since that would start it as a service."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise MissingTool("rules and dashboards are asked of a real Prometheus: install prometheus with promtool")
    _CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="prometheus-", dir=_CACHE) as folder:
        run = subprocess.run(
            ["apt-get", "download", "prometheus"], cwd=folder, capture_output=True, text=True, timeout=300
        )
        packages = list(Path(folder).glob("prometheus_*.deb"))
        if run.returncode or not packages:
            raise MissingTool(f"apt has no package prometheus, or no lists (apt-get update): {run.stderr[-500:]}")
        subprocess.run(["dpkg", "-x", str(packages[0]), f"{folder}/unpacked"], check=True, timeout=120)
        try:
            Path(folder, "unpacked").rename(_FOLDER)
        except OSError:  # another run was faster
            return


class Prometheus:
    """A server on a loopback port.

    Args:
        folder: for its data; `prometheus.yml` there is what it is started with.
    """

    def __init__(self, folder: Path) -> None:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self._process = ServerProcess(
            [
                program("prometheus"),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
            ],
            folder / "prometheus.log",
        )

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self._process.start()
        self._process.wait_ready(self._ready, 30)

    def stop(self) -> None:
        """End it."""
        self._process.stop(5)

    def get(self, path: str, **fields: str) -> Any:
        """The `data` of an answer of its API.

        Raises:
            ValueError: it refuses, an expression that it cannot read, say.
        """
        try:
            with _direct.open(f"{self.url}/api/v1/{path}?{urlencode(fields)}", timeout=10) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            raise ValueError(f"{fields}: {error.read().decode()}") from None

    def query(self, expr: str) -> list[dict[str, Any]]:
        """What an expression comes to now."""
        found: list[dict[str, Any]] = self.get("query", query=expr)["result"]
        return found

    def over_time(self, expr: str, seconds: int = 120) -> list[dict[str, Any]]:
        """What it came to each second, series with all their points."""
        now = time.time()
        found: list[dict[str, Any]] = self.get(
            "query_range", query=expr, start=str(now - seconds), end=str(now), step="1"
        )["result"]
        return found

    def _ready(self) -> bool:
        try:
            with _direct.open(f"{self.url}/-/ready", timeout=2) as response:
                return bool(response.status == 200)
        except OSError:
            return False


def promtool(*arguments: str) -> str:
    """Output of a command that succeeds.

    Raises:
        AssertionError: it fails; with what it said.
    """
    run = subprocess.run([program("promtool"), *arguments], capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout + run.stderr


def write_yaml(path: Path, content: Any) -> Path:
    """A file of YAML."""
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path
