"""How long sessions are: model calls per session, in bins that grow with their size."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any, Final

from spanfuse_processor.hosts.replay.totals import percentile

PERCENTILES: Final = (50, 75, 90, 95, 99, 100)
"""Those that are told."""
_MOST: Final = 2 * 30
"""Bins: two for each doubling, up to a billion calls."""
STARTS: Final = tuple(sorted({ceil(2 ** (half / 2)) for half in range(_MOST)}))
"""Smallest number of calls of each bin."""


def distribution(calls: Mapping[str, int], kinds: Mapping[str, str]) -> dict[str, Any]:
    """Sessions by their number of calls, as it is written.

    Args:
        calls: session → its model calls; sessions without one are left out.
        kinds: session → its label; those of others are not told apart.
    """
    sizes = {session: count for session, count in calls.items() if count}
    last = bisect_right(STARTS, max(sizes.values(), default=0))
    bins: list[dict[str, Any]] = [
        {"from": start, "to": STARTS[place + 1] - 1, "sessions": 0} for place, start in enumerate(STARTS[:last])
    ]
    for session, count in sizes.items():
        found = bins[bisect_right(STARTS, count) - 1]
        found["sessions"] += 1
        if session in kinds:
            found[kinds[session]] = found.get(kinds[session], 0) + 1
    return {"percentiles": percentiles(sizes.values()), "bins": bins}


def percentiles(values: Iterable[float]) -> dict[str, float | None]:
    """Percent → the value that at least so many percent do not exceed."""
    ordered = sorted(values)
    return {str(percent): percentile(ordered, percent) for percent in PERCENTILES}
