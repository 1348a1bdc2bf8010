"""Where the alerts are kept, so that a restart tells nobody twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final, Protocol

TABLES: Final = "CREATE TABLE IF NOT EXISTS alerts (id TEXT PRIMARY KEY, row BLOB NOT NULL) WITHOUT ROWID;"

Rows = Mapping[str, bytes | None]
"""Id → what is kept; none: it is forgotten."""


class AlertStore(Protocol):
    """A few thousand rows of some 1 KB. Either method may raise `UnavailableError`."""

    async def load(self) -> dict[str, bytes]:
        """All rows."""

    async def save(self, rows: Rows) -> None:
        """Write these."""


class MemoryAlerts:
    """Forgotten with the process."""

    def __init__(self) -> None:
        self.rows: dict[str, bytes] = {}

    async def load(self) -> dict[str, bytes]:
        """All rows."""
        return dict(self.rows)

    async def save(self, rows: Rows) -> None:
        """Write these."""
        for id, row in rows.items():
            if row is None:
                self.rows.pop(id, None)
            else:
                self.rows[id] = row


class SqliteAlerts:
    """A table of the embedded store.

    Args:
        db: the host's connection.
        transaction: around what is written together; turns errors of SQLite into `UnavailableError`.
    """

    def __init__(self, db: sqlite3.Connection, transaction: Callable[[], AbstractContextManager[None]]) -> None:
        self._db, self._transaction = db, transaction

    async def load(self) -> dict[str, bytes]:
        """All rows."""
        with self._transaction():
            return dict(self._db.execute("SELECT id, row FROM alerts").fetchall())

    async def save(self, rows: Rows) -> None:
        """Write these."""
        with self._transaction():
            self._db.executemany("DELETE FROM alerts WHERE id = ?", [(id,) for id, row in rows.items() if row is None])
            kept = [(id, row) for id, row in rows.items() if row is not None]
            self._db.executemany("REPLACE INTO alerts VALUES (?, ?)", kept)
