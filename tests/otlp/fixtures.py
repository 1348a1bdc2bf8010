"""Builders of spans and OTLP requests."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanfuse_processor.core.pricing import Prices
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_processor.otlp.span import Span, SpanEvent
from spanfuse_schemas import Call

TRACE = "0af7651916cd43dd8448eb211c80319c"
NOW_NS = 1_764_000_000_000_000_000
SECOND = 1_000_000_000


def span_id(number: int) -> str:
    return f"{number:016x}"


def span(
    attributes: dict[str, Any] | None = None,
    *,
    id: int = 1,
    parent: int = 0,
    trace: str = TRACE,
    at: float = 0,
    lasts: float = 1,
    kind: int = 3,
    error: str | None = None,
    events: list[SpanEvent] | None = None,
    name: str = "chat gpt-4o-mini",
    scope: str = "test",
    resource: dict[str, Any] | None = None,
) -> Span:
    """A span that starts `at` seconds after NOW_NS and ends `lasts` seconds later."""
    start = NOW_NS + round(at * SECOND)
    return Span(
        trace,
        span_id(id),
        span_id(parent) if parent else "",
        name,
        kind,
        start,
        start + round(lasts * SECOND),
        dict(attributes or {}),
        events or [],
        0 if error is None else 2,
        error or "",
        scope,
        resource or {},
    )


def chat(*, input: Any = None, output: Any = None, id: int = 1, **more: Any) -> Span:
    """A GenAI model call; `more` are arguments of `span`, or attributes in `attributes`."""
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 10,
    }
    if input is not None:
        attributes["gen_ai.input.messages"] = input if isinstance(input, str) else json.dumps(input)
    if output is not None:
        attributes["gen_ai.output.messages"] = output if isinstance(output, str) else json.dumps(output)
    attributes |= more.pop("attributes", {})
    return span({k: v for k, v in attributes.items() if v is not None}, id=id, **more)


def says(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def normaliser() -> Normaliser:
    return Normaliser(Prices())


def calls(*spans: Span, using: Normaliser | None = None) -> tuple[Call, ...]:
    """The calls that the spans come to, received just after they ended."""
    return (using or normaliser()).batch(spans, NOW_NS + 60 * SECOND).calls


def call(found: Span, using: Normaliser | None = None) -> Call:
    (only,) = calls(found, using=using)
    return only


def any_value(value: Any) -> dict[str, Any]:
    """A value as OTLP/JSON has it."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(v) for v in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": pairs(value)}}
    return {"stringValue": value}


def pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": any_value(value)} for key, value in attributes.items()]


def as_json(found: Span) -> dict[str, Any]:
    """A span as OTLP/JSON has it."""
    return {
        "traceId": found.trace_id,
        "spanId": found.span_id,
        "parentSpanId": found.parent_span_id,
        "name": found.name,
        "kind": found.kind,
        "startTimeUnixNano": str(found.start_ns),
        "endTimeUnixNano": str(found.end_ns),
        "attributes": pairs(found.attributes),
        "events": [
            {"name": e.name, "timeUnixNano": str(e.time_ns), "attributes": pairs(e.attributes)} for e in found.events
        ],
        "status": {"code": found.status_code, "message": found.status_message},
    }


def request(*spans: Span | dict[str, Any] | Any, resource: dict[str, Any] | None = None) -> dict[str, Any]:
    """An OTLP/JSON request of spans, or of what stands in for them."""
    items = [as_json(s) if isinstance(s, Span) else s for s in spans]
    scoped = {"scope": {"name": "test"}, "spans": items}
    return {"resourceSpans": [{"resource": {"attributes": pairs(resource or {})}, "scopeSpans": [scoped]}]}


def json_bytes(*spans: Any, **options: Any) -> bytes:
    return json.dumps(request(*spans, **options)).encode()


def protobuf_bytes(*spans: Span, **options: Any) -> bytes:
    """The same in protobuf; protobuf's JSON mapping wants ids in base64."""
    import base64

    body = request(*spans, **options)
    for item in body["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for key in ("traceId", "spanId", "parentSpanId"):
            item[key] = base64.b64encode(bytes.fromhex(item[key])).decode()
    return json_format.ParseDict(body, ExportTraceServiceRequest()).SerializeToString()


def wrapped(field: bytes, *tags: int) -> bytes:
    """A protobuf field within others, the innermost first."""
    for tag in tags:
        size, length = len(field), b""
        while size > 127:
            length += bytes([size & 127 | 128])
            size >>= 7
        field = bytes([tag]) + length + bytes([size]) + field
    return field
