"""The frontier: settings for which no others stop more runaways without a wrong stop more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spanfuse_processor.hosts.tuning.grid import Axis, distance
from spanfuse_processor.hosts.tuning.settings import Changes
from spanfuse_processor.hosts.tuning.trials import Trials

MAX_POINTS: Final = 50
"""Points that are reported, those with the fewest wrong stops."""


def frontier(trials: Trials, axes: Sequence[Axis]) -> list[Changes]:
    """The settings on the frontier, the fewest wrong stops first; of equal ones the earliest, then the nearest."""
    scores = {changes: trials.score(changes) for changes in trials.tried}
    order = sorted(
        scores, key=lambda c: (scores[c].wrong, -scores[c].stopped, scores[c].wasted_calls, distance(axes, c), repr(c))
    )
    found: list[Changes] = []
    for changes in order:
        if not found or scores[changes].stopped > scores[found[-1]].stopped:
            found.append(changes)
    return found[:MAX_POINTS]
