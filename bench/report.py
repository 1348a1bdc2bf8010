"""How the benchmarks say what they measured: a figure, beside a baseline of the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure.

    Attributes:
        name: what was measured.
        value: the figure, in `unit`.
        baseline: the figure of the baseline in the same run and unit; none where there is none.
        versus: what the baseline is.
        aim: what we would like it to be; empty for none.
    """

    name: str
    value: float
    unit: str
    baseline: float | None = None
    versus: str = ""
    aim: str = ""

    def __str__(self) -> str:
        ratio = f"  {self.value / self.baseline:8.2f} x {self.versus} ({self.baseline:,.2f})" if self.baseline else ""
        aim = f"  [aim {self.aim}]" if self.aim else ""
        return f"{self.name:<58} {self.value:>14,.2f} {self.unit:<10}{ratio}{aim}"


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """A figure that cannot be had here, and why."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name:<58} not measured: {self.why}"


def time_per_call(work: Callable[[int], object], calls: int, repeats: int = 5) -> float:
    """Seconds per call of `work(calls)`, the median of some repeats."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work(calls)
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times)
