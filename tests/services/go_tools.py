"""Tools that are built from Go modules, once, into the checkout's `.cache/`: Helm, and the checks of `deploytools/`.

Builds take some minutes of two cores: `python -m tests.services.go_tools` makes them before the tests.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from pathlib import Path

from tests.services import go_builds
from tests.services.kafka_jars import MissingTool

_CHECKS = Path(__file__).parent / "deploytools"

HELM_VERSION = "v3.22.0"


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
    return go_builds.CACHE / f"helm-{HELM_VERSION}"


def _checks_folder() -> Path:
    sources = b"".join((_CHECKS / name).read_bytes() for name in ("go.mod", "go.sum", "main.go"))
    return go_builds.CACHE / f"deploytools-{hashlib.sha256(sources).hexdigest()[:12]}"


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
    def make(partial: Path) -> None:
        environment = {**os.environ, "GOBIN": str(partial), "GOTOOLCHAIN": "auto", "GOFLAGS": "-mod=readonly"}
        go_builds.run([go_builds.go(package), "install", package], folder, environment, package)

    go_builds.made_once(ready, make)


if __name__ == "__main__":
    sys.exit(go_builds.main(build))
