"""The state of the embedded host in SQLite: what a transaction has committed, kill -9 does not take back.

WAL with synchronous=NORMAL: a commit costs no fsync, and only a loss of power can lose the last of them. The log is moved
into the database by `checkpoint`, on a thread of its own, so that no request waits for a disk.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from spanfuse_processor.core.scopes.state import KINDS, ScopeState
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.exporters.alerts.store import SqliteAlerts
from spanfuse_processor.exporters.readmodel.facts import Facts
from spanfuse_processor.exporters.readmodel.sqlite import SqliteReadModel
from spanfuse_processor.hosts.database import open_database
from spanfuse_processor.hosts.recent_calls import RecentCalls
from spanfuse_schemas import Call, Decision, Detection
from spanfuse_schemas.budget import Audited

MAX_DETECTIONS: Final = 10_000
"""Detections kept; the oldest go first."""
MAX_DEAD_LETTERS: Final = 1_000
"""Dead letters kept; the oldest go first."""
MAX_LETTER_BYTES: Final = 64 * 1024
"""Bytes kept of a dead letter; with the limit above 64 MB at most."""
MAX_POLICY_ORDERS: Final = 1_000
"""Orders about the policy that are kept, for the record."""
MAX_ENDED: Final = 10_000
"""Sessions that are over and whose epoch is remembered: as many as a Guard remembers, which obeys higher epochs only."""

_UPSERT: Final = """
INSERT INTO sessions (session, touched_ns, epoch, state) VALUES (?, ?, ?, ?)
ON CONFLICT (session) DO UPDATE SET touched_ns = excluded.touched_ns, epoch = excluded.epoch, state = excluded.state
"""
_UPSERT_SCOPE: Final = """
INSERT INTO scopes (scope, until_ns, epoch, state) VALUES (?, ?, ?, ?)
ON CONFLICT (scope) DO UPDATE SET until_ns = excluded.until_ns, epoch = excluded.epoch, state = excluded.state
"""
_END: Final = (
    "REPLACE INTO ended (session, epoch) "
    "SELECT {name}, max(epoch, ifnull((SELECT epoch FROM ended WHERE session = {name}), 0)) "
    "FROM {table} WHERE {name} = ? AND epoch > 0"
)
_ENDED_AT: Final = "UPDATE ended SET epoch = max(epoch, ?) WHERE session = ?"
"""A session and a scope may have one name, as `trace:<id>`; an epoch that is too high harms neither."""
MAX_INT64: Final = 2**63 - 1
_ADD: Final = (
    "INSERT INTO totals VALUES (?, ?) ON CONFLICT (name) "
    f"DO UPDATE SET value = min(value + excluded.value, {MAX_INT64})"  # the sum of two large ones is a real
)


@dataclass(frozen=True, slots=True)
class Changes:
    """What one transaction writes."""

    sessions: Iterable[SessionState] = ()
    """Sessions whose state has changed."""
    decisions: Iterable[Decision] = ()
    """Decisions in order; the last of a key stays."""
    detections: Iterable[Detection] = ()
    """Detections in order."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """What is added to the totals."""
    at_ns: int = 0
    """The time by which sessions are idle, nanoseconds since the Unix epoch."""
    scopes: Iterable[tuple[ScopeState, int]] = ()
    """Scopes whose state has changed, and until when each is to be remembered, nanoseconds since the Unix epoch."""
    audited: Iterable[Audited] = ()
    """What became of operators' orders about budgets; kept for good."""
    facts: Facts = field(default_factory=Facts)
    """What people are shown of it."""
    calls: Sequence[Call] = ()
    """Calls that counted, kept for a while."""


class Store:
    """Sessions, open decisions, recent detections, dead letters and totals.

    Every method raises `UnavailableError` if SQLite fails: the disk is full, another program holds a lock, …

    Args:
        path: of the file; empty: a private temporary database that goes away with the process.

    Raises:
        StateError: if the file is no such database, or one of another version.
        UnavailableError: if it cannot be opened, or another process uses it.
    """

    def __init__(self, path: str) -> None:
        self._database = open_database(path)
        self._path = path
        self._db = self._database.connection
        self.shown = SqliteReadModel(self._db, self._database.another if path else None, self._speaking)
        """What people are shown."""
        self.recent = RecentCalls(self._db, self._database.another if path else None, self._speaking)
        """The last calls."""
        self.alerts = SqliteAlerts(self._db, self._transaction)
        """What people were told."""

    def load(self, session: str) -> bytes | None:
        """The snapshot of a session; none if it is not known."""
        with self._speaking():
            row = self._db.execute("SELECT state FROM sessions WHERE session = ?", (key_of(session),)).fetchone()
        return row[0] if row else None

    def last_epoch(self, session: str) -> int:
        """The epoch that Guards may know of a session that starts afresh; 0 if they know none."""
        with self._speaking():
            row = self._db.execute(
                "SELECT max(epoch) FROM (SELECT epoch FROM ended WHERE session = ?1 "
                "UNION ALL SELECT epoch FROM sessions WHERE session = ?1)",
                (key_of(session),),
            ).fetchone()
        return int(row[0] or 0)

    def commit(self, changes: Changes) -> None:
        """Write all of it, or nothing."""
        with self._transaction():
            rows = [(key_of(s.key), changes.at_ns, s.epoch, s.snapshot()) for s in changes.sessions]
            self._db.executemany(_UPSERT, rows)
            kept = [(key_of(s.key), min(until, MAX_INT64), s.epoch, s.snapshot()) for s, until in changes.scopes]
            self._db.executemany(_UPSERT_SCOPE, kept)
            for decision in changes.decisions:
                self._keep(decision)
            told = [(d.session, d.to_json()) for d in changes.detections]
            if told:
                self._db.executemany("INSERT INTO detections (session, detection) VALUES (?, ?)", told)
                self._trim("detections", MAX_DETECTIONS)
            self._db.executemany("INSERT INTO audit (audited) VALUES (?)", [(a.to_json(),) for a in changes.audited])
            self._db.executemany(_ADD, [(name, min(n, MAX_INT64)) for name, n in changes.counts.items() if n])
            if changes.facts:
                self.shown.write(changes.facts)
            if changes.calls:
                self.recent.add(changes.calls, changes.at_ns)

    def _keep(self, decision: Decision) -> None:
        if decision.action == "allow":
            self._db.execute("DELETE FROM decisions WHERE key = ?", (key_of(decision.key),))
        else:
            self._db.execute("REPLACE INTO decisions VALUES (?, ?)", (key_of(decision.key), decision.to_json()))

    def _trim(self, table: str, keep: int) -> None:
        self._db.execute(f"DELETE FROM {table} WHERE seq <= (SELECT max(seq) FROM {table}) - {keep}")

    def bury(self, data: bytes, reason: str, at_ns: int, counts: Mapping[str, int]) -> None:
        """Keep a request that could not be used."""
        with self._transaction():
            self._db.execute(
                "INSERT INTO dead_letters (at_ns, reason, size, data) VALUES (?, ?, ?, ?)",
                (at_ns, reason, len(data), data[:MAX_LETTER_BYTES]),
            )
            self._trim("dead_letters", MAX_DEAD_LETTERS)
            self._db.executemany(_ADD, list(counts.items()))

    def decisions(self) -> list[Decision]:
        """What stands against sessions."""
        with self._speaking():
            rows = self._db.execute("SELECT decision FROM decisions ORDER BY rowid").fetchall()
        return [Decision.from_json(row[0]) for row in rows]

    def decision(self, key: str) -> Decision | None:
        """What stands against a key; none if nothing does."""
        with self._speaking():
            row = self._db.execute("SELECT decision FROM decisions WHERE key = ?", (key_of(key),)).fetchone()
        return Decision.from_json(row[0]) if row else None

    def dead_letters(self, limit: int) -> list[dict[str, Any]]:
        """The last dead letters, newest first: at_ns, reason, size (of the whole), data (its beginning)."""
        with self._speaking():
            rows = self._db.execute(
                "SELECT at_ns, reason, size, data FROM dead_letters ORDER BY seq DESC LIMIT ?", (limit,)
            ).fetchall()
        return [dict(zip(("at_ns", "reason", "size", "data"), row, strict=True)) for row in rows]

    def totals(self) -> Counter[str]:
        """All that was ever counted."""
        with self._speaking():
            return Counter(dict(self._db.execute("SELECT name, value FROM totals").fetchall()))

    def sessions(self) -> int:
        """Number of sessions known."""
        with self._speaking():
            return int(self._db.execute("SELECT count(*) FROM sessions").fetchone()[0])

    def entries(self) -> dict[str, int]:
        """Kind, `session` or one of scopes → how many are kept."""
        query = "SELECT count(*) FROM scopes WHERE scope >= ? AND scope < ?"
        with self._speaking():
            found = {kind: self._db.execute(query, (key_of(f"{kind}:"), key_of(f"{kind};"))) for kind in sorted(KINDS)}
            scopes = {kind: int(rows.fetchone()[0]) for kind, rows in found.items()}
        return {"session": self.sessions(), **scopes}

    def size_bytes(self) -> int:
        """Size of the database, without its log."""
        with self._speaking():
            pages, size = (self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        return int(pages * size)

    def idle(self, before_ns: int, limit: int) -> list[str]:
        """Sessions without a call since `before_ns`, those idle longest first."""
        with self._speaking():
            rows = self._db.execute(
                "SELECT session FROM sessions WHERE touched_ns < ? ORDER BY touched_ns LIMIT ?", (before_ns, limit)
            ).fetchall()
        return [row[0].decode("utf-8", "surrogatepass") for row in rows]

    def forget(self, sessions: Sequence[str], closed: Iterable[Decision], counts: Mapping[str, int]) -> None:
        """Delete sessions that are over, and keep the epochs of those that Guards were told about.

        Args:
            closed: the last decision of those that had one standing.
        """
        keys = [(key_of(session),) for session in sessions]
        with self._transaction():
            self._db.executemany(
                _END.format(name="session", table="sessions"),
                keys,
            )
            for decision in closed:
                self._keep(decision)
                session = decision.key.partition(":")[2]
                self._db.execute(_ENDED_AT, (decision.epoch, key_of(session)))
            self._db.executemany("DELETE FROM sessions WHERE session = ?", keys)
            self.shown.forget(sessions)
            self._trim("ended", MAX_ENDED)
            self._db.executemany(_ADD, list(counts.items()))

    def load_scope(self, scope: str) -> bytes | None:
        """The snapshot of a scope; none if it is not known."""
        with self._speaking():
            row = self._db.execute("SELECT state FROM scopes WHERE scope = ?", (key_of(scope),)).fetchone()
        return row[0] if row else None

    def scopes(self, kind: str, limit: int) -> list[bytes]:
        """Snapshots of the scopes of a kind, those last at work first."""
        with self._speaking():
            rows = self._db.execute(
                "SELECT state FROM scopes WHERE scope >= ? AND scope < ? ORDER BY until_ns DESC LIMIT ?",
                (key_of(f"{kind}:"), key_of(f"{kind};"), limit),
            ).fetchall()
        return [row[0] for row in rows]

    def audit(self, limit: int) -> list[bytes]:
        """What became of operators' last orders about budgets, newest first."""
        with self._speaking():
            rows = self._db.execute("SELECT audited FROM audit ORDER BY seq DESC LIMIT ?", (limit,)).fetchall()
        return [row[0] for row in rows]

    def policy_order(self) -> bytes | None:
        """What was laid over the configuration last, as JSON."""
        with self._speaking():
            row = self._db.execute("SELECT policy_order FROM policy_orders ORDER BY seq DESC LIMIT 1").fetchone()
        return row[0] if row else None

    def keep_policy_order(self, order: bytes) -> None:
        """Keep what was laid over the configuration; those before it stay, for the record."""
        with self._transaction():
            self._db.execute("INSERT INTO policy_orders (policy_order) VALUES (?)", (order,))
            self._trim("policy_orders", MAX_POLICY_ORDERS)

    def last_scope_epoch(self, scope: str) -> int:
        """The epoch that Guards may know of a scope that starts afresh; 0 if they know none."""
        with self._speaking():
            row = self._db.execute(
                "SELECT max(epoch) FROM (SELECT epoch FROM ended WHERE session = ?1 "
                "UNION ALL SELECT epoch FROM scopes WHERE scope = ?1)",
                (key_of(scope),),
            ).fetchone()
        return int(row[0] or 0)

    def over(self, now_ns: int, limit: int) -> list[str]:
        """Scopes that are to be remembered no longer."""
        with self._speaking():
            rows = self._db.execute("SELECT scope FROM scopes WHERE until_ns < ? LIMIT ?", (now_ns, limit)).fetchall()
        return [row[0].decode("utf-8", "surrogatepass") for row in rows]

    def forget_scopes(self, scopes: Iterable[str], closed: Iterable[Decision], counts: Mapping[str, int]) -> None:
        """Delete scopes, and keep the epochs of those that Guards were told about, beside those of sessions.

        Args:
            closed: the last decision of those that had one standing.
        """
        keys = [(key_of(scope),) for scope in scopes]
        with self._transaction():
            self._db.executemany(
                _END.format(name="scope", table="scopes"),
                keys,
            )
            for decision in closed:
                self._keep(decision)
                self._db.execute(_ENDED_AT, (decision.epoch, key_of(decision.key)))
            self._db.executemany("DELETE FROM scopes WHERE scope = ?", keys)
            self._trim("ended", MAX_ENDED)
            self._db.executemany(_ADD, list(counts.items()))

    def checkpoint(self) -> None:
        """Move the log into the database; may be called from any thread, while others write."""
        if self._path:
            with self._speaking(), self._database.another() as connection:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Move the log into the database, and let go of the file."""
        with suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self._database.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._speaking():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise UnavailableError(f"storage {self._path or 'in memory'}: {error}") from error


def key_of(name: str) -> bytes:
    """A session id or key of a breaker as it is stored: ids may hold what is no valid text."""
    return name.encode("utf-8", "surrogatepass")
