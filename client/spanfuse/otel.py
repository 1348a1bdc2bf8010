"""Spans that arrive in time and say whose they are, with the extra `otel`.

`instrument()` is all that an agent without OpenTelemetry needs besides an instrumentation of its model client. An agent that
has a tracer provider already adds `ContextSpanProcessor()` to it, or calls `instrument()`, which adds to what is there.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any, Final, Literal

from spanfuse import context
from spanfuse.context import IDENTITY
from spanfuse.fingerprints import AT_HAND, Attributes
from spanfuse.messages import FINGERPRINT_ATTRIBUTE

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
except ImportError as error:  # pragma: no cover  Proven in an interpreter without it.
    raise ImportError("spanfuse.instrument needs the extra otel: pip install 'spanfuse[otel]'") from error

Protocol = Literal["http/protobuf", "grpc"]

SCHEDULE_DELAY_MS: Final = 5
"""How long a finished span waits for others, milliseconds. OpenTelemetry's 5,000 would let a runaway agent make dozens of
calls before its loop could be seen."""
MAX_SCHEDULE_DELAY_MS: Final = 50
"""More than this is taken as this."""
QUEUE_SPANS: Final = 4096
"""Spans kept while the receiver is away; more are dropped, never waited for."""
EXPORT_TIMEOUT_S: Final = 5.0
"""Longest time one export may take, retries included, seconds."""
EXIT_S: Final = 3.0
"""Longest time the exit of the process may take to send the last spans, seconds; OpenTelemetry's 30 are a hang to users."""

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
        """Name the span's session, agent, user and team."""
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
    """Send this process's spans to spanfuse, or to a Collector in front of it.

    Makes a tracer provider and sets it as the global one, or adds to the one that is set. Spans not yet sent are sent when
    the process exits. A receiver that is away costs spans, never time. A second call changes nothing.

    Args:
        endpoint: `http://host:4318` for http/protobuf, `http://host:4317` for grpc; default
            `OTEL_EXPORTER_OTLP_ENDPOINT`, else loopback.
        protocol: default `OTEL_EXPORTER_OTLP_PROTOCOL`, else http/protobuf.
        service_name: `service.name` of a new provider; default `OTEL_SERVICE_NAME`.
        headers: sent along with each export.
        schedule_delay_ms: how long a finished span waits for others, milliseconds, 1 to 50.

    Raises:
        ImportError: without the extra `otel`.
    """
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
        provider._spanfuse_instrumented = True  # type: ignore[attr-defined]
    except Exception:
        log.warning("no spans are sent to spanfuse", exc_info=True)
    return provider if isinstance(provider, TracerProvider) else TracerProvider()


class PromptSpanProcessor(BatchSpanProcessor):
    """A batch processor whose end takes `EXIT_S` at most. A span of a call whose reply is not known yet waits for it."""

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span that has ended."""
        at_hand = AT_HAND.get() if FINGERPRINT_ATTRIBUTE in (span.attributes or {}) else None
        if at_hand is None or not at_hand.hold(lambda attributes: self._let_go(span, attributes)):
            super().on_end(span)

    def _let_go(self, span: ReadableSpan, attributes: Attributes) -> None:
        super().on_end(_with(span, attributes))

    def shutdown(self) -> None:
        """Send what is waiting, and end."""
        self._batch_processor.shutdown(timeout_millis=int(EXIT_S * 1000))


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


def _batch(exporter: SpanExporter, schedule_delay_ms: int) -> BatchSpanProcessor:
    return PromptSpanProcessor(
        exporter,
        max_queue_size=QUEUE_SPANS,
        schedule_delay_millis=min(max(1, schedule_delay_ms), MAX_SCHEDULE_DELAY_MS),
        max_export_batch_size=512,
        export_timeout_millis=EXPORT_TIMEOUT_S * 1000,
    )


def _exporter(endpoint: str | None, protocol: Protocol | None, headers: Mapping[str, str] | None) -> SpanExporter:
    spoken = protocol or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
    base = (endpoint or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or "").rstrip("/")
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
