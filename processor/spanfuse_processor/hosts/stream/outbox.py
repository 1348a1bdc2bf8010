"""What the worker sends, and how much of it the brokers have not acknowledged yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaTimeoutError

from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.hosts.kafka import new_producer, start_client

if TYPE_CHECKING:
    from spanfuse_processor.config import KafkaSettings

MAX_OPEN: Final = 20_000
"""Records sent and not acknowledged; above it, sending waits."""

Headers = Sequence[tuple[str, bytes]]


class Outbox:
    """Two producers: `urgent` sends at once (decisions, and calls on their way to detection), `bulk` gathers for 20 ms.

    Args:
        fail: told of a record that can never be delivered; the worker must end, since state must not run ahead.
    """

    def __init__(self, settings: KafkaSettings, fail: Callable[[BaseException], None]) -> None:
        self._settings = settings
        self._fail = fail
        self._open: set[asyncio.Future[object]] = set()

    async def start(self) -> None:
        """Connect.

        Raises:
            UnavailableError: if Kafka does not answer.
        """
        self.urgent = new_producer(self._settings, linger_ms=0)
        self.bulk = new_producer(self._settings, linger_ms=20)
        await start_client(self.urgent, self._settings)
        await start_client(self.bulk, self._settings)

    async def stop(self, timeout_s: float) -> None:
        """Send what waits, for `timeout_s` seconds at most, and disconnect."""
        stops = [asyncio.ensure_future(p.stop()) for p in (self.urgent, self.bulk)]
        _, late = await asyncio.wait(stops, timeout=timeout_s)
        for stop in late:
            stop.cancel()

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
        urgent: bool = False,
    ) -> asyncio.Future[object]:
        """Hand a record to its producer, in order; waits only while too much is unacknowledged or Kafka is away.

        Returns:
            The future of the broker's acknowledgement.
        """
        if len(self._open) >= MAX_OPEN:
            await self.settled()
        producer = self.urgent if urgent else self.bulk
        future = await _enqueue(producer, topic, value, key, partition, headers)
        self._open.add(future)
        future.add_done_callback(self._closed)
        return future

    def _closed(self, future: asyncio.Future[object]) -> None:
        self._open.discard(future)
        if not future.cancelled() and (error := future.exception()) is not None:
            self._fail(UnavailableError(f"Kafka refused a record: {error!r}"))

    async def settled(self) -> None:
        """Wait until all that has been sent so far is acknowledged.

        Raises:
            UnavailableError: if a record was refused.
        """
        waiting = list(self._open)
        if not waiting:
            return
        await asyncio.wait(waiting)
        for future in waiting:
            if future.cancelled() or future.exception() is not None:
                raise UnavailableError("Kafka refused a record")


async def _enqueue(
    producer: AIOKafkaProducer,
    topic: str,
    value: bytes | None,
    key: bytes | None,
    partition: int | None,
    headers: Headers | None,
) -> asyncio.Future[object]:
    """A full buffer during an outage is no reason to lose or to overtake a record: try until there is room."""
    while True:
        try:
            future: asyncio.Future[object] = await producer.send(
                topic, value, key=key, partition=partition, headers=headers
            )
            return future
        except KafkaTimeoutError:
            continue
