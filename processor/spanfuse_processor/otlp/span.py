"""A span as every decoder gives it, whatever the encoding it came in."""

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
