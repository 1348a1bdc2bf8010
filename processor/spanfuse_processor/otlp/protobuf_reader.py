"""OTLP protobuf to spans and log records."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError as ProtobufError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanfuse_processor.errors import DecodeError
from spanfuse_processor.otlp.span import NO_SPAN, LogRecord, Span, SpanEvent
from spanfuse_processor.otlp.values import readable

MAX_DEPTH: Final = 32
"""Attribute values nested deeper than this are left out."""

_NO_ID: Final = ("0" * 16, "0" * 32)


def read_protobuf(data: bytes) -> list[Span]:
    """The spans of a protobuf ExportTraceServiceRequest. Text that is no UTF-8 is read with replacement characters.

    Raises:
        DecodeError: `data` is no such request.
    """
    request = parse(data, ExportTraceServiceRequest)
    return [
        _span(span, resource, scope)
        for group in request.resource_spans
        for resource in [_attributes(group.resource.attributes)]
        for scoped in group.scope_spans
        for scope in [_text(scoped.scope.name)]
        for span in scoped.spans
    ]


def read_protobuf_logs(data: bytes) -> list[LogRecord]:
    """The records of a protobuf ExportLogsServiceRequest; otherwise as `read_protobuf`.

    Raises:
        DecodeError: `data` is no such request.
    """
    request = parse(data, ExportLogsServiceRequest)
    return [
        record_of(record)
        for group in request.resource_logs
        for scoped in group.scope_logs
        for record in scoped.log_records
    ]


def parse(data: bytes, kind: type[Any]) -> Any:
    """A request of a generated class; if a text of it is no UTF-8, one of the same fields whose texts are bytes.

    Raises:
        DecodeError: `data` is no such request.
    """
    request = kind()
    try:
        request.ParseFromString(data)
    except ProtobufError:
        request = _lenient(kind.DESCRIPTOR)()
        try:
            request.ParseFromString(data)
        except ProtobufError as error:
            raise DecodeError(f"not an OTLP protobuf request: {error}") from error
    return request


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def id_of(value: bytes, size: int) -> str:
    """An id of `size` bytes as lower-case hex; empty where it is none."""
    text = value.hex() if len(value) == size else ""
    return "" if text in _NO_ID else text


def _span(span: Any, resource: dict[str, Any], scope: str) -> Span:
    trace_id, span_id = id_of(span.trace_id, 16), id_of(span.span_id, 8)
    if not trace_id or not span_id:
        return NO_SPAN
    return Span(
        trace_id,
        span_id,
        id_of(span.parent_span_id, 8),
        _text(span.name),
        span.kind,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _attributes(span.attributes),
        [SpanEvent(_text(e.name), e.time_unix_nano, _attributes(e.attributes)) for e in span.events],
        span.status.code,
        _text(span.status.message),
        scope,
        resource,
        _text(span.trace_state),
    )


def record_of(record: Any) -> LogRecord:
    """A log record."""
    return LogRecord(
        id_of(record.trace_id, 16),
        id_of(record.span_id, 8),
        _text(record.event_name),
        record.time_unix_nano or record.observed_time_unix_nano,
        _value(record.body, 0),
        _attributes(record.attributes),
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {_text(pair.key): _value(pair.value, 0) for pair in pairs}


def _value(value: Any, depth: int) -> Any:
    text = value.string_value
    if text and depth <= MAX_DEPTH:  # nearly always
        return _text(text)
    which = value.WhichOneof("value")
    if which is None or depth > MAX_DEPTH:
        return None
    if which == "string_value":
        return ""
    if which == "array_value":
        return [_value(v, depth + 1) for v in value.array_value.values]
    if which == "kvlist_value":
        return {_text(pair.key): _value(pair.value, depth + 1) for pair in value.kvlist_value.values}
    return readable(value.bytes_value) if which == "bytes_value" else getattr(value, which)


@lru_cache(maxsize=2)
def _lenient(message: Descriptor) -> type[Any]:
    """The same message with `bytes` for every `string`: protobuf refuses a whole request for one text that is no UTF-8."""
    pool = descriptor_pool.DescriptorPool()
    for file in _files(message.file):
        proto = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(proto)
        for inner in proto.message_type:
            _loosen(inner)
        pool.Add(proto)
    found: type[Any] = message_factory.GetMessageClass(pool.FindMessageTypeByName(message.full_name))
    return found


def _files(file: Any) -> list[Any]:
    """A file after those it depends on, each once."""
    found = [dependency for part in file.dependencies for dependency in _files(part)]
    return list({part.name: part for part in [*found, file]}.values())


def _loosen(message: descriptor_pb2.DescriptorProto) -> None:
    for field in message.field:
        if field.type == field.TYPE_STRING:
            field.type = field.TYPE_BYTES
    for nested in message.nested_type:
        _loosen(nested)
