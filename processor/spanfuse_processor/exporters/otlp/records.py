"""A detection as a span and as a log record of OpenTelemetry.

The span is a child of the span on which the rule fired, in its trace, so that every backend shows it beside it; it links to
that span as well. Its id follows from the detection's, so that a detection that is told twice is one span. One of a scope that
has no span is the root of a trace of its own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any, Final

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    INVALID_SPAN_CONTEXT,
    Link,
    NonRecordingSpan,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from spanfuse_processor.telemetry import DETECTIONS_SCOPE
from spanfuse_schemas import Detection

EVENT: Final = "spanfuse.detection"
"""Name of the log event."""
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_HEX: Final = re.compile(r"[0-9a-f]+")
_SEVERITY: Final = {
    "block": (SeverityNumber.ERROR, "ERROR"),
    "nudge": (SeverityNumber.INFO, "INFO"),
    "warn": (SeverityNumber.WARN, "WARN"),
}
_LEVELS: Final = {"block": "ERROR", "nudge": "DEFAULT", "warn": "WARNING"}
"""As Langfuse calls them."""


@cache
def resource() -> Resource:
    """Who says it."""
    return Resource({"service.name": "spanfuse", "service.version": version("spanfuse")})


@cache
def scope() -> InstrumentationScope:
    """By which our receivers know it, and count it as nobody's call."""
    return InstrumentationScope(DETECTIONS_SCOPE, version("spanfuse"))


def span_of(found: Detection) -> ReadableSpan:
    """The span; it begins and ends when the call ended on which the rule fired."""
    offending = context_of(found)
    trace_id = offending.trace_id if offending is not None else _number(found.id, 16)
    own = SpanContext(trace_id, _number(found.id, 8), is_remote=False, trace_flags=_SAMPLED)
    stops = found.action == "block" and found.mode != "shadow"
    return ReadableSpan(
        name=f"spanfuse {found.rule}",
        context=own,
        parent=offending,
        resource=resource(),
        attributes=attributes(found)
        | {
            "openinference.span.kind": "GUARDRAIL",
            "langfuse.observation.type": "guardrail",
            "langfuse.observation.level": _LEVELS[found.action],
            "langfuse.observation.status_message": found.message,
        },
        links=(Link(offending, {"spanfuse.link": "offending"}),) if offending is not None else (),
        status=Status(StatusCode.ERROR, found.message) if stops else Status(),
        start_time=found.at_ns,
        end_time=found.at_ns,
        instrumentation_scope=scope(),
    )


def log_of(found: Detection, observed_ns: int) -> ReadableLogRecord:
    """The log record, of the span on which the rule fired."""
    offending = context_of(found)
    number, text = _SEVERITY[found.action]
    record = LogRecord(
        timestamp=found.at_ns,
        observed_timestamp=observed_ns,
        context=set_span_in_context(NonRecordingSpan(offending or INVALID_SPAN_CONTEXT), Context()),
        severity_number=number,
        severity_text=text,
        body=found.message,
        attributes=attributes(found),
        event_name=EVENT,
    )
    return ReadableLogRecord(record, resource(), scope())


def attributes(found: Detection) -> dict[str, Any]:
    """Names and numbers; what is empty is left out."""
    evidence = found.evidence
    said: Mapping[str, Any] = {
        "spanfuse.detection.id": found.id,
        "spanfuse.rule": found.rule,
        "spanfuse.action": found.action,
        "spanfuse.mode": found.mode,
        "spanfuse.scope": found.scope,
        "spanfuse.model": found.model,
        "spanfuse.message": found.message,
        "spanfuse.conditional": found.conditional,
        "spanfuse.evidence.count": evidence.count,
        "spanfuse.evidence.threshold": evidence.threshold,
        "spanfuse.evidence.value": evidence.value,
        "spanfuse.evidence.unit": evidence.unit,
        "spanfuse.evidence.tool": evidence.tool,
        "spanfuse.evidence.first_span_id": evidence.first_span_id,
        "spanfuse.evidence.cost_usd": evidence.cost_nano_usd / 1e9,
        "session.id": found.session,
        "user.id": found.user,
        "team.id": found.team,
        "gen_ai.agent.name": found.agent,
    }
    return {name: value for name, value in said.items() if value}


def context_of(found: Detection) -> SpanContext | None:
    """The span on which the rule fired; none: there is none, or its ids are none."""
    trace_id, span_id = found.evidence.trace_id, found.evidence.last_span_id
    if len(trace_id) != 32 or len(span_id) != 16 or not _HEX.fullmatch(trace_id + span_id):
        return None
    context = SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=_SAMPLED)
    return context if context.is_valid else None


def _number(text: str, size: int) -> int:
    """An id made of a text, never 0."""
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=size, person=b"spanfuse").digest()
    return int.from_bytes(digest, "big") or 1
