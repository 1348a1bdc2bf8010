"""OTLP straight to a worker: each request becomes a message of `otlp_spans`, and is answered when Kafka has it."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from spanfuse_processor.errors import DecodeError, UnavailableError
from spanfuse_processor.hosts.kafka import MAX_REQUEST_BYTES, new_producer, start_client, within
from spanfuse_processor.hosts.stream.outbox import TOO_LARGE
from spanfuse_processor.otlp.decode import Encoding, decode
from spanfuse_processor.otlp.receiver import ExportResult, OtlpReceiver
from spanfuse_schemas.topics import OTLP_SPANS

if TYPE_CHECKING:
    from spanfuse_processor import config

ACK_TIMEOUT_S: Final = 10.0
"""How long Kafka may take to acknowledge a request until the client is told to come back, seconds."""
LARGE_BYTES: Final = 256 * 1024
"""Requests above this, some hundred spans, are read on a thread: detection must not wait for them."""
_OVERHEAD_BYTES: Final = 1024


class KafkaReceiver:
    """The OTLP receiver of a worker.

    Args:
        counters: gets `relayed_requests`, `refused_requests`, `unavailable`.
    """

    def __init__(self, settings: config.KafkaSettings, otlp: config.OtlpReceiver, counters: Counter[str]) -> None:
        protocols = otlp.protocols
        self._settings = settings
        self._counters = counters
        self._producer: AIOKafkaProducer | None = None
        self.otlp = OtlpReceiver(
            protocols.http.endpoint if protocols.http else None,
            protocols.grpc.endpoint if protocols.grpc else None,
            self._export,
        )

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

    async def _export(self, data: bytes, encoding: Encoding) -> ExportResult:
        try:
            if len(data) > MAX_REQUEST_BYTES - _OVERHEAD_BYTES:
                raise _too_large(data)
            await self._relay(data, encoding)
        except DecodeError:
            self._counters["refused_requests"] += 1
            raise
        except UnavailableError:
            self._counters["unavailable"] += 1
            raise
        self._counters["relayed_requests"] += 1
        return ExportResult()

    async def _relay(self, data: bytes, encoding: Encoding) -> None:
        if len(data) > LARGE_BYTES:
            key = await asyncio.to_thread(_key, data, encoding)
        else:
            key = _key(data, encoding)
        try:
            await asyncio.wait_for(self._produce(key, data), ACK_TIMEOUT_S)
        except TOO_LARGE as error:
            raise _too_large(data) from error
        except (KafkaError, TimeoutError) as error:
            raise UnavailableError("Kafka does not acknowledge the spans; send them again") from error

    async def _produce(self, key: bytes | None, data: bytes) -> None:
        if self._producer is None:
            raise UnavailableError("the receiver has not started")
        await asyncio.shield(await self._producer.send(OTLP_SPANS, data, key=key))


def _too_large(data: bytes) -> DecodeError:
    return DecodeError(f"a request of {len(data)} bytes is larger than the topic takes; send smaller batches")


def _key(data: bytes, encoding: Encoding) -> bytes | None:
    """The first trace id, so that a trace stays on one partition and its children know their parents."""
    spans = decode(data, encoding)
    return spans[0].trace_id.encode("utf-8", "replace") if spans else None
