"""The read model in the database of the embedded host, written in the transaction that stores what it tells of."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from spanfuse_processor.exporters.readmodel.cursor import next_of, place_of
from spanfuse_processor.exporters.readmodel.facts import MINUTE_NS, Facts, Owner, Sums, numbered, series_of, valid
from spanfuse_processor.exporters.readmodel.model import (
    MAX_HISTORY,
    MAX_MINUTES,
    MAX_STEPS,
    DetectionPage,
    DetectionQuery,
    MinuteRow,
    SeriesKind,
    SessionPage,
    SessionQuery,
    SessionRow,
    Sort,
    StepRow,
)
from spanfuse_schemas import Decision, Detection

MAX_ALL_STEPS: Final = 500_000
"""Steps of all sessions together, some 300 bytes each; the oldest go first."""
MAX_ALL_DECISIONS: Final = 100_000
"""Decisions of all keys together."""
TRIMMED_EVERY: Final = 64
"""Writes from one look at what is beyond a bound to the next."""

TABLES: Final = """
CREATE TABLE IF NOT EXISTS session_rows (
    session BLOB PRIMARY KEY, agent TEXT NOT NULL, user TEXT NOT NULL, team TEXT NOT NULL, model TEXT NOT NULL,
    calls INTEGER NOT NULL, tools INTEGER NOT NULL, tokens INTEGER NOT NULL, cost_nano_usd INTEGER NOT NULL,
    first_ns INTEGER NOT NULL, last_ns INTEGER NOT NULL, state TEXT NOT NULL, action TEXT NOT NULL, mode TEXT NOT NULL,
    rule TEXT NOT NULL, message TEXT NOT NULL, expires_at_ns INTEGER, lapses INTEGER NOT NULL, epoch INTEGER NOT NULL,
    would_block INTEGER NOT NULL, detections INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS session_rows_last ON session_rows (last_ns);
CREATE TABLE IF NOT EXISTS steps (
    seq INTEGER PRIMARY KEY, session BLOB NOT NULL, span TEXT NOT NULL, step BLOB NOT NULL, UNIQUE (session, span)
);
CREATE TABLE IF NOT EXISTS history (seq INTEGER PRIMARY KEY, key BLOB NOT NULL, decision BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS history_key ON history (key, seq);
CREATE TABLE IF NOT EXISTS minutes (
    minute INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, calls INTEGER NOT NULL, cost_nano_usd INTEGER NOT NULL,
    tokens INTEGER NOT NULL, blocks INTEGER NOT NULL, PRIMARY KEY (kind, name, minute)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS minutes_minute ON minutes (minute);
"""
"""Beside the host's own: `detections` (seq, session, detection) is one of those."""
_STATE: Final = """CASE WHEN state = 'open' AND expires_at_ns <= :now
THEN CASE lapses WHEN 1 THEN 'closed' ELSE 'half_open' END ELSE state END"""
"""The state of a breaker as people see it: see `hosts.board.shown`."""
_ACTION: Final = "CASE WHEN state = 'open' AND expires_at_ns <= :now AND lapses = 1 THEN 'allow' ELSE action END"
_PLAIN: Final = ("agent", "user", "team", "model", "calls", "tools", "tokens", "cost_nano_usd", "first_ns", "last_ns")
_HELD: Final = ("mode", "rule", "message", "expires_at_ns", "lapses", "epoch", "would_block", "detections")
_ROW: Final = f"SELECT session, {', '.join((*_PLAIN, *_HELD))}, {_STATE} AS shown, {_ACTION} AS does FROM session_rows"
_FIELDS: Final = ("session", *_PLAIN, *_HELD, "state", "action")
_NAMES: Final = ("agent", "user", "team", "model")
_NUMBERS: Final = (
    "calls", "tools", "tokens", "cost_nano_usd", "first_ns", "last_ns", "state", "action", "mode", "rule", "message",
    "expires_at_ns", "lapses", "epoch",
)  # fmt: skip
_EXACT: Final = ("rule", "agent", "user", "action")
_IN_JSON: Final = "json_extract(CAST(detection AS TEXT), '$.{}')"
_SORTS: Final[dict[Sort, str]] = {
    "last": "last_ns", "cost": "cost_nano_usd", "calls": "calls", "tokens": "tokens", "detections": "detections",
}  # fmt: skip
_COLUMNS: Final = ("session", *_NAMES, *_NUMBERS, "would_block", "detections")
_UPSERT: Final = f"""
INSERT INTO session_rows ({", ".join(_COLUMNS)}) VALUES ({", ".join("?" * len(_COLUMNS))})
ON CONFLICT (session) DO UPDATE SET
{", ".join(f"{n} = CASE excluded.{n} WHEN '' THEN {n} ELSE excluded.{n} END" for n in _NAMES)},
{", ".join(f"{n} = excluded.{n}" for n in _NUMBERS)}
"""
_STEP: Final = """
INSERT INTO steps (session, span, step) VALUES (?, ?, ?)
ON CONFLICT (session, span) DO UPDATE SET step = excluded.step
"""
_SUM: Final = """
INSERT INTO minutes (kind, name, minute, calls, cost_nano_usd, tokens, blocks) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (kind, name, minute) DO UPDATE SET calls = calls + excluded.calls,
cost_nano_usd = cost_nano_usd + excluded.cost_nano_usd, tokens = tokens + excluded.tokens, blocks = blocks + excluded.blocks
"""

Reading = Callable[[], AbstractContextManager[sqlite3.Connection]]
"""Gives a connection for another thread."""


class SqliteReadModel:
    """The read model of the embedded host.

    Args:
        db: the host's connection; whoever gives it begins and ends transactions.
        another: gives a connection for a question that may take long; none: the database is this connection's alone.
        speaking: turns errors of SQLite into `UnavailableError`.
        clock: now, nanoseconds since the Unix epoch.
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        another: Reading | None,
        speaking: Callable[[], AbstractContextManager[None]],
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._db, self._another, self._speaking, self._clock = db, another, speaking, clock
        self._writes = 0

    def write(self, facts: Facts) -> None:
        """Take in what a batch adds, within the transaction at hand."""
        db = self._db
        self._take(facts)
        unknown = Owner()
        db.executemany(_UPSERT, (_values(row, facts.owners.get(row.session, unknown)) for row in facts.rows))
        db.executemany(_STEP, ((_key(session), s.span_id, s.to_json()) for session, s in facts.steps))
        self._find(facts)
        db.executemany(
            "INSERT INTO history (key, decision) VALUES (?, ?)", ((_key(d.key), d.to_json()) for d in facts.decisions)
        )
        db.executemany(_SUM, ((*key, s.calls, s.cost_nano_usd, s.tokens, s.blocks) for key, s in facts.minutes.items()))
        self.forget(facts.gone)
        self._writes += 1
        if self._writes % TRIMMED_EVERY == 0:
            self._trim(facts)

    def _take(self, facts: Facts) -> None:
        moves = [(_key(into), _key(origin)) for origin, into in facts.taken.items()]
        self._db.executemany("UPDATE OR IGNORE steps SET session = ? WHERE session = ?", moves)

    def _find(self, facts: Facts) -> None:
        self._db.executemany(
            "UPDATE session_rows SET detections = detections + 1, would_block = would_block + ? WHERE session = ?",
            ((unenforced, _key(d.session)) for d, unenforced in facts.found if d.session),
        )

    def _trim(self, facts: Facts) -> None:
        for session in {session for session, _ in facts.steps}:
            _keep_last_of(self._db, "steps", "session", _key(session), MAX_STEPS)
        for key in {d.key for d in facts.decisions}:
            _keep_last_of(self._db, "history", "key", _key(key), MAX_HISTORY)
        _keep_last(self._db, "steps", MAX_ALL_STEPS)
        _keep_last(self._db, "history", MAX_ALL_DECISIONS)
        self._db.execute("DELETE FROM minutes WHERE minute <= ?", (self._clock() // MINUTE_NS - MAX_MINUTES,))

    def forget(self, sessions: Iterable[str]) -> None:
        """Sessions are over, within the transaction at hand."""
        keys = [(_key(session),) for session in sessions]
        self._db.executemany("DELETE FROM session_rows WHERE session = ?", keys)
        self._db.executemany("DELETE FROM steps WHERE session = ?", keys)

    async def sessions(self, query: SessionQuery) -> SessionPage:
        """Sessions as they are listed."""
        column = _SORTS[query.sort]
        where, values = _narrowed(query)
        if query.cursor:
            where.append(f"({column}, session) < (:at, :behind)")
            values["at"], values["behind"] = place_of(query.cursor)
        sql = f"{_ROW} WHERE {' AND '.join(where) or '1'} ORDER BY {column} DESC, session DESC LIMIT {query.limit + 1}"
        found = await self._asked(sql, values | {"now": self._clock()})
        rows = [_row(values) for values in found]
        page = tuple(rows[: query.limit])
        more = len(rows) > query.limit
        return SessionPage(
            sessions=page, next=next_of(getattr(page[-1], column), found[len(page) - 1][0]) if more else ""
        )

    async def session(self, session: str) -> SessionRow | None:
        """One session."""
        with self._speaking():
            found = self._db.execute(
                f"{_ROW} WHERE session = :session", {"session": _key(session), "now": self._clock()}
            )
            values = found.fetchone()
        return _row(values) if values else None

    async def timeline(self, session: str, limit: int = MAX_STEPS) -> list[StepRow]:
        """The last steps of a session."""
        sql = "SELECT step FROM (SELECT seq, step FROM steps WHERE session = ? ORDER BY seq DESC LIMIT ?) ORDER BY seq"
        with self._speaking():
            found = self._db.execute(sql, (_key(session), min(limit, MAX_STEPS))).fetchall()
        steps: list[StepRow] = [StepRow.from_json(step) for (step,) in found]
        return numbered(sorted(steps, key=lambda step: step.at_ns))

    async def detections(self, query: DetectionQuery) -> DetectionPage:
        """Detections, newest first."""
        values: dict[str, Any] = {name: found for name in _EXACT if (found := getattr(query, name))}
        where = [f"{_IN_JSON.format(name)} = :{name}" for name in values]
        if query.session:
            where, values["session"] = [*where, "session = :session"], valid(query.session)
        if query.since_ns:
            where, values["since"] = [*where, f"{_IN_JSON.format('at_ns')} >= :since"], query.since_ns
        if query.cursor:
            where, values["at"] = [*where, "seq < :at"], place_of(query.cursor)[0]
        narrowed = " AND ".join(where) or "1"
        sql = f"SELECT seq, detection FROM detections WHERE {narrowed} ORDER BY seq DESC LIMIT {query.limit + 1}"
        found = await self._asked(sql, values)
        page = found[: query.limit]
        return DetectionPage(
            detections=tuple(Detection.from_json(data) for _, data in page),
            next=next_of(page[-1][0], b"seq") if len(found) > query.limit else "",
        )

    async def history(self, key: str, limit: int = MAX_HISTORY) -> list[Decision]:
        """What was decided about a key, newest first."""
        sql = "SELECT decision FROM history WHERE key = ? ORDER BY seq DESC LIMIT ?"
        with self._speaking():
            found = self._db.execute(sql, (_key(key), min(limit, MAX_HISTORY))).fetchall()
        return [Decision.from_json(decision) for (decision,) in found]

    async def series(self, kind: SeriesKind, name: str, minutes: int) -> list[MinuteRow]:
        """The last minutes, oldest first."""
        now_ns = self._clock()
        sql = "SELECT minute, calls, cost_nano_usd, tokens, blocks FROM minutes WHERE kind = ? AND name = ? AND minute > ?"
        with self._speaking():
            found = self._db.execute(sql, (kind, valid(name), now_ns // MINUTE_NS - minutes)).fetchall()
        return series_of(((minute, Sums(*sums)) for minute, *sums in found), minutes, now_ns)

    async def _asked(self, sql: str, values: dict[str, Any]) -> list[Any]:
        """The answer to a question that may look at many rows, on a thread where the database has room for another reader."""
        another = self._another
        if another is None:
            with self._speaking():
                return self._db.execute(sql, values).fetchall()

        def ask() -> list[Any]:
            with self._speaking(), another() as connection:
                return connection.execute(sql, values).fetchall()

        return await asyncio.to_thread(ask)


def _narrowed(query: SessionQuery) -> tuple[list[str], dict[str, Any]]:
    values: dict[str, Any] = {
        name: valid(found) for name in ("agent", "user", "team") if (found := getattr(query, name))
    }
    where = [f"{name} = :{name}" for name in values]
    if query.state:
        where, values["state"] = [*where, f"{_STATE} = :state"], query.state
    if query.since_ns:
        where, values["since"] = [*where, "last_ns >= :since"], query.since_ns
    if query.query:
        text = "CAST(session AS TEXT) || char(10) || agent || char(10) || user || char(10) || team || char(10) || model"
        where, values["text"] = [*where, f"instr(lower({text}), :text) > 0"], valid(query.query).lower()
    return where, values


def _values(row: SessionRow, owner: Owner) -> tuple[Any, ...]:
    names = (owner.agent or row.agent, owner.user, owner.team, owner.model or row.model)
    return (_key(row.session), *names, *(getattr(row, name) for name in _NUMBERS), 0, 0)


def _row(values: Sequence[Any]) -> SessionRow:
    fields = dict(zip(_FIELDS, values, strict=True))
    fields["session"], fields["lapses"] = fields["session"].decode("utf-8", "replace"), bool(fields["lapses"])
    return SessionRow.made(**fields)


def _keep_last(db: sqlite3.Connection, table: str, keep: int) -> None:
    db.execute(f"DELETE FROM {table} WHERE seq <= (SELECT max(seq) FROM {table}) - {keep}")


def _keep_last_of(db: sqlite3.Connection, table: str, column: str, of: bytes, keep: int) -> None:
    db.execute(
        f"DELETE FROM {table} WHERE {column} = :of AND seq <= "
        f"(SELECT seq FROM {table} WHERE {column} = :of ORDER BY seq DESC LIMIT 1 OFFSET {keep})",
        {"of": of},
    )


def _key(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")
