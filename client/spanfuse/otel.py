"""Spans that arrive in time and say whose they are, with the extra `otel`.

`instrument()` is all that an agent without OpenTelemetry needs besides an instrumentation of its model client. An agent that
has a tracer provider already adds `ContextSpanProcessor()` to it, or calls `instrument()`, which adds to what is there.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from typing import Any, Final, Literal

from spanfuse import context
from spanfuse.context import IDENTITY
from spanfuse.counters import SPANS_DROPPED
from spanfuse.emission import destination
from spanfuse.fingerprints import AT_HAND
from spanfuse.steering import progress

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

    from spanfuse.emission.span_queue import PromptSpanProcessor
except ImportError as error:  # pragma: no cover  Proven in an interpreter without it.
    raise ImportError("spanfuse.instrument needs the extra otel: pip install 'spanfuse[otel]'") from error

Protocol = Literal["http/protobuf", "grpc"]

SCHEDULE_DELAY_MS: Final = 5
"""How long a finished span waits for others, milliseconds. OpenTelemetry's 5,000 would let a runaway agent make dozens of
calls before its loop could be seen."""
MAX_SCHEDULE_DELAY_MS: Final = 50
"""More than this is taken as this."""
EXPORT_TIMEOUT_S: Final = 5.0
"""Longest time one export may take, retries included, seconds."""

ATTRIBUTES: Final[dict[str, tuple[str, ...]]] = {
    "session": ("session.id",),
    "agent": ("gen_ai.agent.name",),
    "user": ("user.id",),
    "team": ("team.id", "spanfuse.team"),
}
"""Names of the context → span attributes."""

log = logging.getLogger("spanfuse")


class ContextSpanProcessor(SpanProcessor):
    """Copies session, agent, user and team onto every span when it starts, and the fingerprints of the call at hand
    (`spanfuse.fingerprints`).

    Names come from `spanfuse.session(...)` around the code, else from the parent span, so that they reach spans which another
    thread starts under that parent. What a span says itself is left alone.
    """

    def __init__(self) -> None:
        context.trace_source = current_trace

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Name the span's session, agent, user and team, and what its agent says that it has achieved."""
        try:
            own = span.attributes or {}
            inherited = _attributes_of(trace.get_current_span(parent_context))
            identity = IDENTITY.get()
            for name, keys in ATTRIBUTES.items():
                value = getattr(identity, name)
                for key in keys:
                    found = value or inherited.get(key)
                    if found and key not in own:
                        span.set_attribute(key, found)
            achieved = progress.of(str(own.get("session.id") or identity.session or inherited.get("session.id")))
            if achieved is not None and progress.ATTRIBUTE not in own:
                span.set_attribute(progress.ATTRIBUTE, achieved)
            at_hand = AT_HAND.get()
            if at_hand is not None:
                span.set_attributes(at_hand.attributes)
        except Exception:
            log.debug("a span was left without its session", exc_info=True)


def current_trace() -> str | None:
    """Id of the current span's trace, 32 hex digits; None outside of one."""
    found = trace.get_current_span().get_span_context()
    return f"{found.trace_id:032x}" if found.is_valid else None


def _attributes_of(span: Any) -> Mapping[str, Any]:
    return (span.attributes or {}) if isinstance(span, ReadableSpan) else {}


def instrument(
    endpoint: str | None = None,
    *,
    protocol: Protocol | None = None,
    service_name: str | None = None,
    headers: Mapping[str, str] | None = None,
    schedule_delay_ms: int = SCHEDULE_DELAY_MS,
) -> TracerProvider:
    """Send this process's spans to spanfuse, to a Collector in front of it, or straight to Kafka.

    Makes a tracer provider and sets it as the global one, or adds to the one that is set. Spans not yet sent are sent when
    the process exits. A receiver that is away costs spans, never time; `dropped()` says how many. A second call changes
    nothing.

    Args:
        endpoint: `http://host:4318` for http/protobuf, `http://host:4317` for grpc; `kafka://host:9092[,host:9092]`, with
            the extra `kafka` and security as `SPANFUSE_KAFKA_…` says; default `OTEL_EXPORTER_OTLP_ENDPOINT`, else loopback.
        protocol: default `OTEL_EXPORTER_OTLP_PROTOCOL`, else http/protobuf. Kafka has its own.
        service_name: `service.name` of a new provider; default `OTEL_SERVICE_NAME`.
        headers: sent along with each export; not to Kafka.
        schedule_delay_ms: how long a finished span waits for others, milliseconds, 1 to 50.

    Raises:
        ImportError: without the extra `otel`.
    """
    destination.flush_spans = flush
    provider = trace.get_tracer_provider()
    try:
        if isinstance(provider, TracerProvider) and getattr(provider, "_spanfuse_instrumented", False):
            return provider
        if not isinstance(provider, TracerProvider):
            resource = Resource.create({"service.name": service_name} if service_name else {})
            provider = TracerProvider(resource=resource)
            trace.set_tracer_provider(provider)
        provider.add_span_processor(ContextSpanProcessor())
        provider.add_span_processor(_batch(_exporter(endpoint, protocol, headers), schedule_delay_ms))
        destination.spans_go_to(endpoint, protocol, headers)
        provider._spanfuse_instrumented = True  # type: ignore[attr-defined]
    except Exception:
        log.warning("no spans are sent to spanfuse", exc_info=True)
    return provider if isinstance(provider, TracerProvider) else TracerProvider()


def dropped() -> int:
    """Spans of this process that `instrument` could not send, so far: more than 4,096 waited, or the receiver was away or
    refused them. A batch that is given up after 5 s counts, though a slow receiver may have it."""
    return SPANS_DROPPED.value


def flush(timeout_s: float = EXPORT_TIMEOUT_S) -> bool:
    """Send the spans that wait, as before a serverless function is frozen; whether it was done within the time, seconds."""
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        return True
    deadline = time.monotonic() + timeout_s
    found = provider._active_span_processor._span_processors
    ours = [processor for processor in found if isinstance(processor, PromptSpanProcessor)]
    return all(one.force_flush(int(max(0.0, deadline - time.monotonic()) * 1000)) for one in ours)


def _batch(exporter: SpanExporter, schedule_delay_ms: int) -> PromptSpanProcessor:
    return PromptSpanProcessor(
        exporter,
        schedule_delay_millis=min(max(1, schedule_delay_ms), MAX_SCHEDULE_DELAY_MS),
        max_export_batch_size=512,
        export_timeout_millis=EXPORT_TIMEOUT_S * 1000,
    )


def _exporter(endpoint: str | None, protocol: Protocol | None, headers: Mapping[str, str] | None) -> SpanExporter:
    spoken = protocol or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
    base = (endpoint or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or "").rstrip("/")
    if base.startswith("kafka://"):
        from spanfuse.emission.kafka_spans import KafkaSpanExporter

        return KafkaSpanExporter(base.removeprefix("kafka://") or None, EXPORT_TIMEOUT_S)
    if spoken == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter

        target = base or "http://127.0.0.1:4317"
        return GrpcExporter(
            endpoint=target,
            insecure=not target.startswith("https://"),
            headers=tuple((headers or {}).items()),
            timeout=EXPORT_TIMEOUT_S,
        )
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter

    target = base or "http://127.0.0.1:4318"
    path = "" if target.endswith("/v1/traces") else "/v1/traces"
    return HttpExporter(endpoint=target + path, headers=dict(headers or {}), timeout=EXPORT_TIMEOUT_S)
