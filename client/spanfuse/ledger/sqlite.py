"""The books in one SQLite file, for all processes of a machine."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from spanfuse.ledger.errors import Unavailable
from spanfuse.ledger.ledger import StoredLedger
from spanfuse.ledger.sqlite_books import TABLES, Books
from spanfuse.ledger.steps import Steps
from spanfuse.ledger.store import Row

TIMEOUT_S: Final = 1.0
"""How long an operation waits for those of other processes, seconds, by default."""


class SqliteLedger(StoredLedger):
    """A ledger in a file. Its clock is the machine's.

    Args:
        path: the file; made where there is none, in a folder that exists.
        timeout_s: how long an operation waits for those of other processes, seconds.
        now_ns: wall clock, nanoseconds since the Unix epoch; for tests.
    """

    def __init__(
        self, path: str | Path, *, timeout_s: float = TIMEOUT_S, now_ns: Callable[[], int] = time.time_ns
    ) -> None:
        super().__init__(SqliteStore(path, timeout_s, now_ns), Steps(now_ns))


class SqliteStore:
    """Runs the operations, each in one immediate transaction, over a connection for each thread."""

    def __init__(self, path: str | Path, timeout_s: float, now_ns: Callable[[], int]) -> None:
        self._path, self._timeout_s, self._now_ns = str(path), timeout_s, now_ns
        self._local = threading.local()

    def run(self, operation: str, *arguments: str) -> str:
        try:
            connection = self._connection()
            with _Transaction(connection):
                books = Books(connection, self._now_ns() // 1_000_000)
                answer: str = getattr(books, operation)(*arguments)
                return answer
        except sqlite3.Error as error:
            raise Unavailable(f"{type(error).__name__}: {error}") from error

    async def arun(self, operation: str, *arguments: str) -> str:
        return await asyncio.to_thread(self.run, operation, *arguments)

    def rows(self, scope: str | None) -> Iterator[Row]:
        try:
            connection = self._connection()
            query = (
                "SELECT what, spent, held, coalesce(value, '') FROM accounts LEFT JOIN book ON name = 'l' || "
                "json_extract(what, '$[0]') || '|' || json_extract(what, '$[1]') WHERE ? IS NULL OR scope = ?"
            )
            yield from map(Row._make, connection.execute(query, (scope, scope)).fetchall())
        except sqlite3.Error as error:
            raise Unavailable(f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is not None and self._local.pid == os.getpid():
            connection.close()
        self._local.connection = None

    def _connection(self) -> sqlite3.Connection:
        """This thread's; after a fork a new one, and the parent's is left alone."""
        local = self._local
        if getattr(local, "connection", None) is None or local.pid != os.getpid():
            local.inherited = getattr(local, "connection", None)
            local.connection, local.pid = self._open(), os.getpid()
        found: sqlite3.Connection = local.connection
        return found

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=self._timeout_s, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        # A crash of a process loses nothing; a power cut may lose the last moments, as with Redis.
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.executescript(TABLES)
        return connection


class _Transaction:
    """Reads and writes nobody comes between."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, error: object, at: object) -> None:
        self._connection.execute("ROLLBACK" if kind else "COMMIT")
