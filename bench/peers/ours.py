"""spanfuse itself: `spanfuse replay` with its defaults, as anybody runs it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import spanfuse_processor
from bench.peers.adapter import Verdicts

REPLAY_TIMEOUT_S = 3600


def replay(path: Path) -> Verdicts:
    """The verdicts on one file, from the report that `spanfuse replay` writes."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place, "report.json")
        # In an empty folder, so that no configuration file lies about.
        command = [
            sys.executable,
            "-m",
            spanfuse_processor.__name__,
            "replay",
            str(path.absolute()),
            "--report",
            str(report),
        ]
        subprocess.run(command, cwd=place, stdout=subprocess.DEVNULL, timeout=REPLAY_TIMEOUT_S, check=True)
        sessions = [s for s in json.loads(report.read_text(encoding="utf-8"))["sessions"] if s["calls"]]
    return Verdicts(
        refused={s["session"]: s["blocked_at"] for s in sessions},
        calls={s["session"]: s["calls"] for s in sessions},
    )
