"""Settlements that wait for a ledger that is away: in their order, and no more than there is room for."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from spanfuse.ledger.amounts import Amounts
from spanfuse.ledger.records import Hold

MAX_PENDING: Final = 10_000
"""Settlements that wait; of more, the oldest is dropped and counted."""


class Bill(NamedTuple):
    """A settlement."""

    hold: Hold
    who: Mapping[str, str]
    amounts: Amounts | None
    """None: a release."""
    doubted_s: float | None
    """When it was tried and the answer was lost, by the clock that never goes back; None: it was not tried."""

    def doubted(self) -> Bill:
        """The same, tried now; where it had been before, it stays."""
        return self if self.doubted_s is not None else self._replace(doubted_s=time.monotonic())


class Bills:
    """Those that wait. Not for threads without a lock."""

    def __init__(self) -> None:
        self.lost = 0
        """Dropped for want of room."""
        self._waiting: deque[Bill] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, bill: Bill) -> None:
        """Put one behind the others."""
        if len(self._waiting) >= MAX_PENDING:
            self._waiting.popleft()
            self.lost += 1
        self._waiting.append(bill)

    def first(self) -> Bill | None:
        """The one that is next; None: none waits."""
        return self._waiting[0] if self._waiting else None

    def doubt(self, bill: Bill) -> None:
        """The first was tried, and the answer was lost. It may have been dropped meanwhile."""
        if self.first() is bill:
            self._waiting[0] = bill.doubted()

    def done(self, bill: Bill) -> None:
        """The first is settled."""
        if self.first() is bill:
            self._waiting.popleft()
