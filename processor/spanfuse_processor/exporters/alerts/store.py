"""Where the alerts are kept, so that a restart tells nobody twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

TABLES: Final = "CREATE TABLE IF NOT EXISTS alerts (id TEXT PRIMARY KEY, row BLOB NOT NULL) WITHOUT ROWID;"
KEY: Final = "spanfuse:alerts"
"""The hash in Redis."""
LASTS_S: Final = 30 * 86_400
"""How long Redis remembers alerts of a deployment that is gone, seconds."""

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


class RedisAlerts:
    """A hash in the Redis of the read model.

    Args:
        redis: an asyncio client that gives bytes.
        key: of the hash.
        speaking: turns its errors into `UnavailableError`.
    """

    def __init__(self, redis: Any, speaking: Callable[[], AbstractContextManager[None]], key: str = KEY) -> None:
        self._redis, self._speaking, self._key = redis, speaking, key

    async def load(self) -> dict[str, bytes]:
        """All rows."""
        with self._speaking():
            found = await self._redis.hgetall(self._key)
        return {id.decode(): row for id, row in found.items()}

    async def save(self, rows: Rows) -> None:
        """Write these."""
        kept = {id: row for id, row in rows.items() if row is not None}
        gone = [id for id, row in rows.items() if row is None]
        with self._speaking():
            async with self._redis.pipeline(transaction=True) as pipe:
                if kept:
                    pipe.hset(self._key, mapping=kept)
                if gone:
                    pipe.hdel(self._key, *gone)
                pipe.expire(self._key, LASTS_S)
                await pipe.execute()
