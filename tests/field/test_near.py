"""Field reports: the same question in other words."""

from __future__ import annotations

from typing import Any

from tests.support.road import CALLS, stopped
from tests.support.script import tool


def test_r029_variants_of_one_call_that_all_find_nothing_are_a_loop() -> None:
    """White space, case and a limit make no new question of one that has found nothing."""
    tries: list[dict[str, Any]] = [
        {"type": "a"},
        {"type": "a "},
        {"type": "A"},
        {"type": "a", "n": 1},
        {"type": " a"},
        {"type": "A "},
    ]
    stopped(
        *[tool("list", t) >> [] for t in tries],
        after=range(3, 6),
        by=["near.no_progress", "repeat.no_progress", "stagnation"],
        shows=CALLS,
    )
