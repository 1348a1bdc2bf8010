"""How hosts keep the garbage collector out of the way."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SELDOM: Final = 100_000
"""Objects that are made before it looks while a replay is at work; usually 700."""


def spare_the_collector() -> None:
    """For hosts that stay. What is loaded now stays, and calls are many, short-lived and without cycles: by default the
    collector would cost as much as parsing them, and look through all sessions in pauses of 50 to 100 ms."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@contextmanager
def seldom_collected() -> Iterator[None]:
    """For work that ends. There are no cycles, and to look at all states takes a tenth of the time."""
    before = gc.get_threshold()
    gc.set_threshold(_SELDOM, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
