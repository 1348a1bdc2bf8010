"""Spans that no reader foresaw: one that raises is left out and counted, and takes nothing of its batch with it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

logger = logging.getLogger(__name__)

MAX_PLACES: Final = 32
"""Places in the code whose failures are logged."""

P = ParamSpec("P")
T = TypeVar("T")


class Unforeseen:
    """Reads spans one by one.

    Args:
        counters: gets `failed`, in spans.
    """

    def __init__(self, counters: Counter[str]) -> None:
        self._counters = counters
        self._places: set[str] = set()

    def tried(self, read: Callable[P, T | None], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """What a reader makes of a span; none if it fails."""
        try:
            return read(*args, **kwargs)
        except Exception as error:
            self._counters["failed"] += 1
            self._log(error)
            return None

    def _log(self, error: Exception) -> None:
        """Each place where it happens once, without any content."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "?"
        if place not in self._places and len(self._places) < MAX_PLACES:
            self._places.add(place)
            logger.error("spans that raise %s at %s are dropped and counted as failed", type(error).__name__, place)
