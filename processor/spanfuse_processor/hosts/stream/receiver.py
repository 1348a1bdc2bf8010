"""OTLP straight to a worker: each request becomes a message of `otlp_spans`, and is answered when Kafka has it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Final

from aiokafka.errors import KafkaError

from spanfuse_processor.errors import DecodeError, UnavailableError
from spanfuse_processor.hosts.kafka import MAX_REQUEST_BYTES, new_producer, start_client
from spanfuse_processor.otlp.decode import Encoding, decode
from spanfuse_processor.otlp.receiver import ExportResult, OtlpReceiver
from spanfuse_schemas.topics import OTLP_SPANS

if TYPE_CHECKING:
    from spanfuse_processor import config

ACK_TIMEOUT_S: Final = 10.0
"""How long Kafka may take to acknowledge a request until the client is told to come back, seconds."""
_OVERHEAD_BYTES: Final = 1024


class KafkaReceiver:
    """The OTLP receiver of a worker.

    Args:
        counters: gets `received_requests`, `refused_requests`, `unavailable_requests`.
    """

    def __init__(self, settings: config.KafkaSettings, otlp: config.OtlpReceiver, counters: Counter[str]) -> None:
        protocols = otlp.protocols
        self._settings = settings
        self._counters = counters
        self.otlp = OtlpReceiver(
            protocols.http.endpoint if protocols.http else None,
            protocols.grpc.endpoint if protocols.grpc else None,
            self._export,
        )

    async def start(self) -> None:
        """Connect to Kafka, then listen."""
        self._producer = new_producer(self._settings, linger_ms=0)
        await start_client(self._producer, self._settings)
        await self.otlp.start()

    async def stop(self, timeout_s: float) -> None:
        """Answer what is under way, then disconnect."""
        await self.otlp.stop(timeout_s)
        with contextlib.suppress(TimeoutError):  # Kafka is away; the clients were told to come back
            await asyncio.wait_for(self._producer.stop(), timeout_s)

    async def _export(self, data: bytes, encoding: Encoding) -> ExportResult:
        key = self._key(data, encoding)
        try:
            await asyncio.wait_for(self._produce(key, data), ACK_TIMEOUT_S)
        except (KafkaError, TimeoutError) as error:
            self._counters["unavailable_requests"] += 1
            raise UnavailableError("Kafka does not acknowledge the spans; send them again") from error
        self._counters["received_requests"] += 1
        return ExportResult()

    def _key(self, data: bytes, encoding: Encoding) -> bytes | None:
        """The first trace id, so that a trace stays on one partition and its children know their parents."""
        try:
            if len(data) > MAX_REQUEST_BYTES - _OVERHEAD_BYTES:
                raise DecodeError(
                    f"a request of {len(data)} bytes is larger than the topic takes; send smaller batches"
                )
            spans = decode(data, encoding)
        except DecodeError:
            self._counters["refused_requests"] += 1
            raise
        return spans[0].trace_id.encode("utf-8", "replace") if spans else None

    async def _produce(self, key: bytes | None, data: bytes) -> None:
        await asyncio.shield(await self._producer.send(OTLP_SPANS, data, key=key))
