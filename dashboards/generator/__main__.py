"""`python -m dashboards.generator [FOLDER]`: write all dashboards, by default beside this package."""

from __future__ import annotations

import sys
from pathlib import Path

from dashboards.generator import detections, fleet, operations, session, spend, tuning
from dashboards.generator.board import as_json

BOARDS = {
    "fleet": fleet.build,
    "spend": spend.build,
    "detections": detections.build,
    "session": session.build,
    "tuning": tuning.build,
    "operations": operations.build,
}
"""Name of the file → what builds it."""


def main(folder: Path) -> None:
    """Write them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, build in BOARDS.items():
        (folder / f"{name}.json").write_text(as_json(build()), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1])
