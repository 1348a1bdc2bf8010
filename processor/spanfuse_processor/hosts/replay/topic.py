"""A range of Kafka topics, read without a consumer group: messages of all partitions in one order, which is the same each time.

Nothing is committed and nothing is written, not even a topic by asking for one that is not there.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from spanfuse_processor.errors import SpanfuseError, UnavailableError
from spanfuse_processor.hosts.errand import new_consumer
from spanfuse_processor.hosts.recordings import Recorded
from spanfuse_processor.hosts.replay.packed import is_packed
from spanfuse_processor.hosts.replay.sources import Item
from spanfuse_processor.hosts.topics import partitions_of
from spanfuse_processor.otlp.decode import sniff
from spanfuse_schemas.topics import OTLP_LOGS

if TYPE_CHECKING:
    from spanfuse_processor.hosts.replay.sources import Progress, TopicRange

STALL_S: Final = 60.0
"""How long a broker that has messages may give none, seconds."""
_MOST_MB: Final = 64
"""What brokers give of all partitions at a time, megabytes; at least one of each."""
_POLL_MS: Final = 1000
_AT_ONCE: Final = 1000
"""Messages that are taken of a partition at a time."""
_MILLISECOND: Final = 1_000_000


def items(wanted: TopicRange, told: Progress) -> Iterator[Item]:
    """The messages; see `TopicRange.items`."""
    with asyncio.Runner() as runner:
        reader = _Reader(wanted)
        try:
            runner.run(reader.open())
            yield from _in_order(reader, runner, told)
        except KafkaError as error:
            raise UnavailableError(f"Kafka at {wanted.settings.brokers}: {error}") from error
        finally:
            runner.run(reader.close())


class _Partition:
    """What is left of one partition."""

    def __init__(self, place: int, tp: TopicPartition, end: int) -> None:
        self.place, self.tp, self.end = place, tp, end
        self.waiting: deque[Any] = deque()
        self.at_ms = 0
        """Time of the newest message so far: where clocks of those who write differ, a partition keeps its own order."""
        self.is_done = False

    def key(self) -> tuple[int, int]:
        """By which the next message is chosen."""
        return max(self.at_ms, self.waiting[0].timestamp or 0), self.place


class _Reader:
    """A consumer that has gone to the beginning of the range."""

    def __init__(self, wanted: TopicRange) -> None:
        self._wanted = wanted
        self._stack = AsyncExitStack()
        self._consumer: AIOKafkaConsumer
        self.partitions: list[_Partition] = []
        self.total = 0
        """Messages in the range, at most."""

    async def open(self) -> None:
        """Find where the range begins and ends."""
        wanted = self._wanted
        counts = await partitions_of(wanted.settings, wanted.topics)
        missing = [name for name in wanted.topics if name not in counts]
        if missing:
            raise SpanfuseError(
                f"Kafka at {wanted.settings.brokers} has no topic {', '.join(missing)} that this user may see"
            )
        tps = [TopicPartition(name, p) for name in wanted.topics for p in range(counts[name])]
        at_once = max(1, min(_MOST_MB // len(tps), 8)) * 1024 * 1024
        entered = self._stack.enter_async_context(new_consumer(wanted.settings, partition_bytes=at_once))
        consumer = self._consumer = await entered
        consumer.assign(tps)
        ends = await consumer.end_offsets(tps)
        begins = await consumer.beginning_offsets(tps)
        first = await self._at(tps, wanted.from_ns, begins, ends)
        last = await self._at(tps, wanted.to_ns, ends, ends)
        for place, tp in enumerate(tps):
            self.total += max(0, last[tp] - first[tp])
            consumer.seek(tp, first[tp])
            if first[tp] < last[tp]:
                self.partitions.append(_Partition(place, tp, last[tp]))
            else:
                consumer.pause(tp)
        if not self.partitions:
            raise SpanfuseError(f"nothing was written to {', '.join(wanted.topics)} in that time")

    async def _at(
        self, tps: list[TopicPartition], at_ns: int | None, default: dict[Any, int], ends: dict[Any, int]
    ) -> dict[TopicPartition, int]:
        """Offsets of the first messages at or after a time."""
        if at_ns is None:
            return default
        found = await self._consumer.offsets_for_times(dict.fromkeys(tps, max(0, -(-at_ns // _MILLISECOND))))
        return {tp: found[tp].offset if found[tp] is not None else ends[tp] for tp in tps}

    async def fill(self, partition: _Partition) -> None:
        """Wait for the next messages of a partition, if there are any."""
        consumer, tp = self._consumer, partition.tp
        since = time.monotonic()
        while not partition.waiting and not partition.is_done:
            found = await consumer.getmany(tp, timeout_ms=_POLL_MS, max_records=_AT_ONCE)
            partition.waiting.extend(r for r in found.get(tp, ()) if r.offset < partition.end)
            if await consumer.position(tp) >= partition.end:
                partition.is_done = True
                consumer.pause(tp)
            elif found:
                since = time.monotonic()
            elif time.monotonic() - since > STALL_S:
                raise UnavailableError(
                    f"Kafka at {self._wanted.settings.brokers} gives nothing of {tp.topic}-{tp.partition}"
                )

    async def close(self) -> None:
        """Close the consumer."""
        await self._stack.aclose()


def _in_order(reader: _Reader, runner: asyncio.Runner, told: Progress) -> Iterator[Item]:
    left, done = list(reader.partitions), 0
    while left:
        for partition in left:
            if not partition.waiting:
                runner.run(reader.fill(partition))
        left = [partition for partition in left if partition.waiting]
        while left and all(partition.waiting for partition in left):
            partition = min(left, key=_Partition.key)
            record = partition.waiting.popleft()
            partition.at_ms = max(partition.at_ms, record.timestamp or 0)
            done += 1
            yield _item(record)
        told("reading", done, reader.total)


def _item(record: Any) -> Item:
    data = record.value or b""
    where = f"{record.topic}-{record.partition}@{record.offset}"
    received_ns = max(0, record.timestamp or 0) * _MILLISECOND
    encoding = "json" if is_packed(data) else sniff(data)
    return Item(Recorded(data, encoding, where), record.topic == OTLP_LOGS, received_ns)
