"""Stores touched states once per interval, after what they caused is acknowledged and before their messages are committed.

The order that makes a crash harmless at every point: outputs acknowledged → states written and acknowledged → offset committed.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

from faust.types import TP

from spanfuse_processor.hosts.stream.offsets import Offsets
from spanfuse_processor.hosts.stream.outbox import Outbox, Row
from spanfuse_processor.hosts.stream.states import States
from spanfuse_processor.hosts.topics import SESSIONS_CHANGELOG
from spanfuse_schemas import Charge
from spanfuse_schemas.topics import CHARGES, partition_of

INTERVAL_S: Final = 1.0
"""How often touched states are stored, seconds."""
MAX_DIRTY: Final = 4_000
"""States that may wait to be stored."""
MAX_CHARGES: Final = 50_000
"""Charges that may wait to be sent."""
MESSAGE_BYTES: Final = 400_000
"""Length at which a message of charges is full; a record may have 1 MB."""
_CHUNK: Final = 64
"""States serialised in one go, some 50 µs each: the longest that a message has to wait for it."""


class WriteBack:
    """The write-back of this worker's sessions, or of its scopes.

    Args:
        charge_partitions: number of partitions of `spanfuse.charges`; all charges of a scope go to one, in order.
        changelog: topic of the states.
    """

    def __init__(
        self,
        states: States[Any],
        outbox: Outbox,
        offsets: Offsets,
        charge_partitions: int,
        changelog: str = SESSIONS_CHANGELOG,
    ) -> None:
        self._states = states
        self._changelog = changelog
        self._outbox = outbox
        self._offsets = offsets
        self._charge_partitions = charge_partitions
        self._applied: dict[TP, int] = {}
        self._charges: list[tuple[int, bytes]] = []
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
        return self._states.dirty > MAX_DIRTY or len(self._charges) > MAX_CHARGES

    def charge(self, charges: Iterable[Charge]) -> None:
        """Charges that go out with the next flush, before the states that cover them."""
        partitions = self._charge_partitions
        self._charges += [(partition_of(c.scope, partitions), c.to_json()) for c in charges]

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
                dirty, era = self._states.dirty, self._era
            await self._write(dirty)
            if era != self._era:
                return
            for tp, offset in applied.items():
                self._offsets.done(tp, offset)
            await self._offsets.commit()
            self._states.trim()

    async def _write(self, dirty: int) -> None:
        taken: list[Row] = []
        while len(taken) < dirty:
            async with self.step:
                chunk = self._states.take(_CHUNK)
                for topic, key, value in self._states.untold():
                    await self._outbox.send(topic, value, key=key, urgent=True)
            if not chunk:
                break  # states are over, or their partitions were revoked meanwhile
            taken += chunk
            await asyncio.sleep(0)  # a free lock makes nobody wait: messages would get no turn before the end
        async with self.step:
            charges, self._charges = self._charges, []
        await self._outbox.send_many(CHARGES, _packed(charges))
        await self._outbox.settled()
        await self._outbox.send_many(self._changelog, taken)
        await self._outbox.settled()

    def forget(self) -> None:
        """Partitions were revoked: what is not committed is delivered again, here or elsewhere."""
        self._era += 1
        self._applied.clear()
        self._charges.clear()


def _packed(charges: Iterable[tuple[int, bytes]]) -> Iterator[Row]:
    """`ChargeBatch` messages, few and in order: a message costs its reader as much as a hundred charges."""
    waiting: defaultdict[int, list[bytes]] = defaultdict(list)
    sizes: defaultdict[int, int] = defaultdict(int)
    for partition, charge in charges:
        if sizes[partition] + len(charge) > MESSAGE_BYTES and waiting[partition]:
            yield None, _batch(waiting.pop(partition)), partition
            sizes[partition] = 0
        waiting[partition].append(charge)
        sizes[partition] += len(charge)
    for partition, rest in waiting.items():
        yield None, _batch(rest), partition


def _batch(charges: list[bytes]) -> bytes:
    return b'{"charges":[' + b",".join(charges) + b"]}"
