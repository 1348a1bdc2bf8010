"""What is judged of a worker's progress; knows no broker and no clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aiokafka import TopicPartition

STUCK_S: Final = 90.0
"""Time without progress, while messages wait, after which the worker ends, seconds. Default 90: longer than the 60 s that a
rebalance may take, and than the 30 s after which a producer tries a record again."""


class Progress:
    """Judges offsets.

    Args:
        stuck_s: see `STUCK_S`.
    """

    def __init__(self, stuck_s: float = STUCK_S) -> None:
        self._stuck_s = stuck_s
        self._since: dict[TopicPartition, tuple[int, float]] = {}

    def look(
        self, committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], now_s: float
    ) -> TopicPartition | None:
        """A partition that has waited too long; none if all is well.

        Args:
            committed: next offset to read, of the partitions that are this worker's.
            ends: end offset of each.
            now_s: monotonic time, seconds.
        """
        before, self._since = self._since, {}
        for tp, offset in committed.items():
            if offset >= ends.get(tp, 0):
                continue
            last, since = before.get(tp, (offset, now_s))
            self._since[tp] = (offset, since if offset == last else now_s)
            if now_s - self._since[tp][1] > self._stuck_s:
                return tp
        return None

    def idle(self, now_s: float) -> dict[TopicPartition, float]:
        """For how long partitions have stood still on which messages wait, seconds."""
        return {tp: now_s - since for tp, (_, since) in self._since.items()}

    def pause(self) -> None:
        """Nothing can be known, or nothing is expected: begin anew."""
        self._since.clear()


class Patience:
    """Judges how long something lasts.

    Args:
        limit_s: longer than this is too long, seconds.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s: Final = limit_s
        self._since: float | None = None

    def lost(self, lasts: bool, now_s: float) -> bool:
        """Whether it has lasted too long.

        Args:
            lasts: whether it is so at present.
            now_s: monotonic time, seconds.
        """
        if not lasts:
            self._since = None
            return False
        if self._since is None:
            self._since = now_s
        return now_s - self._since > self.limit_s

    def pause(self) -> None:
        """Nothing can be known: begin anew."""
        self._since = None
