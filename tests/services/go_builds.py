"""How tools are built with Go, each once, into the checkout's `.cache/`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.services.kafka_jars import MissingTool

CACHE = Path(__file__).parents[2] / ".cache"
BUILD_TIMEOUT_S = 1800
"""A build on two cores that others use, too, seconds."""


def go(what: str) -> str:
    """The program.

    Args:
        what: is built with it, for the message.

    Raises:
        MissingTool: it is not installed.
    """
    found = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if found is None:
        raise MissingTool(f"{what} is built with Go: apt-get install golang-go, or see go.dev")
    return found


def made_once(ready: Path, make: Callable[[Path], None]) -> None:
    """Fill a folder, unless it is there: `make` fills another, which takes its name when it is complete."""
    if ready.is_dir():
        return
    CACHE.mkdir(exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix="go-", dir=CACHE))
    try:
        make(partial)
        partial.rename(ready)
    except OSError:
        if not ready.is_dir():  # else another run was faster
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str], what: str) -> None:
    """Build something.

    Raises:
        RuntimeError: it cannot be; with what Go says.
    """
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S)
    if done.returncode:
        raise RuntimeError(f"Go could not build {what}:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")


def main(build: Callable[[], None]) -> int:
    """Build, which takes longer than a test may. 0 when it is there."""
    try:
        build()
    except RuntimeError as error:
        print(f"tests: {error}", file=sys.stderr)
        return 1
    return 0
