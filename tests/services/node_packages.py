"""Packages of JavaScript, OpenTelemetry's and axe, fetched once through npm into the checkout's `.cache/`."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.services.kafka_jars import MissingTool

_HERE = Path(__file__).parent / "node"
_CACHE = Path(__file__).parents[2] / ".cache"

PACKAGES = _HERE / "package.json"
EXPORT = _HERE / "export.cjs"
"""Reports a model call: `node export.cjs KIND URL COMPRESSION`, KIND `http` (JSON), `proto` or `grpc`; prints its trace id."""

MIN_VERSION = 18


def node() -> str:
    """Path of a Node.js that is new enough.

    Raises:
        MissingTool: there is none, or no npm.
    """
    found = shutil.which("node")
    if found is None or shutil.which("npm") is None:
        raise MissingTool("exporters of JavaScript need Node.js: apt-get install nodejs npm")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=20).stdout
    if int(version.strip().lstrip("v").partition(".")[0] or 0) < MIN_VERSION:
        raise MissingTool(f"exporters of JavaScript need Node.js {MIN_VERSION} or newer, here is {version.strip()}")
    return found


def modules() -> Path:
    """The folder of the packages; fetches them when `package.json` changed since they were fetched.

    Raises:
        MissingTool: Node.js is not installed.
        RuntimeError: npm failed; with its output.
    """
    node()
    folder = _CACHE / f"node-{hashlib.sha256(PACKAGES.read_bytes()).hexdigest()[:12]}"
    if not folder.is_dir():
        _fetch(folder)
    return folder / "node_modules"


def _fetch(folder: Path) -> None:
    _CACHE.mkdir(exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix="node-", dir=_CACHE))
    shutil.copy(PACKAGES, partial)
    command = [
        "npm",
        "install",
        "--prefix",
        str(partial),
        "--no-audit",
        "--no-fund",
        "--no-package-lock",
        "--ignore-scripts",
        "--silent",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        shutil.rmtree(partial)
        raise RuntimeError(f"npm could not fetch the packages:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    try:
        partial.rename(folder)
    except OSError:  # another run was faster
        shutil.rmtree(partial)
