"""Liveness is progress: a worker that stands still while Kafka answers ends itself, so that a supervisor starts a fresh one.

Engines fall silent after broker outages and rebalances while their process looks healthy. The watchdog asks the broker with
clients of its own, made anew after each failure: what it says of the consumer group is what counts.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError, for_code

from spanfuse_processor.errors import SpanfuseError, UnavailableError
from spanfuse_processor.hosts.kafka import client_options, start_client, within
from spanfuse_processor.hosts.stream.app import SESSION_TIMEOUT_S
from spanfuse_processor.hosts.stream.progress import STUCK_S, Patience, Progress
from spanfuse_processor.hosts.topics import APP_ID

if TYPE_CHECKING:
    from spanfuse_processor.config import KafkaSettings

log = logging.getLogger(__name__)

EXPELLED_S: Final = SESSION_TIMEOUT_S
"""How long a worker may believe that it has partitions of a group that does not know it, seconds: with its next heartbeat, at
most 3 s later, one that lives learns of it, and joins anew."""
_ASK_TIMEOUT_S: Final = 10.0
_CLOSE_TIMEOUT_S: Final = 1.0
_AWAY: Final = (KafkaError, UnavailableError, TimeoutError, OSError)


class Standing(NamedTuple):
    """What a worker believes of itself."""

    ready: bool
    """Whether its partitions are assigned and recovered."""
    member: str
    """Its id in the consumer group; empty while it joins."""
    sources: set[TopicPartition]
    """Source partitions that are its own."""
    recovering: int
    """Changelog records that are still to be read; falling is progress too."""


class Watchdog:
    """Looks every few seconds.

    Args:
        standing: tells what the worker believes.
        stuck_s: see `progress.STUCK_S`, which is how long it may take to get partitions, too.
    """

    def __init__(self, settings: KafkaSettings, standing: Callable[[], Standing], *, stuck_s: float = STUCK_S) -> None:
        self._settings = settings
        self._standing = standing
        self._stuck_s = stuck_s
        self._progress = Progress(stuck_s)
        self._joining = Patience(STUCK_S)
        self._expelled = Patience(EXPELLED_S)
        self._remaining = 0
        self._lag: dict[TopicPartition, int] = {}

    def lag(self) -> dict[TopicPartition, tuple[int, float]]:
        """Partition of this worker → messages that it has not committed, and for how long it has stood still, seconds. Empty
        while that is not known."""
        idle = self._progress.idle(time.monotonic())
        return {tp: (messages, idle.get(tp, 0.0)) for tp, messages in self._lag.items()}

    @property
    def moving(self) -> bool:
        """Whether all partitions make progress, or have nothing to do, as far as is known."""
        return all(idle_s <= self._stuck_s for _, idle_s in self.lag().values())

    async def run(self) -> None:
        """Run until the worker is stuck.

        Raises:
            SpanfuseError: when it is.
        """
        while True:
            await self._pause()
            try:
                async with _clients(self._settings) as (consumer, admin):
                    while True:
                        await asyncio.wait_for(self._look(consumer, admin), _ASK_TIMEOUT_S)
                        await self._pause()
            except _AWAY:  # Kafka is away: waiting is all there is to do
                self._lag = {}
                for judge in (self._progress, self._joining, self._expelled):
                    judge.pause()

    async def _pause(self) -> None:
        await asyncio.sleep(self._stuck_s / 20)

    async def _look(self, consumer: AIOKafkaConsumer, admin: AIOKafkaAdminClient) -> None:
        members = await _members(admin)
        believed, now_s = self._standing(), time.monotonic()
        self._judge_membership(believed, members, now_s)
        if not believed.ready or not believed.sources:
            self._progress.pause()
            self._lag = {}
            return
        sources = list(believed.sources)
        committed = await _committed(consumer, admin, sources)
        ends = await consumer.end_offsets(sources)
        self._lag = {tp: max(0, ends.get(tp, 0) - offset) for tp, offset in committed.items()}
        stuck = self._progress.look(committed, ends, time.monotonic())
        if stuck is not None:
            raise _ending(
                f"no progress on {stuck.topic}-{stuck.partition} for {self._stuck_s:g} s: committed offset "
                f"{committed[stuck]}, end {ends[stuck]}"
            )

    def _judge_membership(self, believed: Standing, members: set[str], now_s: float) -> None:
        remaining, before = believed.recovering, self._remaining
        self._remaining = remaining
        recovers = bool(remaining) and remaining != before
        if self._joining.lost(not believed.ready and not recovers, now_s):
            raise _ending(f"no partitions for {STUCK_S:g} s, though Kafka answers")
        if self._expelled.lost(believed.ready and believed.member not in members, now_s):
            raise _ending(f"the consumer group has not known this worker for {EXPELLED_S:g} s")


def _ending(why: str) -> SpanfuseError:
    return SpanfuseError(f"{why}; ending, so that a supervisor starts a fresh worker")


@asynccontextmanager
async def _clients(settings: KafkaSettings) -> AsyncIterator[tuple[AIOKafkaConsumer, AIOKafkaAdminClient]]:
    options = client_options(settings)
    async with AsyncExitStack() as closing:
        consumer = AIOKafkaConsumer(**options, group_id=None, enable_auto_commit=False)
        await start_client(consumer, settings)
        closing.push_async_callback(_close, consumer.stop)
        admin = AIOKafkaAdminClient(**options, request_timeout_ms=int(_ASK_TIMEOUT_S * 1000))
        await start_client(admin, settings)
        closing.push_async_callback(_close, admin.close)
        yield consumer, admin


async def _close(close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with suppress(KafkaError, OSError):
        await within(_CLOSE_TIMEOUT_S, close())


async def _members(admin: AIOKafkaAdminClient) -> set[str]:
    """Ids of the members of the group.

    Raises:
        KafkaError: while its coordinator does not know.
    """
    (response,) = await admin.describe_consumer_groups([APP_ID])
    ((code, _, _, _, _, members, *_),) = response.groups
    if code:
        raise for_code(code)(APP_ID)
    return {member[0] for member in members}


async def _committed(
    consumer: AIOKafkaConsumer, admin: AIOKafkaAdminClient, sources: list[TopicPartition]
) -> dict[TopicPartition, int]:
    """Next offset to read; the beginning where nothing is committed."""
    found = await admin.list_consumer_group_offsets(APP_ID, partitions=sources)
    begins = await consumer.beginning_offsets(sources)
    return {tp: found[tp].offset if tp in found and found[tp].offset >= 0 else begins[tp] for tp in sources}
