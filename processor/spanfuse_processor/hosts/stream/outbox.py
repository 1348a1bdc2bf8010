"""What the worker sends, and how much of it the brokers have not acknowledged yet."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaTimeoutError, MessageSizeTooLargeError, RecordListTooLargeError
from aiokafka.producer.message_accumulator import BatchBuilder

from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.hosts.kafka import new_producer, start_client
from spanfuse_schemas import Decision
from spanfuse_schemas.decision import LAST_EPOCH
from spanfuse_schemas.signing import Keyring
from spanfuse_schemas.topics import CONTROL

if TYPE_CHECKING:
    from spanfuse_processor.config import KafkaSettings

log = logging.getLogger(__name__)

TOO_LARGE: Final = (MessageSizeTooLargeError, RecordListTooLargeError)
"""What the client or the broker says of a record that is too large: it will say so for ever."""
MAX_OPEN: Final = 20_000
"""Records sent and not acknowledged; above it, sending waits."""

Row = tuple[bytes | None, bytes | None, int]
"""Key, value and partition of a record."""
Headers = Sequence[tuple[str, bytes]]


class Outbox:
    """Two producers: `urgent` sends at once (decisions, and calls on their way to detection), `bulk` gathers for 20 ms.

    Args:
        fail: told of a record that was refused; the worker must end, since state must not run ahead.
        counters: gets `oversized_records`, which are dropped: sending them again would fail again, and so for ever.
        keys: sign all that goes to the control topic.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        fail: Callable[[BaseException], None],
        counters: Counter[str],
        keys: Keyring | None = None,
    ) -> None:
        self._settings = settings
        self._keys = keys or Keyring()
        self._fail = fail
        self._counters = counters
        self._open: set[asyncio.Future[object]] = set()
        self._started: list[AIOKafkaProducer] = []

    async def start(self) -> None:
        """Connect.

        Raises:
            UnavailableError: if Kafka does not answer.
        """
        self.urgent = await self._producer(linger_ms=0)
        self.bulk = await self._producer(linger_ms=20)

    async def _producer(self, linger_ms: int) -> AIOKafkaProducer:
        producer = new_producer(self._settings, linger_ms=linger_ms)
        await start_client(producer, self._settings)
        self._started.append(producer)
        return producer

    async def stop(self, timeout_s: float) -> None:
        """Send what waits, for `timeout_s` seconds at most, and disconnect."""
        if not self._started:
            return
        stops = [asyncio.ensure_future(p.stop()) for p in self._started]
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
            The future of the broker's acknowledgement; see `lost` for what it says when it fails.
        """
        if topic == CONTROL and self._keys:
            value = await self._signed(value, key)
        if len(self._open) >= MAX_OPEN:
            await self.settled()
        producer = self.urgent if urgent else self.bulk
        return self._track(
            await _persist(partial(producer.send, topic, value, key=key, partition=partition, headers=headers))
        )

    async def _signed(self, value: bytes | None, key: bytes | None) -> bytes | None:
        """A record with its signature; before a tombstone, which nothing signs, a record that says the same."""
        if value is not None:
            return self._keys.signed(value)
        name = (key or b"").decode("utf-8", "surrogatepass")
        last = Decision(key=name, state="closed", issued_at_ns=time.time_ns(), epoch=LAST_EPOCH)
        await self.send(CONTROL, last.to_json(), key=key, urgent=True)
        return None

    async def send_many(self, topic: str, records: Iterable[Row]) -> None:
        """Send many small records in batches built here, at a fraction of what each would cost by itself; per partition
        they keep their order. Not to be mixed with `send` to the same topic."""
        by_partition: defaultdict[int, list[Row]] = defaultdict(list)
        for row in records:
            by_partition[row[2]].append(row)
        for partition, rows in by_partition.items():
            for batch in _batches(self.bulk, rows):
                self._track(
                    await _persist(partial(self.bulk.send_batch, batch, topic, partition=partition)),
                    batch.record_count(),
                )

    def _track(self, future: asyncio.Future[object], records: int = 1) -> asyncio.Future[object]:
        self._open.add(future)
        future.add_done_callback(partial(self._closed, records=records))
        return future

    def _closed(self, future: asyncio.Future[object], records: int) -> None:
        self._open.discard(future)
        if future.cancelled() or (error := future.exception()) is None:
            return
        if lost(error):
            self._fail(UnavailableError(f"Kafka refused a record: {error!r}"))
            return
        self._counters["oversized_records"] += records
        if self._counters["oversized_records"] == records:
            log.error("Kafka refuses a record for its size; such are dropped and counted: %s", error)

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
            if future.cancelled() or lost(future.exception()):
                raise UnavailableError("Kafka refused a record")


def lost(error: BaseException | None) -> bool:
    """Whether a record that had to arrive did not; one that is too large counts as done with."""
    return error is not None and not isinstance(error, TOO_LARGE)


async def _persist(send: Callable[[], Awaitable[asyncio.Future[object]]]) -> asyncio.Future[object]:
    """A full buffer during an outage is no reason to lose or to overtake a record: try until there is room."""
    while True:
        try:
            return await send()
        except KafkaTimeoutError:
            continue
        except TOO_LARGE as error:
            refused: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            return refused


def _batches(producer: AIOKafkaProducer, rows: list[Row]) -> Iterator[BatchBuilder]:
    batch = producer.create_batch()
    for key, value, _ in rows:
        while batch.append(key=key, value=value, timestamp=None) is None:
            yield batch
            batch = producer.create_batch()
    yield batch
