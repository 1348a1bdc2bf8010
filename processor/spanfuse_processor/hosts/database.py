"""Opens the SQLite file of the embedded host: ours alone, of our version, with the settings that the store relies on."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from spanfuse_processor.errors import StateError, UnavailableError
from spanfuse_processor.exporters.alerts import store
from spanfuse_processor.exporters.readmodel import sqlite
from spanfuse_processor.hosts import recent_calls

APPLICATION_ID: Final = 0x53504653
"""Marks the file as ours ("SPFS")."""
SCHEMA: Final = 1
"""Version of the tables."""
BUSY_TIMEOUT_S: Final = 0.25
"""How long a lock of another program, such as a backup, is waited for. Nothing else is done meanwhile, so it is short; the
client that is sent back comes again."""
LOG_PAGES: Final = 16_384
"""Pages (4 KB) of the log at which a commit moves it into the database itself, should `Store.checkpoint` not keep up."""

_MAGIC: Final = b"SQLite format 3\0"
_MARK: Final = slice(68, 72)
"""Where a database file has its application id."""
_TABLES: Final = """
CREATE TABLE sessions (session BLOB PRIMARY KEY, touched_ns INTEGER NOT NULL, epoch INTEGER NOT NULL, state BLOB NOT NULL);
CREATE INDEX sessions_touched ON sessions (touched_ns);
CREATE TABLE ended (seq INTEGER PRIMARY KEY, session BLOB NOT NULL UNIQUE, epoch INTEGER NOT NULL);
CREATE TABLE decisions (key BLOB PRIMARY KEY, decision BLOB NOT NULL);
CREATE TABLE detections (seq INTEGER PRIMARY KEY, session TEXT NOT NULL, detection BLOB NOT NULL);
CREATE TABLE dead_letters (
    seq INTEGER PRIMARY KEY, at_ns INTEGER NOT NULL, reason TEXT NOT NULL, size INTEGER NOT NULL, data BLOB NOT NULL
);
CREATE TABLE totals (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""
_LATER: Final = """
CREATE TABLE IF NOT EXISTS scopes (
    scope BLOB PRIMARY KEY, until_ns INTEGER NOT NULL, epoch INTEGER NOT NULL, state BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS scopes_until ON scopes (until_ns);
CREATE TABLE IF NOT EXISTS audit (seq INTEGER PRIMARY KEY, audited BLOB NOT NULL);
"""
"""Tables that files of earlier builds lack, and that these pass over."""


@dataclass(frozen=True, slots=True)
class Database:
    """An open file and the lock on it."""

    path: str
    connection: sqlite3.Connection
    lock: IO[bytes] | None
    """Holds the lock while it is open; none for a temporary database."""

    @contextmanager
    def another(self) -> Iterator[sqlite3.Connection]:
        """A second connection, for another thread."""
        with closing(sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None)) as connection:
            yield connection

    def close(self) -> None:
        """Close the file, then let others have it."""
        self.connection.close()
        if self.lock is not None:
            self.lock.close()


def open_database(path: str) -> Database:
    """Open or create the file; an empty path is a private temporary database.

    Raises:
        StateError: if the file is no such database, or one of another version; nothing of it has been changed then.
        UnavailableError: if it cannot be opened, or another process uses it.
    """
    if path:
        _regular(path)
    lock = _lock(path) if path else None
    connection: sqlite3.Connection | None = None
    try:
        if path:
            _claim(path)
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        _prepare(connection, path)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if lock is not None:
            lock.close()
        if isinstance(error, sqlite3.Error):
            raise _explained(path, error) from error
        raise
    return Database(path, connection, lock)


def _regular(path: str) -> None:
    """Nothing else is opened, nor locked: a device or a pipe is there for something else."""
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise UnavailableError(f"storage {path}: {error.strerror}") from None
    if not stat.S_ISREG(mode):
        raise StateError(f"storage {path}: not a regular file")


def _claim(path: str) -> None:
    """Create the file, for its owner only, since dead letters may hold prompts; refuse one that another program wrote.

    Read by hand: SQLite would recover, or at the end tidy up, the database of another program. Called under the lock, for
    a file that is closed takes SQLite's locks on it along.
    """
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CREAT, 0o600), "rb") as file:
            header = file.read(100)
    except OSError as error:
        raise UnavailableError(f"storage {path}: {error.strerror}") from None
    if not header:
        return
    if not header.startswith(_MAGIC):
        raise _damaged(path, "file is not a database")
    if header[_MARK] != APPLICATION_ID.to_bytes(4, "big"):
        raise StateError(f"storage {path}: the database of another program")


def _lock(path: str) -> IO[bytes]:
    """A lock of this process, which the system takes back however the process ends."""
    name = f"{path}.lock"
    try:
        lock = os.fdopen(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), "rb")
    except OSError as error:
        raise UnavailableError(f"storage {path}: cannot create {name}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise UnavailableError(f"storage {path}: another process uses it; is `spanfuse up` running already?") from None
    return lock


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    ours, version = (connection.execute(f"PRAGMA {p}").fetchone()[0] for p in ("application_id", "user_version"))
    if ours == APPLICATION_ID and version != SCHEMA:
        raise StateError(
            f"storage {path}: version {version}, and this build reads {SCHEMA}; move the file away to start anew"
        )
    if path:
        with suppress(OSError):
            Path(path).chmod(0o600)  # it was empty, or is ours, and others may have been let in
    if not ours:
        # Before there is a log, so that the file itself bears our mark from its first byte on.
        connection.executescript(
            f"BEGIN; {_TABLES} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA}; COMMIT;"
        )
    connection.executescript(f"BEGIN; {_LATER} {sqlite.TABLES} {recent_calls.TABLES} {store.TABLES} COMMIT;")
    if path:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}").fetchall()
    else:
        connection.execute("PRAGMA journal_mode = MEMORY").fetchall()
        connection.execute("PRAGMA synchronous = OFF")


def _explained(path: str, error: sqlite3.Error) -> StateError | UnavailableError:
    if isinstance(error, sqlite3.OperationalError):  # locked, read-only, full, not to be opened
        return UnavailableError(f"storage {path}: {error}")
    return _damaged(path, str(error))


def _damaged(path: str, why: str) -> StateError:
    return StateError(f"storage {path}: not a database, or damaged ({why}); move the file away to start anew")
