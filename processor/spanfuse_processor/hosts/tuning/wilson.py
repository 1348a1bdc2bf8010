"""How far a share that was counted may be from the true one."""

from __future__ import annotations

from math import ceil, comb, sqrt
from typing import Final

Z: Final = 1.959964
"""Standard score of 95 % confidence, two-sided."""


def interval(hits: int, of: int) -> tuple[float, float]:
    """Wilson's interval of a share at 95 % confidence, 0 to 1; (0, 1) of nothing.

    Good also for shares of 0 and 1, where the normal approximation says that nothing is uncertain.
    """
    if not of:
        return 0.0, 1.0
    share, square = hits / of, Z * Z
    middle = (share + square / (2 * of)) / (1 + square / of)
    half = Z / (1 + square / of) * sqrt(share * (1 - share) / of + square / (4 * of * of))
    return max(0.0, middle - half), min(1.0, middle + half)


def needed(share: float) -> int:
    """How many there have to be, none of them hit, for the interval to end below a share."""
    return ceil(Z * Z * (1 - share) / share)


def chance(better: int, worse: int) -> float:
    """How likely so uneven a split is where better and worse are equally likely (sign test, two-sided), 0 to 1."""
    of = better + worse
    tail = sum(comb(of, k) for k in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / float(2**of))
