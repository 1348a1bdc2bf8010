"""The operations of a ledger on the tables of SQLite: `ledger.lua` again, in Python, with the same answers."""

from __future__ import annotations

import json
import sqlite3
from typing import Any, Final, NamedTuple

# As in ledger.lua. How long a call is remembered once it was settled, or else ended, and an order; one run sweeps so many.
SETTLED_MS, ENDED_MS, ORDER_MS, SWEPT = 3_600_000, 86_400_000, 7_776_000_000, 100

TABLES: Final = """
CREATE TABLE IF NOT EXISTS book (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS accounts (
  account TEXT PRIMARY KEY, scope TEXT NOT NULL, spent INTEGER NOT NULL DEFAULT 0, held INTEGER NOT NULL DEFAULT 0,
  day INTEGER NOT NULL, forget_ms INTEGER, what TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS calls (member TEXT PRIMARY KEY, due_ms INTEGER NOT NULL, call TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS calls_due ON calls (due_ms);
CREATE INDEX IF NOT EXISTS accounts_forget ON accounts (forget_ms) WHERE forget_ms IS NOT NULL;
"""


class Asked(NamedTuple):
    """A claim, taken apart."""

    unit: int
    limit: int
    enforced: bool
    start: str
    end: str
    kept_s: int
    name: str
    scope: str

    @property
    def share(self) -> str:
        return f"{self.scope}|{self.name}"

    @property
    def account(self) -> str:
        return f"{self.share}|{self.start}" if self.end else self.share

    def forget_ms(self, now_ms: int) -> int | None:
        """When its account may be forgotten, if it was last used now."""
        return (int(self.end) if self.end else now_ms // 1000) * 1000 + self.kept_s * 1000 if self.kept_s else None

    def covers(self, now_ms: int) -> bool:
        """Whether it is about the period at hand."""
        return not self.end or int(self.start) * 1000 <= now_ms < int(self.end) * 1000


def asked(text: str) -> Asked:
    """Take a claim apart."""
    head, _, scope = text.partition("\0")
    unit, limit, enforced, start, end, kept_s, name = head.split(" ", 6)
    return Asked(int(unit), int(limit), enforced == "1", start, end, int(kept_s), name, scope)


class Books:
    """The operations, by their names. Each answers as `ledger.lua` does."""

    def __init__(self, connection: sqlite3.Connection, now_ms: int) -> None:
        self._sql, self._now = connection.execute, now_ms

    def reserve(
        self, version: str, call_id: str, hold_ms: str, usd: str, tokens: str, steps: str, *claimed: str
    ) -> str:
        member = "c" + call_id
        known = self._call(member)
        if known and known[0] == "held" and self._due_ms(member) <= self._now:
            self._add(known, "held", -1)
            self._keep(member, known, "expired", ENDED_MS)
        elif known and known[0] in ("held", "settled"):
            return f"known {known[0]}"
        amounts = (int(usd), int(tokens), int(steps))
        claims = [(amounts[claim.unit - 1], claim) for claim in map(asked, claimed)]
        if not all(claim.covers(self._now) for _, claim in claims):
            return f"period {self._now}"
        if self._value("version") != version:
            return "stale"
        call: list[Any] = ["held"]
        rooms, days, full, exceeded = [], [], False, False
        for amount, claim in claims:
            found = self._sql("SELECT spent, held, day FROM accounts WHERE account = ?", (claim.account,)).fetchone()
            spent, held, day = found or (0, 0, None)
            limit = self._limit(claim)
            if spent + held + amount > limit:
                full, exceeded = full or claim.enforced, True
            rooms.append(f"{spent} {held} {limit}")
            days.append(day)
            call += [claim.account, claim.unit, amount]
        if full:
            return "again" if self._sweep() else f"refused {' '.join(rooms)}"
        if self._now % 16 == 0:  # now and then, so that what is old does not grow
            self._sweep()
        for (_, claim), day in zip(claims, days, strict=True):
            self._touch(claim, day)
        self._add(call, "held", 1)
        self._keep(member, call, "held", int(hold_ms))
        return f"{'over' if exceeded else 'held'} {' '.join(rooms)}"

    def settle(self, call_id: str, usd: str, tokens: str, steps: str, *claimed: str) -> str:
        member, spent = "c" + call_id, (int(usd), int(tokens), int(steps))
        call = self._call(member)
        if call is None:
            if not claimed:
                return "unknown"
            claims = [asked(text) for text in claimed]
            call = ["none", *(part for claim in claims for part in (claim.account, claim.unit, 0))]
            for claim in claims:
                self._touch(claim, None)
        was = call[0]
        if was == "settled":
            return "known settled"
        if was == "held":
            self._add(call, "held", -1)
        call[3::3] = [spent[unit - 1] for unit in call[2::3]]
        self._add(call, "spent", 1)
        self._keep(member, ["settled"], "settled", SETTLED_MS)
        return f"settled {was}"

    def release(self, call_id: str) -> str:
        member = "c" + call_id
        call = self._call(member)
        if not call or call[0] != "held":
            return f"known {call[0] if call else 'none'}"
        self._add(call, "held", -1)
        self._keep(member, call, "released", ENDED_MS)
        return "released"

    def order(self, order_id: str, action: str, amount: str, until_ms: str, version: str, text: str) -> str:
        member, claim = "o" + order_id, asked(text)
        if self._call(member) is not None:
            return "known order"
        if self._value("version") != version:
            return "stale"
        if not claim.covers(self._now):
            return f"period {self._now}"
        self._touch(claim, None)
        set_to, *more = (self._value(f"l{claim.share}") or "-").split()
        kept = [extra for extra in more if extra[:2] == "0:" or int(extra.partition(":")[0]) > self._now]
        if action == "reset":
            self._sql("UPDATE accounts SET spent = 0 WHERE account = ?", (claim.account,))
        elif action == "set":
            set_to = "-" if amount == "0" else amount
        else:
            kept.append(f"{until_ms}:{amount}")
        self._write(f"l{claim.share}", " ".join([set_to, *kept]))
        self._keep(member, ["done"], "done", ORDER_MS)
        return "done"

    def rebuild(self, *totals: str) -> str:
        for spent, text in zip(totals[::2], totals[1::2], strict=True):
            claim = asked(text)
            self._touch(claim, None)
            self._sql("UPDATE accounts SET spent = ? WHERE account = ?", (int(spent), claim.account))
        return "done"

    def define(self, version: str, text: str) -> str:
        if self._value("version") != version:
            self._write("version", version)
            self._write("json", text)
        return "done"

    def read(self) -> str:
        return f"book {self._now} {self._value('json') or ''}"

    def sweep(self) -> str:
        return f"swept {self._sweep()}"

    def _sweep(self) -> int:
        late = self._sql("SELECT member FROM calls WHERE due_ms <= ? LIMIT ?", (self._now, SWEPT)).fetchall()
        for (member,) in late:
            call = self._call(member)
            if call and call[0] == "held":
                self._add(call, "held", -1)
                self._keep(member, call, "expired", ENDED_MS)
            else:
                self._sql("DELETE FROM calls WHERE member = ?", (member,))
        old = "SELECT account FROM accounts WHERE forget_ms <= ? LIMIT ?"
        forgotten = self._sql(old, (self._now, SWEPT - len(late))).fetchall()
        for account in forgotten:
            self._sql("DELETE FROM accounts WHERE account = ?", account)
        return len(late) + len(forgotten)

    def _limit(self, claim: Asked) -> int:
        orders = self._value(f"l{claim.share}")
        if not orders:
            return claim.limit
        set_to, *more = orders.split()
        extras = (extra.split(":") for extra in more)
        extra = sum(int(amount) for until, amount in extras if until == "0" or int(until) > self._now)
        return (claim.limit if set_to == "-" else int(set_to)) + extra

    def _touch(self, claim: Asked, day: int | None) -> None:
        today = self._now // 86_400_000
        if day == today:
            return
        what = json.dumps([claim.scope, claim.name, claim.unit, claim.start, claim.end], separators=(",", ":"))
        self._sql(
            "INSERT INTO accounts (account, scope, day, forget_ms, what) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (account) DO UPDATE SET day = excluded.day, forget_ms = excluded.forget_ms",
            (claim.account, claim.scope, today, claim.forget_ms(self._now), what),
        )

    def _add(self, call: list[Any], column: str, sign: int) -> None:
        """Add each amount of a call to its account, or take it away."""
        for account, amount in zip(call[1::3], call[3::3], strict=True):
            if amount:
                self._sql(f"UPDATE accounts SET {column} = {column} + ? WHERE account = ?", (sign * amount, account))

    def _call(self, member: str) -> list[Any] | None:
        found = self._sql("SELECT call FROM calls WHERE member = ?", (member,)).fetchone()
        return json.loads(found[0]) if found else None

    def _due_ms(self, member: str) -> int:
        found: tuple[int] = self._sql("SELECT due_ms FROM calls WHERE member = ?", (member,)).fetchone()
        return found[0]

    def _keep(self, member: str, call: list[Any], state: str, for_ms: int) -> None:
        call[0] = state
        row = (member, self._now + for_ms, json.dumps(call, separators=(",", ":")))
        self._sql("INSERT OR REPLACE INTO calls (member, due_ms, call) VALUES (?, ?, ?)", row)

    def _value(self, name: str) -> str | None:
        found = self._sql("SELECT value FROM book WHERE name = ?", (name,)).fetchone()
        return found[0] if found else None

    def _write(self, name: str, value: str) -> None:
        self._sql("INSERT OR REPLACE INTO book (name, value) VALUES (?, ?)", (name, value))
