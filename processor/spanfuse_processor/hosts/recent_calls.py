"""The last calls, without content, for another policy to be tried on; and what operators have laid over the configuration."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final

from spanfuse_processor.exporters.readmodel.sqlite import Reading
from spanfuse_schemas import Call, CallBatch

KEPT: Final = 20_000
"""Calls kept, some 700 bytes each."""
KEPT_NS: Final = 24 * 3600 * 10**9
"""How long they are kept, nanoseconds."""
TABLES: Final = """
CREATE TABLE IF NOT EXISTS recent_calls (
    seq INTEGER PRIMARY KEY, at_ns INTEGER NOT NULL, calls INTEGER NOT NULL, batch BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS policy_orders (seq INTEGER PRIMARY KEY, policy_order BLOB NOT NULL);
"""
_SINCE: Final = "SELECT batch FROM recent_calls WHERE at_ns >= ? ORDER BY seq"


class RecentCalls:
    """The calls of the last batches.

    Args:
        db: the host's connection; whoever gives it begins and ends transactions.
        another: gives a connection for another thread; none: the database is this connection's alone.
        speaking: turns errors of SQLite into `UnavailableError`.
    """

    def __init__(
        self, db: sqlite3.Connection, another: Reading | None, speaking: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._db, self._another, self._speaking = db, another, speaking
        self._count = int(db.execute("SELECT ifnull(sum(calls), 0) FROM recent_calls").fetchone()[0])

    def add(self, calls: Sequence[Call], at_ns: int) -> None:
        """Keep calls, within the transaction at hand."""
        batch = CallBatch.made(calls=tuple(calls)).to_json()
        self._db.execute("INSERT INTO recent_calls (at_ns, calls, batch) VALUES (?, ?, ?)", (at_ns, len(calls), batch))
        self._count += len(calls)
        if self._count > KEPT:
            self._trim(at_ns)

    def _trim(self, now_ns: int) -> None:
        """Drop a tenth at once, so that this is rare."""
        oldest = self._db.execute("SELECT seq, at_ns, calls FROM recent_calls ORDER BY seq LIMIT 1000").fetchall()
        last, before_ns = 0, now_ns - KEPT_NS
        for seq, at_ns, calls in oldest:
            if self._count <= KEPT * 0.9 and at_ns >= before_ns:
                break
            last, self._count = seq, self._count - calls
        self._db.execute("DELETE FROM recent_calls WHERE seq <= ?", (last,))

    def since(self, at_ns: int) -> Iterator[Call]:
        """The calls of the batches since a moment, in order; for a thread where there is room for another reader."""
        another = self._another
        if another is not None:
            return self._read(another, at_ns)
        with self._speaking():
            return _calls(self._db.execute(_SINCE, (at_ns,)).fetchall())

    def _read(self, another: Reading, at_ns: int) -> Iterator[Call]:
        with self._speaking(), another() as connection:
            yield from _calls(connection.execute(_SINCE, (at_ns,)))

    def reach_ns(self) -> int:
        """When the oldest of them was applied, nanoseconds since the Unix epoch; 0: none is kept."""
        with self._speaking():
            return int(self._db.execute("SELECT ifnull(min(at_ns), 0) FROM recent_calls").fetchone()[0])


def _calls(rows: Iterable[tuple[bytes]]) -> Iterator[Call]:
    for (batch,) in rows:
        yield from CallBatch.from_json(batch).calls
