"""Forgets idle sessions, by the clock of their partition: the newest call seen there, and the time that passed since."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final

from faust.types import TP

from spanfuse_processor.core import breaker
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import StateError
from spanfuse_processor.hosts.stream.detect import forget, tell
from spanfuse_processor.hosts.stream.offsets import Offsets
from spanfuse_processor.hosts.stream.outbox import Outbox, Row
from spanfuse_processor.hosts.stream.sessions import Sessions
from spanfuse_processor.hosts.stream.table import SessionTable, Stored
from spanfuse_processor.hosts.stream.writeback import WriteBack
from spanfuse_processor.hosts.topics import SESSIONS_CHANGELOG
from spanfuse_schemas.topics import CALLS

_SLICE: Final = 2_000
"""Stored sessions looked at per turn, some 2 ms."""


class Expiry:
    """Looks at some stored sessions per turn, and deletes the idle ones.

    Args:
        writeback: its locks keep states from being changed or written meanwhile.
        counters: gets `expired_sessions`.
    """

    def __init__(
        self,
        table: SessionTable,
        sessions: Sessions,
        pipeline: Pipeline,
        outbox: Outbox,
        writeback: WriteBack,
        offsets: Offsets,
        counters: Counter[str],
    ) -> None:
        self._table = table
        self._sessions = sessions
        self._pipeline = pipeline
        self._outbox = outbox
        self._writeback = writeback
        self._offsets = offsets
        self._counters = counters
        self._clocks: dict[int, tuple[int, float]] = {}
        self._round: Iterator[tuple[bytes, bytes, int]] = iter(())
        self._since = time.monotonic()

    def forget(self) -> None:
        """Partitions were revoked."""
        self._since = time.monotonic()
        self._clocks.clear()
        self._round = iter(())

    async def turn(self) -> None:
        """One turn."""
        looked_at = list(islice(self._round, _SLICE))
        if not looked_at:
            self._round = self._table.entries()
            return
        over = [entry for entry in looked_at if self._is_over(entry[1], entry[2])]
        if over:
            async with self._writeback.flushing:
                await self._delete(over)

    def _is_over(self, value: bytes, partition: int) -> bool:
        """Idle, and no message that it has applied can come again."""
        idle_s = self._pipeline.policy.idle_timeout_s
        try:
            stored = Stored.unpack(value)
        except StateError:  # nobody can tell since when: what has not been written again by then is over
            return time.monotonic() - self._since > idle_s
        now_ns = self._now_ns(partition, stored.last_ns)
        idle = now_ns - stored.last_ns > idle_s * 1e9
        return idle and stored.offset < self._offsets.committed(TP(CALLS, partition))

    def _now_ns(self, partition: int, seen_ns: int) -> int:
        newest, at = self._clocks.get(partition, (0, 0.0))
        if seen_ns > newest:
            newest, at = self._clocks[partition] = seen_ns, time.monotonic()
        return newest + int((time.monotonic() - at) * 1e9)

    async def _delete(self, over: list[tuple[bytes, bytes, int]]) -> None:
        """What Guards are told goes first, as with every state."""
        gone: list[Row] = []
        async with self._writeback.step:
            for key, value, partition in over:
                session = key.decode("utf-8", "surrogatepass")
                if self._table.fetch(key) == value and not self._sessions.is_dirty(session):
                    await self._close(session, value, partition)
                    gone.append((key, None, partition))
        await self._outbox.settled()
        await self._outbox.send_many(SESSIONS_CHANGELOG, gone)
        await self._outbox.settled()

    async def _close(self, session: str, value: bytes, partition: int) -> None:
        self._sessions.forget(session, partition)
        self._counters["expired_sessions"] += 1
        state, told = _last_known(session, value)
        if state is not None and state.decision is not None:
            closed = breaker.close(state, state.last_ns, "The session is over.", self._pipeline.policy.mode)
            await tell(self._outbox, closed)
        if told:
            await forget(self._outbox, f"session:{session}")


def _last_known(session: str, value: bytes) -> tuple[SessionState | None, bool]:
    """The state if it can be read, and whether Guards may know of the session."""
    try:
        stored = Stored.unpack(value)
    except StateError:
        return None, True
    try:
        return SessionState.restore(stored.snapshot), stored.epoch > 0
    except StateError:
        return None, stored.epoch > 0
