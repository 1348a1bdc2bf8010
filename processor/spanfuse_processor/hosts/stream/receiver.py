"""OTLP straight to a worker: each request becomes messages of `otlp_spans` or `otlp_logs`, and is answered when Kafka has them.

A trace goes to one partition, its logs to the same one of their topic, so that one worker reads all of it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from aiokafka.partitioner import DefaultPartitioner

from spanfuse_processor.errors import DecodeError, UnavailableError
from spanfuse_processor.hosts.aside import aside
from spanfuse_processor.hosts.kafka import MAX_REQUEST_BYTES, new_producer, start_client, within
from spanfuse_processor.hosts.stream.outbox import TOO_LARGE
from spanfuse_processor.otlp.decode import Encoding
from spanfuse_processor.otlp.export import ExportResult
from spanfuse_processor.otlp.receiver import OtlpReceiver
from spanfuse_processor.otlp.split import Parts, Place, split_logs, split_spans
from spanfuse_schemas.topics import OTLP_LOGS, OTLP_SPANS

if TYPE_CHECKING:
    from spanfuse_processor import config

ACK_TIMEOUT_S: Final = 10.0
"""How long Kafka may take to acknowledge a request until the client is told to come back, seconds."""
MAX_PART_BYTES: Final = MAX_REQUEST_BYTES - 1024
"""Largest message that it writes."""

Split = Callable[[bytes, Encoding, Place, int], Parts]


class KafkaReceiver:
    """The OTLP receiver of a worker.

    Args:
        counters: gets `relayed_requests`, `dropped_records`, `dropped_metrics`, `refused_requests`, `unavailable`.
    """

    def __init__(self, settings: config.KafkaSettings, otlp: config.OtlpReceiver, counters: Counter[str]) -> None:
        self._settings = settings
        self._counters = counters
        self._producer: AIOKafkaProducer | None = None
        spans, logs = (
            partial(self._export, topic, split) for topic, split in ((OTLP_SPANS, split_spans), (OTLP_LOGS, split_logs))
        )
        self.otlp = OtlpReceiver(otlp, {"traces": spans, "logs": logs, "metrics": self._drop})

    async def start(self) -> None:
        """Connect to Kafka, then listen.

        Raises:
            UnavailableError: if Kafka does not answer.
            SpanfuseError: if an address cannot be bound.
        """
        producer = new_producer(self._settings, linger_ms=0)
        await start_client(producer, self._settings)
        self._producer = producer
        await self.otlp.start()

    async def stop(self, timeout_s: float) -> None:
        """Answer what is under way, then disconnect; nothing to do for one that has not started."""
        await self.otlp.stop(timeout_s)
        if self._producer is not None:
            await within(timeout_s, self._producer.stop())  # Kafka may be away; the clients were told to come back

    async def _drop(self, _: bytes, __: Encoding) -> ExportResult:
        self._counters["dropped_metrics"] += 1
        return ExportResult()

    async def _export(self, topic: str, split: Split, data: bytes, encoding: Encoding) -> ExportResult:
        try:
            await self._relay(topic, split, data, encoding)
        except DecodeError:
            self._counters["refused_requests"] += 1
            raise
        except UnavailableError:
            self._counters["unavailable"] += 1
            raise
        self._counters["relayed_requests"] += 1
        return ExportResult()

    async def _relay(self, topic: str, split: Split, data: bytes, encoding: Encoding) -> None:
        producer = self._producer
        if producer is None:
            raise UnavailableError("the receiver has not started")
        try:
            async with asyncio.timeout(ACK_TIMEOUT_S):
                place = _partitioner(await producer.partitions_for(topic))
                parts = await aside(len(data), split, data, encoding, place, MAX_PART_BYTES)
                self._counters["dropped_records"] += parts.left_out
                if any(len(part) > MAX_PART_BYTES for _, part in parts.found):
                    raise _too_large(data)
                sent = [
                    await producer.send(topic, part, key=trace_id.encode() or None) for trace_id, part in parts.found
                ]
                await asyncio.shield(asyncio.gather(*sent))
        except TOO_LARGE as error:
            raise _too_large(data) from error
        except (KafkaError, TimeoutError) as error:
            raise UnavailableError("Kafka does not acknowledge the request; send it again") from error


def _partitioner(partitions: Iterable[int]) -> Place:
    """Trace id → the partition that Kafka's own clients choose for it as a key, by murmur2."""
    known = sorted(partitions)
    choose = DefaultPartitioner()
    return cache(lambda trace_id: choose(trace_id.encode(), known, known))


def _too_large(data: bytes) -> DecodeError:
    return DecodeError(f"in a request of {len(data)} bytes, a single span or log record is larger than the topic takes")
