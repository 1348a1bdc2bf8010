"""Bytes to spans and log records: OTLP in protobuf or JSON, read as tolerantly as the wire allows."""

from __future__ import annotations

from typing import Final, Literal

from spanfuse_processor.otlp.json_reader import read_json, read_json_logs
from spanfuse_processor.otlp.protobuf_reader import read_protobuf, read_protobuf_logs
from spanfuse_processor.otlp.span import LogRecord, Span

Encoding = Literal["protobuf", "json"]

_WHITE: Final = b" \t\r\n"
_LOOK: Final = 4096


def decode(data: bytes, encoding: Encoding) -> list[Span]:
    """The spans of an ExportTraceServiceRequest.

    Raises:
        DecodeError: `data` is no such request; trying again will not help.
    """
    return read_json(data) if encoding == "json" else read_protobuf(data)


def decode_logs(data: bytes, encoding: Encoding) -> list[LogRecord]:
    """The records of an ExportLogsServiceRequest.

    Raises:
        DecodeError: `data` is no such request; trying again will not help.
    """
    return read_json_logs(data) if encoding == "json" else read_protobuf_logs(data)


def sniff(data: bytes) -> Encoding:
    """Which encoding a Kafka message has, since the Collector's exporter does not say.

    JSON begins with a brace. A protobuf request begins with the tag of its first field, 0x0A, which is also a line feed:
    so bytes that no JSON text holds decide.
    """
    head = data[:_LOOK]
    if head.removeprefix(b"\xef\xbb\xbf").lstrip(_WHITE)[:1] != b"{":
        return "protobuf"
    return "protobuf" if any(byte < 0x20 and byte not in _WHITE for byte in head) else "json"
