"""Bytes to spans: both encodings say the same, what can be read is read, the rest is refused and never crashes."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanfuse_processor.errors import DecodeError
from spanfuse_processor.otlp.decode import decode, sniff
from spanfuse_processor.otlp.span import Span, SpanEvent
from tests.otlp.fixtures import NOW_NS, TRACE, as_json, call, chat, json_bytes, protobuf_bytes, says, span

RICH = {"text": "é\n", "int": 2**53 + 1, "float": 0.5, "yes": True, "list": ["a", 1], "map": {"a": {"b": [1.5]}}}


def rich() -> Span:
    return span(RICH, parent=7, error="boom", events=[SpanEvent("exception", NOW_NS + 5, {"exception.type": "E"})])


def one(data: bytes) -> Span:
    (only,) = decode(data, sniff(data))
    return only


def test_text_that_was_sent_as_bytes_is_text() -> None:
    """As LangSmith sends what a run was given and brought."""
    known = {"text": b'{"a": 1}', "binary": b"\xff\xfe"}
    values = [{"key": key, "value": {"bytesValue": base64.b64encode(value).decode()}} for key, value in known.items()]
    found = one(json_bytes(as_json(span()) | {"attributes": values}))
    assert found.attributes == {"text": '{"a": 1}', "binary": b"\xff\xfe"}
    sent = ExportTraceServiceRequest.FromString(protobuf_bytes(span()))
    for key, value in known.items():
        sent.resource_spans[0].scope_spans[0].spans[0].attributes.add(key=key).value.bytes_value = value
    assert one(sent.SerializeToString()).attributes == found.attributes


def test_protobuf_and_json_give_the_same_span() -> None:
    by_json, by_protobuf = one(json_bytes(rich(), resource={"k": 1})), one(protobuf_bytes(rich(), resource={"k": 1}))
    assert by_json == by_protobuf
    assert by_json.attributes == RICH
    assert (by_json.resource, by_json.scope, by_json.status_code) == ({"k": 1}, "test", 2)


@pytest.mark.parametrize(
    "ids",
    [
        {"traceId": TRACE.upper(), "spanId": "00F067AA0BA902B7"},
        {"trace_id": TRACE, "span_id": "00f067aa0ba902b7"},
        {
            "traceId": base64.b64encode(bytes.fromhex(TRACE)).decode(),
            "spanId": base64.b64encode(bytes.fromhex("00f067aa0ba902b7")).decode(),
        },
    ],
)
def test_ids_are_hex_of_any_case_or_base64(ids: dict[str, str]) -> None:
    found = one(json_bytes(ids))
    assert (found.trace_id, found.span_id) == (TRACE, "00f067aa0ba902b7")


@pytest.mark.parametrize("bad", ["", "0" * 32, "xyz", "0af7", None, 5, [], TRACE + "00"])
def test_an_id_that_is_none_is_empty(bad: Any) -> None:
    assert one(json_bytes({"traceId": bad, "spanId": "00f067aa0ba902b7"})).trace_id == ""


def test_enums_and_numbers_may_be_names_or_text() -> None:
    body = as_json(span())
    named = body | {"kind": "SPAN_KIND_CLIENT", "status": {"code": "STATUS_CODE_ERROR"}, "startTimeUnixNano": 5}
    found = one(json_bytes(named))
    assert (found.kind, found.status_code, found.start_ns) == (3, 2, 5)
    assert one(json_bytes(body | {"kind": "3"})).kind == 3
    assert one(json_bytes(body | {"kind": "HUH", "startTimeUnixNano": "x"})).kind == 0


def test_snake_case_is_read_and_unknown_fields_are_ignored() -> None:
    body = {
        "resource_spans": [
            {
                "resource": {"attributes": [{"key": "k", "value": {"string_value": "v"}}], "new": 1},
                "scope_spans": [
                    {
                        "scope": {"name": "s"},
                        "spans": [
                            {
                                "trace_id": TRACE,
                                "span_id": "1111111111111111",
                                "start_time_unix_nano": "1",
                                "end_time_unix_nano": "2",
                                "attributes": [{"key": "n", "value": {"int_value": "7"}}],
                                "what": [{}],
                            }
                        ],
                    }
                ],
            }
        ],
        "later": {},
    }
    found = one(json.dumps(body).encode())
    assert (found.end_ns, found.attributes, found.resource) == (2, {"n": 7}, {"k": "v"})


def test_what_is_no_span_is_a_span_without_ids_and_its_neighbours_live() -> None:
    found = decode(json_bytes(None, 5, "x", {}, rich()), "json")
    assert [s.span_id for s in found] == ["", "", "", "", rich().span_id]


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b"null",
        b"5",
        b'{"resourceLogs": []}',
        b'{"resourceSpans": {}}',
        b'{"resourceSpans": [{"scopeSpans": 5}]}',
        b"",
        b"\xff\xfe\x00",
        b'{"resourceSpans": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_json_that_is_no_request_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(data, "json")


@pytest.mark.parametrize("data", [b"garbage", b"\x00\x01\x02", b"\xff" * 100, b'{"resourceSpans": []}', b"\x0a\xff"])
def test_bytes_that_are_no_request_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(data, "protobuf")


def test_an_empty_request_has_no_spans() -> None:
    assert decode(b"", "protobuf") == []
    assert decode(b"{}", "json") == []
    assert decode(b'{"resourceSpans": [{}]}', "json") == []


@pytest.mark.parametrize("size", [90, 123, 2000])
def test_the_encoding_is_told_by_the_bytes(size: int) -> None:
    """A protobuf request may begin with a line feed and a brace: its first field's tag and a length of 123 bytes."""
    text = json_bytes(rich())
    for data in (text, b"\n" + text, b"\r\n \t" + text, b"\xef\xbb\xbf" + text):
        assert sniff(data) == "json"
    request = ExportTraceServiceRequest()
    scoped = request.resource_spans.add().scope_spans.add()
    scoped.spans.add(trace_id=b"1" * 16, span_id=b"2" * 8)
    scoped.scope.name = "x" * (size - request.resource_spans[0].ByteSize() - (2 if size < 128 else 3))
    assert sniff(request.SerializeToString()) == "protobuf"
    assert sniff(b"") == "protobuf"


def test_text_that_is_no_utf8_does_not_lose_the_request() -> None:
    good = protobuf_bytes(chat(input=[says("hello ~~~")]), rich())
    found = decode(good.replace(b"~~~", b"\xff\xfe!"), "protobuf")
    assert len(found) == 2
    assert call(found[0]).input is not None
    assert len(decode(json_bytes(rich()).replace(b"boom", b"\xff\xfe"), "json")) == 1


def test_nan_and_infinity_in_json_are_read() -> None:
    data = json_bytes(span({"a": 1.0})).replace(b"1.0", b"NaN")
    assert math.isnan(one(data).attributes["a"])
    quoted = json_bytes(span({"a": 1.0})).replace(b"1.0", b'"Infinity"')
    assert math.isinf(one(quoted).attributes["a"])


def test_values_nested_beyond_reason_are_left_out() -> None:
    value: Any = {"stringValue": "x"}
    for _ in range(200):
        value = {"arrayValue": {"values": [value]}}
    body = as_json(span({"good": "yes"}))
    body["attributes"].append({"key": "deep", "value": value})
    assert one(json_bytes(body)).attributes["good"] == "yes"


def test_an_attribute_of_5_mb_is_read() -> None:
    big = "x" * (5 * 1024 * 1024)
    for data in (json_bytes(span({"big": big})), protobuf_bytes(span({"big": big}))):
        assert len(one(data).attributes["big"]) == len(big)
