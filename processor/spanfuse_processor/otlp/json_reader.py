"""OTLP/JSON to spans and log records. Our own reader: protobuf's JSON mapping expects ids in base64 and refuses what it does
not know.

Keys may be lowerCamelCase or snake_case, ids hex in any case (or base64), enums names or numbers, 64-bit numbers strings
or numbers; unknown fields are ignored, and a span that is no object becomes one without ids, which the normaliser counts.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import orjson

from spanfuse_processor.errors import DecodeError
from spanfuse_processor.otlp.span import NO_SPAN, LogRecord, Span, SpanEvent
from spanfuse_processor.otlp.values import readable

T = TypeVar("T")

MAX_DEPTH: Final = 32
"""Attribute values nested deeper than this are left out."""

_HEX: Final = re.compile(r"[0-9a-f]+")
_KINDS: Final = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
_STATUS: Final = {"OK": 1, "ERROR": 2}


class Keys(NamedTuple):
    """Under which keys a request has its groups, those their scopes, and those their items."""

    groups: tuple[str, str]
    scopes: tuple[str, str]
    items: tuple[str, ...]


SPANS: Final = Keys(("resourceSpans", "resource_spans"), ("scopeSpans", "scope_spans"), ("spans",))
LOGS: Final = Keys(("resourceLogs", "resource_logs"), ("scopeLogs", "scope_logs"), ("logRecords", "log_records"))


def read_json(data: bytes) -> list[Span]:
    """The spans of an OTLP/JSON ExportTraceServiceRequest.

    Raises:
        DecodeError: `data` is no such request.
    """
    return _read(data, SPANS, _span)


def read_json_logs(data: bytes) -> list[LogRecord]:
    """The records of an OTLP/JSON ExportLogsServiceRequest.

    Raises:
        DecodeError: `data` is no such request.
    """
    return _read(data, LOGS, lambda item, _, __: record_of(item))


def _read(data: bytes, keys: Keys, read: Callable[[Any, dict[str, Any], str], T]) -> list[T]:
    request = load_request(data, keys)
    return [
        read(item, resource, scope)
        for group in list_of(request, *keys.groups)
        for resource in [_attributes(_dict(get(group, "resource")))]
        for scoped in list_of(group, *keys.scopes)
        for scope in [_text(get(_dict(get(scoped, "scope")), "name"))]
        for item in list_of(scoped, *keys.items)
    ]


def load_request(data: bytes, keys: Keys) -> dict[str, Any]:
    """A request as JSON has it.

    Raises:
        DecodeError: `data` is no such request.
    """
    request = _load(data)
    if not isinstance(request, dict) or (request and not any(key in request for key in keys.groups)):
        raise DecodeError(f"not an OTLP JSON request: no object with {keys.groups[0]}")
    return request


def _load(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:  # NaN, bytes that are no UTF-8, lone surrogates, a byte order mark: others do send them
        return json.loads(data.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"not JSON: {error}") from error


def get(item: Any, *keys: str) -> Any:
    """The first of some keys that an object has."""
    if isinstance(item, dict):
        for key in keys:
            if key in item:
                return item[key]
    return None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def list_of(item: Any, *keys: str) -> list[Any]:
    """The array under the first of some keys that an object has; empty if it has none.

    Raises:
        DecodeError: it is no array.
    """
    found = get(item, *keys)
    if found is None:
        return []
    if not isinstance(found, list):
        raise DecodeError(f"not an OTLP JSON request: {keys[0]} is no array")
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _int(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return 0


def _enum(value: Any, names: Mapping[str, int]) -> int:
    """An enum by number, or by name with whatever prefix."""
    if isinstance(value, str) and not value.isdigit():
        return names.get(value.rpartition("_")[2].upper(), 0)
    return _int(value)


def id_of(value: Any, size: int) -> str:
    """An id of `size` bytes as lower-case hex."""
    if not isinstance(value, str):
        return ""
    text = value if value.isalnum() and value.islower() else value.strip().lower()
    if len(text) != 2 * size or not _HEX.fullmatch(text):
        text = _from_base64(value.strip(), size)
    return "" if not text.strip("0") else text


def _from_base64(value: str, size: int) -> str:
    if len(value) != -(-size // 3) * 4:
        return ""
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return ""
    return raw.hex() if len(raw) == size else ""


def _span(span: Any, resource: dict[str, Any], scope: str) -> Span:
    trace_id, span_id = id_of(get(span, "traceId", "trace_id"), 16), id_of(get(span, "spanId", "span_id"), 8)
    if not trace_id or not span_id:
        return NO_SPAN
    status = _dict(span.get("status"))
    return Span(
        trace_id,
        span_id,
        id_of(get(span, "parentSpanId", "parent_span_id"), 8),
        _text(span.get("name")),
        _enum(span.get("kind"), _KINDS),
        _int(get(span, "startTimeUnixNano", "start_time_unix_nano")),
        _int(get(span, "endTimeUnixNano", "end_time_unix_nano")),
        _attributes(span),
        _events(span.get("events")),
        _enum(status.get("code"), _STATUS),
        _text(status.get("message")),
        scope,
        resource,
        _text(get(span, "traceState", "trace_state")),
    )


def record_of(record: Any) -> LogRecord:
    """A log record; one without ids for what is no object."""
    if not isinstance(record, dict):
        return LogRecord("", "")
    return LogRecord(
        id_of(get(record, "traceId", "trace_id"), 16),
        id_of(get(record, "spanId", "span_id"), 8),
        _text(get(record, "eventName", "event_name")),
        _int(get(record, "timeUnixNano", "time_unix_nano"))
        or _int(get(record, "observedTimeUnixNano", "observed_time_unix_nano")),
        _value(record.get("body"), 0),
        _attributes(record),
    )


def _events(events: Any) -> list[SpanEvent]:
    if not isinstance(events, list):
        return []
    return [
        SpanEvent(_text(e.get("name")), _int(get(e, "timeUnixNano", "time_unix_nano")), _attributes(e))
        for e in events
        if isinstance(e, dict)
    ]


def _attributes(item: dict[str, Any]) -> dict[str, Any]:
    return _pairs(item.get("attributes"), 0)


def _pairs(pairs: Any, depth: int) -> dict[str, Any]:
    if not isinstance(pairs, list):
        return {}
    found: dict[str, Any] = {}
    for pair in pairs:
        if isinstance(pair, dict):
            key, value = pair.get("key"), pair.get("value")
            # Nearly every attribute is a text under a text.
            text = value.get("stringValue") if type(value) is dict and len(value) == 1 else None
            found[key if type(key) is str else _text(key)] = text if type(text) is str else _value(value, depth)
    return found


def _value(value: Any, depth: int) -> Any:
    """An AnyValue; a bare JSON scalar counts as itself."""
    if not isinstance(value, dict):
        return None if isinstance(value, list) else value
    for key, inner in value.items():
        read = _READERS.get(key)
        if read is not None:
            return read(inner, depth + 1) if depth <= MAX_DEPTH else None
    return None


def _number(value: Any, _: int) -> Any:
    """A 64-bit number that JSON may write as a string."""
    try:
        return int(value) if isinstance(value, str) else value
    except ValueError:
        return None


def _double(value: Any, _: int) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _bytes(value: Any, _: int) -> Any:
    try:
        return readable(base64.b64decode(value))
    except (binascii.Error, ValueError, TypeError):
        return None


def _array(value: Any, depth: int) -> Any:
    values = get(value, "values")
    return [_value(v, depth) for v in values] if isinstance(values, list) else []


_READERS: Final = {
    **dict.fromkeys(("stringValue", "string_value"), lambda value, _: _text(value)),
    **dict.fromkeys(("boolValue", "bool_value"), lambda value, _: value),
    **dict.fromkeys(("intValue", "int_value"), _number),
    **dict.fromkeys(("doubleValue", "double_value"), _double),
    **dict.fromkeys(("arrayValue", "array_value"), _array),
    **dict.fromkeys(("kvlistValue", "kvlist_value"), lambda value, depth: _pairs(get(value, "values"), depth)),
    **dict.fromkeys(("bytesValue", "bytes_value"), _bytes),
}
