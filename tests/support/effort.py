"""How work grows with its size, in time of the processor: what else the machine does adds nothing to it."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds(work: Callable[[], object], *, rounds: int = 3) -> float:
    """Processor time of the whole process that the work takes, the best of some rounds."""

    def once() -> float:
        began = time.process_time()
        work()
        return time.process_time() - began

    return min(once() for _ in range(rounds))


def growth(work: Callable[[int], object], size: int, *, times: int = 10) -> float:
    """How many times as long the work takes at so many times the size: about as many where it is linear, their square where it
    is quadratic. What takes less than a millisecond counts as one."""
    small = seconds(lambda: work(size))
    return seconds(lambda: work(size * times)) / max(small, 1e-3)
