"""The live sessions of this worker: in memory, backed by the table."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from typing import Final

from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import StateError
from spanfuse_processor.hosts.stream.outbox import Row
from spanfuse_processor.hosts.stream.table import SessionTable, Stored

log = logging.getLogger(__name__)

MAX_LIVE: Final = 10_000
"""Sessions kept ready in memory, some 20 KB each; others are restored from the table when they come up."""


MAX_INT64: Final = 2**63 - 1


class Live:
    """A session in memory."""

    __slots__ = ("dirty", "offset", "partition", "state")

    def __init__(self, state: SessionState, offset: int, partition: int) -> None:
        self.state = state
        self.offset = offset
        """Last message applied; only grows."""
        self.partition = partition
        self.dirty = False
        """Changed since it was last stored."""


class Sessions:
    """What `Pipeline.process` loads from, and what the write-back stores.

    Args:
        counters: gets `unreadable_sessions` and `unstorable_sessions`, which had to be begun anew.
        max_live: bound of the sessions in memory; those that are not stored yet are never dropped.
    """

    def __init__(self, table: SessionTable, counters: Counter[str], max_live: int = MAX_LIVE) -> None:
        self._table = table
        self._counters = counters
        self._max_live = max_live
        self._live: OrderedDict[str, Live] = OrderedDict()
        self._dirty: dict[str, Live] = {}

    @property
    def dirty(self) -> int:
        """Number of sessions that wait to be stored."""
        return len(self._dirty)

    def load(self, session: str, partition: int, offset: int) -> SessionState | None:
        """The state that a message is to be applied to; none if it has been applied."""
        live = self._live.get(session)
        if live is None:
            live = self._live[session] = self._restored(session, partition)
        else:
            self._live.move_to_end(session)
        return live.state if offset > live.offset else None

    def touched(self, session: str, offset: int) -> None:
        """The message at `offset` has changed the session."""
        live = self._live[session]
        live.offset = max(live.offset, offset)
        live.dirty = True
        self._dirty[session] = live

    def take(self, most: int) -> list[Row]:
        """Store up to `most` changed sessions in the table's local copy.

        Returns:
            Key, value and partition of each, for the changelog.
        """
        taken: list[Row] = []
        for session in list(self._dirty)[:most]:
            live = self._dirty.pop(session)
            live.dirty = False
            value = self._value(session, live)
            key = key_of(session)
            self._table.store(key, value, live.partition)
            taken.append((key, value, live.partition))
        return taken

    def _value(self, session: str, live: Live) -> bytes:
        """The session as it is stored. One that cannot be is begun anew, at its epoch: it must not stop the others."""
        try:
            return _stored(live)
        except Exception as error:  # a number too large, text that is none, …
            self._counters["unstorable_sessions"] += 1
            if self._counters["unstorable_sessions"] == 1:
                log.error("a session cannot be stored and starts afresh: %r", error)
            live.state = _anew(session, live.state.epoch, live.state.last_ns)
            return _stored(live)

    def known(self, session: str) -> bool:
        """Whether anything is known of the session."""
        return session in self._live or self._table.fetch(key_of(session)) is not None

    def trim(self) -> None:
        """Drop the sessions that were silent longest from memory, as far as they are stored."""
        excess = len(self._live) - self._max_live
        if excess <= 0:
            return
        idle = [session for session, live in self._live.items() if not live.dirty][:excess]
        for session in idle:
            del self._live[session]

    def forget(self, session: str, partition: int) -> None:
        """The session is over."""
        self._live.pop(session, None)
        self._dirty.pop(session, None)
        self._table.store(key_of(session), None, partition)

    def is_dirty(self, session: str) -> bool:
        """Whether the session waits to be stored."""
        return session in self._dirty

    def clear(self) -> None:
        """Drop everything from memory: after a rebalance the table is the truth."""
        self._live.clear()
        self._dirty.clear()

    def _restored(self, session: str, partition: int) -> Live:
        value = self._table.fetch(key_of(session))
        if value is None:
            return Live(SessionState(session), -1, partition)
        state, offset = SessionState(session), -1
        try:
            stored = Stored.unpack(value)
            state, offset = _anew(session, stored.epoch, stored.last_ns), stored.offset
            state = SessionState.restore(stored.snapshot)
        except StateError as error:
            self._counters["unreadable_sessions"] += 1
            if self._counters["unreadable_sessions"] == 1:
                log.warning("a stored session cannot be read and starts afresh: %s", error)
        return Live(state, offset, partition)


def _stored(live: Live) -> bytes:
    state = live.state
    return Stored(live.offset, state.last_ns, state.epoch, state.snapshot()).pack()


def _anew(session: str, epoch: int, last_ns: int) -> SessionState:
    """A session that has forgotten all but its epoch, below which Guards obey nothing, and when it was last heard of."""
    state = SessionState(session)
    state.epoch, state.last_ns = min(epoch, MAX_INT64), min(last_ns, MAX_INT64)
    return state


def key_of(session: str) -> bytes:
    """A session id as the key of the table."""
    return session.encode("utf-8", "surrogatepass")
