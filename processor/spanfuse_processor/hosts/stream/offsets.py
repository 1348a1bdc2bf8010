"""Which offsets may be committed: those whose effects are durable, never more.

Faust's own acknowledgements are not used: it acknowledges messages that it skips after a rebalance, and forgets its list of
gaps when partitions are revoked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from heapq import heappop, heappush

from faust.types import TP

Commit = Callable[[dict[TP, int]], Awaitable[bool]]


class Offsets:
    """The next offset to read of each source partition; it only grows.

    Args:
        commit: commits offsets in the consumer group; false if the partitions are no longer this worker's.
    """

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._next: dict[TP, int] = {}
        self._committed: dict[TP, int] = {}

    def done(self, tp: TP, offset: int) -> None:
        """Everything up to and including `offset` is durable."""
        if offset + 1 > self._next.get(tp, 0):
            self._next[tp] = offset + 1

    def committed(self, tp: TP) -> int:
        """The offset from which a restarted worker would read, as far as this worker has committed; else 0."""
        return self._committed.get(tp, 0)

    async def commit(self) -> None:
        """Commit what has become durable since the last time."""
        news = {tp: offset for tp, offset in self._next.items() if offset > self._committed.get(tp, 0)}
        if news and await self._commit(news):
            self._committed.update(news)

    def forget(self) -> None:
        """Partitions were revoked: what holds for them is now in the consumer group."""
        self._next.clear()
        self._committed.clear()


class Window:
    """The messages of one partition whose products are not all acknowledged.

    They may begin and be finished in any order; what may be committed is what no open message lies before.
    """

    def __init__(self) -> None:
        self._order: list[int] = []
        """Offsets begun, as a heap."""
        self._open: dict[int, int] = {}
        """Offset → how often it is being worked on: after a redelivery more than once."""
        self._done = -1

    def begin(self, offset: int) -> None:
        """A message is being worked on."""
        if offset not in self._open:
            heappush(self._order, offset)
        self._open[offset] = self._open.get(offset, 0) + 1

    def finish(self, offset: int) -> int:
        """Its products are acknowledged.

        Returns:
            The last offset up to which all is finished; -1 if there is none yet.
        """
        if self._open.get(offset):
            self._open[offset] -= 1
        while self._order and not self._open[self._order[0]]:
            first = heappop(self._order)
            del self._open[first]
            self._done = max(self._done, first)
        return self._done
