"""Stores touched sessions once per interval, after what they caused is acknowledged and before their messages are committed.

The order that makes a crash harmless at every point: outputs acknowledged → states written and acknowledged → offset committed.
"""

from __future__ import annotations

import asyncio
from typing import Final

from faust.types import TP

from spanfuse_processor.hosts.stream.offsets import Offsets
from spanfuse_processor.hosts.stream.outbox import Outbox
from spanfuse_processor.hosts.stream.sessions import Sessions
from spanfuse_processor.hosts.topics import SESSIONS_CHANGELOG

INTERVAL_S: Final = 1.0
"""How often touched sessions are stored, seconds."""
_CHUNK: Final = 64
"""Sessions serialised in one go, some 50 µs each: the longest that a message has to wait for it."""


class WriteBack:
    """The write-back of this worker's sessions."""

    def __init__(self, sessions: Sessions, outbox: Outbox, offsets: Offsets) -> None:
        self._sessions = sessions
        self._outbox = outbox
        self._offsets = offsets
        self._applied: dict[TP, int] = {}
        self.flushing = asyncio.Lock()
        """Held while states are written: one write-back at a time, so that an older state never follows a newer one."""
        self.step = asyncio.Lock()
        """Held while a message is applied and its outputs are handed over, and while states are serialised: so that a
        stored state is never ahead of its outputs."""

    def applied(self, tp: TP, offset: int) -> None:
        """The message is applied in memory; only grows."""
        self._applied[tp] = max(offset, self._applied.get(tp, -1))

    async def flush(self) -> None:
        """Make durable what has been applied so far, and commit it.

        Raises:
            UnavailableError: if Kafka refuses a record.
        """
        async with self.flushing:
            async with self.step:
                applied, self._applied = self._applied, {}
                dirty = self._sessions.dirty
            await self._write(dirty)
            for tp, offset in applied.items():
                self._offsets.done(tp, offset)
            await self._offsets.commit()
            self._sessions.trim()

    async def _write(self, dirty: int) -> None:
        taken: list[tuple[bytes, bytes, int]] = []
        while len(taken) < dirty:
            async with self.step:
                chunk = self._sessions.take(_CHUNK)
            taken += chunk
            if not chunk:
                break
        await self._outbox.settled()
        for key, value, partition in taken:
            await self._outbox.send(SESSIONS_CHANGELOG, value, key=key, partition=partition)
        await self._outbox.settled()

    def forget(self) -> None:
        """Partitions were revoked: what is not committed is delivered again, here or elsewhere."""
        self._applied.clear()
