"""Which spans a session has counted, so that one that is delivered again counts once."""

from __future__ import annotations

from bisect import insort
from typing import Any, Final, Literal

WINDOW: Final = 128
"""Spans remembered by id. Older ones are covered by the horizon."""
MAX_WINDOW: Final = 4096
"""Upper bound where so many spans ended at one and the same time that no horizon can tell them apart."""


class SeenSpans:
    """The newest spans by end time, and a horizon: what ended by then is a duplicate, or too late to tell."""

    __slots__ = ("_by_end", "_ids", "horizon_ns")

    def __init__(self) -> None:
        self._ids: set[int] = set()
        self._by_end: list[tuple[int, int]] = []
        self.horizon_ns = 0

    def add(self, span_id: int, end_ns: int) -> Literal["new", "duplicate", "late"]:
        """Remember a span, and say whether it counts. The window is ordered by end, not by arrival, so that one clock
        that runs ahead does not make the others late."""
        if span_id in self._ids:
            return "duplicate"
        if end_ns <= self.horizon_ns:
            return "late"
        self._ids.add(span_id)
        entry = (end_ns, span_id)
        by_end = self._by_end
        if not by_end or by_end[-1] < entry:
            by_end.append(entry)
        else:
            insort(by_end, entry)
        if len(by_end) > WINDOW and (by_end[0][0] < by_end[-1][0] or len(by_end) > MAX_WINDOW):
            self.horizon_ns, oldest = by_end.pop(0)
            self._ids.discard(oldest)
        return "new"

    def extend(self, other: SeenSpans) -> None:
        """Take in what another session has counted, as far as there is room."""
        for end_ns, span_id in other._by_end:
            self.add(span_id, end_ns)

    def snapshot(self) -> list[Any]:
        """Flat and small: horizon, then end and id of each span."""
        flat: list[Any] = [self.horizon_ns]
        for entry in self._by_end:
            flat += entry
        return flat

    @classmethod
    def restore(cls, data: list[Any]) -> SeenSpans:
        """The inverse of `snapshot`."""
        seen = cls()
        seen.horizon_ns = data[0]
        seen._by_end = list(zip(data[1::2], data[2::2], strict=True))
        seen._ids = set(data[2::2])
        return seen
