"""Spans straight to Kafka: an exporter that needs neither a Collector nor a receiver, with the extras `kafka` and `otel`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from spanfuse.counters import SPANS_DROPPED
from spanfuse.emission.kafka_sender import MAX_MESSAGE_BYTES, KafkaSender, Message
from spanfuse_schemas.topics import OTLP_SPANS

CLOSE_S: Final = 0.5
"""How long disconnecting may take, seconds."""


class KafkaSpanExporter(SpanExporter):
    """Writes each trace of a batch as one ExportTraceServiceRequest, under its trace id, so that all of it is on one partition,
    whoever else writes the trace: Collectors and workers' receivers use the same key.

    Args:
        brokers: `host:port`, several with commas; security from `SPANFUSE_KAFKA_…`.
        timeout_s: longest time that one export may take, seconds.
    """

    def __init__(self, brokers: str | None, timeout_s: float) -> None:
        self._sender = KafkaSender(brokers)
        self._timeout_s = timeout_s
        self._sender.connect()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch; of one that arrives in part, what does not is counted here."""
        traces: defaultdict[int, list[ReadableSpan]] = defaultdict(list)
        for span in spans:
            traces[span.context.trace_id if span.context else 0].append(span)
        parts = [
            (message, number) for trace_id, group in traces.items() for message, number in _requests(trace_id, group)
        ]
        arrived = self._sender.send(OTLP_SPANS, [message for message, _ in parts], self._timeout_s)
        if not any(arrived):
            return SpanExportResult.FAILURE
        SPANS_DROPPED.add(sum(number for (_, number), there in zip(parts, arrived, strict=True) if not there))
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Disconnect."""
        self._sender.close(CLOSE_S)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing waits here."""
        return True


def _requests(trace_id: int, spans: Sequence[ReadableSpan]) -> Iterator[tuple[Message, int]]:
    """The spans of a trace as messages, each with how many it holds; halves where one would be too large."""
    data: bytes = encode_spans(spans).SerializeToString()
    if len(data) <= MAX_MESSAGE_BYTES or len(spans) == 1:
        yield (f"{trace_id:032x}".encode(), data), len(spans)
        return
    half = len(spans) // 2
    yield from _requests(trace_id, spans[:half])
    yield from _requests(trace_id, spans[half:])
