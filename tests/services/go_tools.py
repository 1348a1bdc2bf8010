"""Tools that are built from Go modules, once, into the checkout's `.cache/`: Helm, and the checks of `deploytools/`.

Builds take some minutes of two cores: `python -m tests.services.go_tools` makes them before the tests.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.services.kafka_jars import MissingTool

_CACHE = Path(__file__).parents[2] / ".cache"
_CHECKS = Path(__file__).parent / "deploytools"

HELM_VERSION = "v3.22.0"
BUILD_TIMEOUT_S = 1800
"""A build on two cores that others use, too, seconds."""


@functools.cache
def helm() -> Path:
    """Helm: that of `SPANFUSE_TEST_HELM`, else one that was built.

    Raises:
        MissingTool: there is none; the message says how to get it.
    """
    named = os.environ.get("SPANFUSE_TEST_HELM")
    return Path(named) if named else _made(_helm_folder() / "helm")


@functools.cache
def deploytools() -> Path:
    """The checks of `deploytools/main.go`.

    Raises:
        MissingTool: they are not built; the message says how.
    """
    return _made(_checks_folder() / "deploytools")


def _made(program: Path) -> Path:
    if not program.exists():
        raise MissingTool(f"{program.name} is needed: `python -m tests.services.go_tools` builds it with Go")
    return program


def _helm_folder() -> Path:
    return _CACHE / f"helm-{HELM_VERSION}"


def _checks_folder() -> Path:
    sources = b"".join((_CHECKS / name).read_bytes() for name in ("go.mod", "go.sum", "main.go"))
    return _CACHE / f"deploytools-{hashlib.sha256(sources).hexdigest()[:12]}"


def build() -> None:
    """Make what is not there yet.

    Raises:
        MissingTool: Go is not installed.
        RuntimeError: one cannot be built; with what Go says.
    """
    if not os.environ.get("SPANFUSE_TEST_HELM"):
        _install(f"helm.sh/helm/v3/cmd/helm@{HELM_VERSION}", _helm_folder(), Path.cwd())
    _install(".", _checks_folder(), _CHECKS)


def _install(package: str, ready: Path, folder: Path) -> None:
    if ready.is_dir():
        return
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        raise MissingTool(f"{package} is built with Go: apt-get install golang-go, or see go.dev")
    _CACHE.mkdir(exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix="go-", dir=_CACHE))
    environment = {**os.environ, "GOBIN": str(partial), "GOTOOLCHAIN": "auto", "GOFLAGS": "-mod=readonly"}
    done = subprocess.run(
        [go, "install", package], cwd=folder, env=environment, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S
    )
    if done.returncode:
        shutil.rmtree(partial)
        raise RuntimeError(f"Go could not build {package}:\n{done.stderr[-2000:]}")
    try:
        partial.rename(ready)
    except OSError:  # another run was faster
        shutil.rmtree(partial)


def main() -> int:
    """0 when all are there."""
    try:
        build()
    except RuntimeError as error:
        print(f"tests: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
