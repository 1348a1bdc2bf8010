"""Sizes of sessions in logarithmic buckets: a histogram that is merged by adding, and percentiles of it.

A session sits in one bucket at a time and moves on as it grows, so that no one has to know when it ends. The share of all
sessions that have passed a bound is the survival function of their size, and a percentile is where it falls below a share.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Final

RATIO: Final = 1.15
"""Ratio of two bounds: a percentile is known to 15 %, and some hundred buckets reach from 1 to a million."""


def _bounds(first: int, last: int) -> tuple[int, ...]:
    found, at = [first], float(first)
    while found[-1] < last:
        at *= RATIO
        found.append(max(found[-1] + 1, round(at)))
    return tuple(found)


CALLS: Final = _bounds(1, 1_000_000)
"""Lower bounds by number of model calls; to 8 each number has its own."""
COST: Final = (0, *_bounds(100_000, 100_000 * 10**9))
"""Lower bounds by cost, nano-dollars: nothing to speak of, then from 0.0001 to 100,000 USD."""
STEPS: Final = {bound: bucket for bucket, bound in enumerate(CALLS)}
"""Number of calls with which a session enters a bucket → the bucket."""


def bucket(value: int, bounds: tuple[int, ...]) -> int:
    """The bucket of a value."""
    return max(0, bisect_right(bounds, value) - 1)


def percentile(histogram: Mapping[int, int], share: float, bounds: tuple[int, ...]) -> int:
    """The largest value of the first bucket up to which `share` of the sessions lie; 0 if there are none."""
    wanted, below = share * sum(histogram.values()), 0
    for at in sorted(histogram):
        below += histogram[at]
        if histogram[at] > 0 and below >= wanted > 0:
            return bounds[at + 1] - 1 if at + 1 < len(bounds) else bounds[-1]
    return 0
