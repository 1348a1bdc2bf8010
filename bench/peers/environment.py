"""The peers' own virtual environment: what they need must not meet what we need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

PINS: Final = {"budgetctl": "0.1.0", "microloop": "0.3.0", "looplet": "0.4.1"}
"""Peers and their versions. What they depend on is not pinned: it is what their releases allow on the day."""

ROOT: Final = Path(__file__).parents[2]
"""The checkout, which adapters are run in."""
PLACE: Final = ROOT / ".cache" / "peers"
INSTALL_TIMEOUT_S: Final = 900


class NoPeers(Exception):
    """The environment cannot be made."""


def python(place: Path = PLACE) -> Path:
    """The environment's Python; made at the first use, which downloads some 100 MB.

    Raises:
        NoPeers: it cannot be made.
    """
    pins = [f"{name}=={version}" for name, version in PINS.items()]
    found, marker = place / "bin" / "python", place / "installed.txt"
    wanted = "\n".join([sys.version, *pins])
    if marker.is_file() and found.exists() and marker.read_text(encoding="utf-8") == wanted:
        return found
    _do(sys.executable, "-m", "venv", "--clear", str(place))
    _do(str(found), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pins)
    marker.write_text(wanted, encoding="utf-8")
    return found


def _do(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoPeers(str(error)) from error
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise NoPeers(said[-1] if said else f"{command[2]} exited with {done.returncode}")
