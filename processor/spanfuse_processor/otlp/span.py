"""Spans and log records as every decoder gives them, whatever the encoding they came in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

STATUS_ERROR: Final = 2
KIND_CLIENT: Final = 3


@dataclass(slots=True)
class SpanEvent:
    """Something that happened within a span."""

    name: str
    time_ns: int
    attributes: dict[str, Any]


@dataclass(slots=True)
class Span:
    """A span. Ids are lower-case hex, empty where they are missing, all zero or malformed; times are nanoseconds."""

    trace_id: str
    span_id: str
    parent_span_id: str = ""
    name: str = ""
    kind: int = 0
    """As `opentelemetry.proto.trace.v1.Span.SpanKind`: 1 internal, 2 server, 3 client, …"""
    start_ns: int = 0
    end_ns: int = 0
    attributes: dict[str, Any] = field(default_factory=dict)
    events: list[SpanEvent] = field(default_factory=list)
    status_code: int = 0
    """0 unset, 1 ok, 2 error."""
    status_message: str = ""
    scope: str = ""
    """Name of the instrumentation scope."""
    resource: dict[str, Any] = field(default_factory=dict)
    """Attributes of the resource, shared by all its spans."""
    trace_state: str = ""
    """W3C tracestate: tells how it was sampled."""


NO_SPAN: Final = Span("", "")
"""Stands for all spans without ids, whatever else they say: a request of nothing but those must not fill the memory."""


@dataclass(slots=True)
class LogRecord:
    """A log record. Ids are as those of spans, empty where it was written outside of a span."""

    trace_id: str
    span_id: str
    event_name: str = ""
    """As its own field says; older senders write it into an attribute or the body."""
    time_ns: int = 0
    """When it was written, else when it was observed, nanoseconds since the Unix epoch."""
    body: Any = None
    attributes: dict[str, Any] = field(default_factory=dict)
