"""What a Guard knows: the newest decision of each key that is not closed."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spanfuse.context import Call
    from spanfuse.decisions.probes import Lease
    from spanfuse_schemas import Decision

SCOPES: Final = ("session", "trace", "agent", "user", "team")
"""Scopes that have ids, from the narrowest; `global:*` comes after them. The first that refuses is named."""

MAX_DECISIONS: Final = 100_000
"""Open decisions kept; beyond it the one known longest is forgotten, and counted."""

MAX_CLOSED: Final = 10_000
"""Closed keys whose epoch is remembered, so that a late duplicate does not open them again."""

NEVER: Final = (-1, -1)
"""Epoch and time before all others."""


class Entry:
    """A decision in force, and the probes that this process has let through since it expired."""

    __slots__ = ("decision", "full_until_s", "leases", "local")

    def __init__(self, decision: Decision, *, local: bool = False) -> None:
        self.decision = decision
        self.local = local
        """This process has decided it for itself, so that the fleet has no say in its probes."""
        self.leases: tuple[Lease, ...] = ()
        self.full_until_s = float("-inf")
        """Until when the fleet has no room for another probe, by the clock that never goes back."""

    def under_way(self, now_s: float) -> tuple[Lease, ...]:
        """The probes whose outcome is still waited for."""
        return tuple(lease for lease in self.leases if now_s < lease.until_s)

    def full(self, now_s: float) -> bool:
        """Whether no other probe is let through now."""
        return now_s < self.full_until_s or len(self.under_way(now_s)) >= self.decision.probes

    def probed_by(self, call: Call | None, now_s: float) -> bool:
        """Whether the call at hand has a probe already."""
        return call is not None and any(lease.call is call for lease in self.under_way(now_s))

    def half_open(self, now_ns: int) -> bool:
        """Whether the decision is a block that only keeps back all calls but one."""
        expires = self.decision.expires_at_ns
        return self.decision.state == "half_open" or (expires is not None and expires <= now_ns)

    def lapsed(self, now_ns: int) -> bool:
        """Whether it holds nobody back any more: a budget's, whose period is over."""
        return self.decision.lapses and self.half_open(now_ns)


class View:
    """The open decisions by scope and id. Read without a lock: each read is one dictionary look-up."""

    __slots__ = ("agent", "everyone", "session", "team", "trace", "user")

    def __init__(self) -> None:
        self.session: dict[str | None, Entry] = {}
        self.trace: dict[str | None, Entry] = {}
        self.agent: dict[str | None, Entry] = {}
        self.user: dict[str | None, Entry] = {}
        self.team: dict[str | None, Entry] = {}
        self.everyone: dict[str | None, Entry] = {}

    def slot(self, key: str) -> tuple[dict[str | None, Entry] | None, str]:
        """The dictionary of a key's scope, None for a scope that this version does not know, and the key's id."""
        scope, _, name = key.partition(":")
        if scope == "global":
            return self.everyone, name
        return (getattr(self, scope) if scope in SCOPES else None), name


class _Known:
    """A table in itself: the open decisions, and the epochs of the closed ones."""

    __slots__ = ("closed", "evicted", "ignored", "max_closed", "max_decisions", "open", "view")

    def __init__(self, max_decisions: int, max_closed: int) -> None:
        self.view = View()
        self.open: dict[str, Entry] = {}
        self.closed: dict[str, tuple[int, int]] = {}
        """Epoch and time of the decisions that closed them."""
        self.max_decisions, self.max_closed = max_decisions, max_closed
        self.ignored = self.evicted = 0

    def newer(self, decision: Decision) -> bool:
        """Whether a decision is later than what is known of its key."""
        entry = self.open.get(decision.key)
        if entry is not None:
            return decision.supersedes(entry.decision.epoch, entry.decision.issued_at_ns)
        return decision.supersedes(*self.closed.get(decision.key, NEVER))

    def put(self, entry: Entry) -> None:
        """Make it the only thing known of its key."""
        decision = entry.decision
        self.remove(decision.key)
        if decision.action == "allow":  # and not by its state: a nudge stands while the breaker is closed
            self.close(decision.key, decision.epoch, decision.issued_at_ns)
            return
        slot, name = self.view.slot(decision.key)
        if slot is None:
            self.ignored += 1
            return
        slot[name] = self.open[decision.key] = entry
        if len(self.open) > self.max_decisions:
            self.evicted += 1
            self.remove(next(iter(self.open)))

    def close(self, key: str, epoch: int, issued_at_ns: int) -> None:
        """Remember until when a key, of which nothing else is known, is closed."""
        self.closed[key] = epoch, issued_at_ns
        if len(self.closed) > self.max_closed:
            del self.closed[next(iter(self.closed))]

    def remove(self, key: str) -> None:
        """Know nothing of a key."""
        self.closed.pop(key, None)
        if self.open.pop(key, None) is not None:
            slot, name = self.view.slot(key)
            if slot is not None:
                slot.pop(name, None)


class DecisionTable:
    """Applies decisions in any order, with duplicates: the highest epoch of a key wins.

    Writers take a lock; readers read `view` and take none.

    Args:
        max_decisions: open decisions kept.
        max_closed: closed keys remembered.
        signed: decisions are signed. Nothing signs a tombstone, so that it releases nobody then, and what is signed and was
            issued before it may be sent again by anybody, and is not obeyed.
    """

    def __init__(
        self, max_decisions: int = MAX_DECISIONS, max_closed: int = MAX_CLOSED, *, signed: bool = False
    ) -> None:
        self._signed = signed
        self.unsigned = 0
        """Tombstones that would have released somebody."""
        self._known = _Known(max_decisions, max_closed)
        self._lock = threading.Lock()
        self.view = self._known.view

    def after_fork(self) -> None:
        """The lock may have been held by a thread that does not exist in this process."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known.open)

    @property
    def ignored(self) -> int:
        """Decisions of a scope that this version does not know."""
        return self._known.ignored

    @property
    def evicted(self) -> int:
        """Open decisions forgotten for want of room."""
        return self._known.evicted

    def decisions(self) -> list[Decision]:
        """The open decisions."""
        with self._lock:
            return [entry.decision for entry in self._known.open.values()]

    def apply(self, decision: Decision) -> bool:
        """Take a decision in, unless one of the same or a later epoch is known; whether it was."""
        with self._lock:
            news = self._known.newer(decision)
            if news:
                self._known.put(Entry(decision))
            return news

    def forget(self, key: str) -> None:
        """A tombstone: the key starts anew, at any epoch."""
        with self._lock:
            entry, closed = self._known.open.get(key), self._known.closed.get(key)
            if self._signed and entry is not None:
                self.unsigned += 1
                return
            self._known.remove(key)
            if self._signed and closed is not None:
                from spanfuse_schemas.decision import LAST_EPOCH

                self._known.close(key, LAST_EPOCH, closed[1])

    def replace(self, decisions: Iterable[Decision]) -> None:
        """Exchange everything for a snapshot, so that what closed unseen is gone. Probes under way keep their lease."""
        with self._lock:
            old = self._known
            new = _Known(old.max_decisions, old.max_closed)
            new.ignored, new.evicted = old.ignored, old.evicted
            for decision in decisions:
                if new.newer(decision):
                    known = old.open.get(decision.key)
                    new.put(known if known is not None and known.decision == decision else Entry(decision))
            self._known, self.view = new, new.view
