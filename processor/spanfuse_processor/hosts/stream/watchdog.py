"""Liveness is progress: a worker whose committed offsets stand still while messages wait ends itself.

Engines fall silent after broker outages and rebalances while their process looks healthy. The watchdog asks the broker with
clients of its own, and a thread watches the event loop itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from spanfuse_processor.errors import SpanfuseError
from spanfuse_processor.hosts.kafka import client_options, start_client, within
from spanfuse_processor.hosts.topics import APP_ID

if TYPE_CHECKING:
    from spanfuse_processor.config import KafkaSettings

log = logging.getLogger(__name__)

STUCK_S: Final = 90.0
"""Time without progress, while messages wait, after which the worker ends, seconds. Default 90: a rebalance and a large
recovery fit in."""
_ASK_TIMEOUT_S: Final = 10.0
_CLOSE_TIMEOUT_S: Final = 1.0
EXIT_CODE: Final = 1
"""Exit code of a worker that ends because its event loop hangs."""


class Progress:
    """Judges offsets; knows no broker.

    Args:
        stuck_s: see `STUCK_S`.
    """

    def __init__(self, stuck_s: float = STUCK_S) -> None:
        self._stuck_s = stuck_s
        self._since: dict[TopicPartition, tuple[int, float]] = {}

    def look(
        self, committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], now_s: float
    ) -> TopicPartition | None:
        """A partition that has waited too long; none if all is well.

        Args:
            committed: next offset to read, of the partitions that are this worker's.
            ends: end offset of each.
            now_s: monotonic time, seconds.
        """
        before, self._since = self._since, {}
        for tp, offset in committed.items():
            if offset >= ends.get(tp, 0):
                continue
            last, since = before.get(tp, (offset, now_s))
            self._since[tp] = (offset, since if offset == last else now_s)
            if now_s - self._since[tp][1] > self._stuck_s:
                return tp
        return None

    def pause(self) -> None:
        """Nothing can be known, or nothing is expected: begin anew."""
        self._since.clear()


class Watchdog:
    """Looks every few seconds.

    Args:
        mine: source partitions assigned to this worker; empty while it recovers.
        recovering: changelog records that are still to be read; falling is progress too.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        mine: Callable[[], set[TopicPartition]],
        recovering: Callable[[], int],
        *,
        stuck_s: float = STUCK_S,
    ) -> None:
        self._settings = settings
        self._mine = mine
        self._recovering = recovering
        self._stuck_s = stuck_s
        self._progress = Progress(stuck_s)
        self._remaining = 0

    async def run(self) -> None:
        """Run until the worker is stuck.

        Raises:
            SpanfuseError: when it is.
            UnavailableError: if Kafka does not answer at the start.
        """
        options = client_options(self._settings)
        async with AsyncExitStack() as closing:
            consumer = AIOKafkaConsumer(**options, group_id=None, enable_auto_commit=False)
            await start_client(consumer, self._settings)
            closing.push_async_callback(_close, consumer.stop)
            admin = AIOKafkaAdminClient(**options, request_timeout_ms=int(_ASK_TIMEOUT_S * 1000))
            await start_client(admin, self._settings)
            closing.push_async_callback(_close, admin.close)
            while True:
                await asyncio.sleep(self._stuck_s / 20)
                await self._look(consumer, admin)

    async def _look(self, consumer: AIOKafkaConsumer, admin: AIOKafkaAdminClient) -> None:
        mine = self._mine()
        remaining, before = self._recovering(), self._remaining
        self._remaining = remaining
        if not mine or (remaining and remaining != before):
            self._progress.pause()
            return
        try:
            committed = await asyncio.wait_for(_committed(consumer, admin, mine), _ASK_TIMEOUT_S)
            ends = await asyncio.wait_for(consumer.end_offsets(list(mine)), _ASK_TIMEOUT_S)
        except (KafkaError, TimeoutError, OSError):
            self._progress.pause()  # Kafka is away: waiting is all there is to do
            return
        stuck = self._progress.look(committed, ends, time.monotonic())
        if stuck is not None:
            raise SpanfuseError(
                f"no progress on {stuck.topic}-{stuck.partition} for {self._stuck_s:g} s: committed offset "
                f"{committed[stuck]}, end {ends[stuck]}; ending, so that a supervisor starts a fresh worker"
            )


async def _close(close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with suppress(KafkaError, OSError):
        await within(_CLOSE_TIMEOUT_S, close())


async def _committed(
    consumer: AIOKafkaConsumer, admin: AIOKafkaAdminClient, mine: set[TopicPartition]
) -> dict[TopicPartition, int]:
    """Next offset to read; the beginning where nothing is committed."""
    found = await admin.list_consumer_group_offsets(APP_ID, partitions=list(mine))
    begins = await consumer.beginning_offsets(list(mine))
    return {tp: found[tp].offset if tp in found and found[tp].offset >= 0 else begins[tp] for tp in mine}


class Pulse:
    """A thread that ends the process when the event loop has not run for `stuck_s` seconds."""

    def __init__(self, stuck_s: float = STUCK_S) -> None:
        self._stuck_s = stuck_s
        self._beat = time.monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="spanfuse-pulse", daemon=True)

    async def run(self) -> None:
        """Beat while the loop runs."""
        self._thread.start()
        try:
            while True:
                self._beat = time.monotonic()
                await asyncio.sleep(1)
        finally:
            self._stopped.set()

    def _watch(self) -> None:
        misses = 0  # two in a row: after a suspended machine wakes up, the loop gets its turn first
        while not self._stopped.wait(self._stuck_s / 3):
            misses = misses + 1 if time.monotonic() - self._beat > self._stuck_s else 0
            if misses == 2:
                print(f"spanfuse: the event loop has hung for {self._stuck_s:g} s; ending", file=sys.stderr, flush=True)
                os._exit(EXIT_CODE)
