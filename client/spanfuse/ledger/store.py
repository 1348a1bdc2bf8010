"""Where a ledger's books lie: one operation is one atomic step, by one clock for all processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol


class Row(NamedTuple):
    """An account as it is stored."""

    what: str
    """JSON of [scope, budget, unit 1 to 3, start, end], times in seconds, empty for good."""
    spent: int
    held: int
    orders: str
    """`<set or -> <until ms>:<amount> …`; empty for none."""


class Store(Protocol):
    """Runs the operations of `ledger.lua`."""

    def run(self, operation: str, *arguments: str) -> str:
        """Do one operation, at once or not at all.

        Raises:
            Unavailable: it could not be done, or not in time; or it was, and the answer was lost.
        """

    async def arun(self, operation: str, *arguments: str) -> str:
        """The same without blocking the event loop."""

    def rows(self, scope: str | None) -> Iterator[Row]:
        """All accounts, or those of one scope such as `user:u-7`; one that changes meanwhile may be told twice."""

    def close(self) -> None:
        """Let connections go; the next operation opens new ones."""
