"""The queue in which finished spans wait to be sent: bounded, prompt, and honest about what it had to drop."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from spanfuse.counters import SPANS_DROPPED
from spanfuse.emission import destination
from spanfuse.fingerprints import AT_HAND, Attributes
from spanfuse.reading.messages import FINGERPRINT_ATTRIBUTE

QUEUE_SPANS: Final = 4096
"""Spans kept while the receiver is away; more are dropped, never waited for."""
_SPARE: Final = 64
"""Room beyond the bound, so that threads which end spans in the same moment cannot push one out unseen."""


class Counted(SpanExporter):
    """An exporter, of which it is counted what it could not send.

    Args:
        exporter: sends the spans.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch."""
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        finally:
            if result is not SpanExportResult.SUCCESS:
                SPANS_DROPPED.add(len(spans))
        return result

    def shutdown(self) -> None:
        """Let go of connections."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """As the exporter does it."""
        return self._exporter.force_flush(timeout_millis)


class PromptSpanProcessor(BatchSpanProcessor):
    """A batch processor whose end takes `destination.EXIT_S` at most, and which counts what it drops (`SPANS_DROPPED`). A span
    of a call whose reply is not known yet waits for it.

    Args:
        exporter: sends the spans.
        queue_spans: spans that wait at most; of more the oldest are dropped.
        batch: as of `BatchSpanProcessor`: `schedule_delay_millis` and so on.
    """

    def __init__(self, exporter: SpanExporter, *, queue_spans: int = QUEUE_SPANS, **batch: Any) -> None:
        super().__init__(Counted(exporter), max_queue_size=queue_spans + _SPARE, **batch)
        self._queue_spans = queue_spans
        self._ended = False

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span that has ended."""
        at_hand = AT_HAND.get() if FINGERPRINT_ATTRIBUTE in (span.attributes or {}) else None
        if at_hand is None or not at_hand.hold(lambda attributes: self._queue(_with(span, attributes))):
            self._queue(span)

    def _queue(self, span: ReadableSpan) -> None:
        if not (span.context and span.context.trace_flags.sampled):
            return
        waiting = self._batch_processor._queue
        if self._ended:
            SPANS_DROPPED.add(1)
            return
        if len(waiting) >= self._queue_spans:
            try:
                waiting.pop()  # the oldest, which OpenTelemetry's own queue would drop without a count
                SPANS_DROPPED.add(1)
            except IndexError:  # all of them have just been sent
                pass
        super().on_end(span)

    def force_flush(self, timeout_millis: int | None = None) -> bool:
        """Send what waits; whether it was sent within the time. OpenTelemetry's own takes as long as it takes."""
        sending = threading.Thread(target=super().force_flush, name="spanfuse-flush", daemon=True)
        sending.start()
        sending.join(None if timeout_millis is None else timeout_millis / 1000)
        return not sending.is_alive()

    def shutdown(self) -> None:
        """Send what is waiting, and end."""
        self._ended = True
        self._batch_processor.shutdown(timeout_millis=int(destination.last_moments_s() * 1000))
        SPANS_DROPPED.add(len(self._batch_processor._queue))
        self._batch_processor._queue.clear()


def _with(span: ReadableSpan, attributes: Attributes) -> ReadableSpan:
    """A span that has ended, with more attributes."""
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes={**(span.attributes or {}), **attributes},
        events=span.events,
        links=span.links,
        kind=span.kind,
        status=span.status,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )
