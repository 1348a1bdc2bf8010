"""Stores touched sessions once per interval, after what they caused is acknowledged and before their messages are committed.

The order that makes a crash harmless at every point: outputs acknowledged → states written and acknowledged → offset committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from faust.types import TP

from spanfuse_processor.hosts.stream.offsets import Offsets
from spanfuse_processor.hosts.stream.outbox import Outbox, Row
from spanfuse_processor.hosts.stream.sessions import Sessions
from spanfuse_processor.hosts.topics import SESSIONS_CHANGELOG
from spanfuse_schemas import Charge
from spanfuse_schemas.topics import CHARGES, partition_of

INTERVAL_S: Final = 1.0
"""How often touched sessions are stored, seconds."""
MAX_DIRTY: Final = 4_000
"""Sessions that may wait to be stored."""
MAX_CHARGES: Final = 50_000
"""Charges that may wait to be sent."""
_CHUNK: Final = 64
"""Sessions serialised in one go, some 50 µs each: the longest that a message has to wait for it."""


class WriteBack:
    """The write-back of this worker's sessions.

    Args:
        charge_partitions: number of partitions of `spanfuse.charges`; all charges of a scope go to one, in order.
    """

    def __init__(self, sessions: Sessions, outbox: Outbox, offsets: Offsets, charge_partitions: int) -> None:
        self._sessions = sessions
        self._outbox = outbox
        self._offsets = offsets
        self._charge_partitions = charge_partitions
        self._applied: dict[TP, int] = {}
        self._charges: list[Row] = []
        self._era = 0
        """Grows when partitions are revoked: what a flush began before that it must not commit."""
        self.flushing = asyncio.Lock()
        """Held while states are written: one write-back at a time, so that an older state never follows a newer one."""
        self.step = asyncio.Lock()
        """Held while a message is applied and its outputs are handed over, and while states are serialised: so that a
        stored state is never ahead of its outputs."""

    @property
    def full(self) -> bool:
        """Whether so much waits that the next message has to wait for a flush."""
        return self._sessions.dirty > MAX_DIRTY or len(self._charges) > MAX_CHARGES

    def charge(self, charges: Iterable[Charge]) -> None:
        """Charges that go out with the next flush, before the states that cover them."""
        partitions = self._charge_partitions
        self._charges += [(c.scope.encode(), c.to_json(), partition_of(c.scope, partitions)) for c in charges]

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
                dirty, era = self._sessions.dirty, self._era
            await self._write(dirty)
            if era != self._era:
                return
            for tp, offset in applied.items():
                self._offsets.done(tp, offset)
            await self._offsets.commit()
            self._sessions.trim()

    async def _write(self, dirty: int) -> None:
        taken: list[Row] = []
        while len(taken) < dirty:
            async with self.step:
                chunk = self._sessions.take(_CHUNK)
            if not chunk:
                break  # sessions are over, or their partitions were revoked meanwhile
            taken += chunk
            await asyncio.sleep(0)  # a free lock makes nobody wait: messages would get no turn before the end
        async with self.step:
            charges, self._charges = self._charges, []
        await self._outbox.send_many(CHARGES, charges)
        await self._outbox.settled()
        await self._outbox.send_many(SESSIONS_CHANGELOG, taken)
        await self._outbox.settled()

    def forget(self) -> None:
        """Partitions were revoked: what is not committed is delivered again, here or elsewhere."""
        self._era += 1
        self._applied.clear()
        self._charges.clear()
