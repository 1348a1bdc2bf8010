"""When the model calls of a session ended: tells how many calls a rule took to notice."""

from __future__ import annotations

from array import array
from typing import Final

MAX_ENDS: Final = 2048
"""Calls remembered per session, the newest: 8 bytes each."""


class Ends:
    """Ends of the newest model calls of one session, nanoseconds since the Unix epoch."""

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        self._ends = array("q")

    def add(self, end_ns: int) -> None:
        """Take in a call."""
        if len(self._ends) == MAX_ENDS:
            del self._ends[0]
        self._ends.append(end_ns)

    def since(self, since_ns: int) -> int | None:
        """How many calls ended then or later; none if some of those may be forgotten."""
        count = sum(end >= since_ns for end in self._ends)
        return None if count == MAX_ENDS else count
