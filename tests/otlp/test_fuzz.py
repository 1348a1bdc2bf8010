"""Whatever bytes come: they are read or refused, in memory that is a multiple of theirs."""

from __future__ import annotations

import contextlib
import gzip
import json
import tracemalloc
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanfuse_processor.errors import DecodeError
from spanfuse_processor.otlp.decode import Encoding, decode, decode_logs, sniff
from spanfuse_processor.otlp.inflate import TooLargeError, inflate
from spanfuse_processor.otlp.logs import Joiner
from spanfuse_processor.otlp.span import Span, SpanEvent
from spanfuse_processor.otlp.split import split_logs, split_spans
from tests.otlp import test_logs
from tests.otlp.fixtures import NOW_NS, chat, json_bytes, normaliser, protobuf_bytes, says, wrapped

MULTIPLE = 100
"""Bytes that a request may take for each of its own: `{},` among events is a dict, an event, and its own dict, of 64 each."""
BASE = 2 * 1024 * 1024
"""And for what is made with the first."""

RICH = chat(
    input=[says("hello"), says("é", "assistant")],
    output=[says("x", "assistant")],
    attributes={"list": ["a", 1, 0.5, True], "map": {"a": {"b": [1]}}},
    events=[SpanEvent("gen_ai.choice", NOW_NS, {"index": 0, "message": {"content": "x"}})],
)
LOGGED = (test_logs.asked(), test_logs.replied())
VALID: tuple[bytes, ...] = (
    protobuf_bytes(RICH, chat(id=2)),
    json_bytes(RICH, chat(id=2)),
    test_logs.protobuf_bytes(*LOGGED),
    test_logs.json_bytes(*LOGGED),
)
KEYS = (
    *("resourceSpans", "resourceLogs", "resource", "scopeSpans", "scopeLogs", "scope", "spans", "logRecords", "events"),
    *(
        "traceId",
        "spanId",
        "attributes",
        "key",
        "value",
        "body",
        "stringValue",
        "intValue",
        "arrayValue",
        "kvlistValue",
    ),
    *("values", "status", "code", "kind", "name", "eventName", "startTimeUnixNano", "bytesValue", "doubleValue"),
)


def read(data: bytes) -> None:
    """Everything that is done with bytes from outside, in both encodings."""
    encodings: tuple[Encoding, ...] = ("protobuf", "json")
    assert sniff(data) in encodings
    for encoding in encodings:
        with contextlib.suppress(DecodeError):
            spans: list[Span] = decode(data, encoding)
            normaliser().batch(spans, NOW_NS)
        with contextlib.suppress(DecodeError):
            normaliser().logs(decode_logs(data, encoding), NOW_NS)
        for split in (split_spans, split_logs):
            with contextlib.suppress(DecodeError):
                for trace_id, part in split(data, encoding, hash, 100).found:
                    assert len(trace_id) in (0, 32)
                    decode(part, encoding)
    with contextlib.suppress(DecodeError, TooLargeError):
        assert len(inflate(data, 10_000)) <= 10_000


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    read(data)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid request, in which some bytes were changed, cut out, or doubled."""
    data = bytearray(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        end = min(len(data), at + draw(st.integers(1, 8)))
        how = draw(st.sampled_from(["change", "cut", "double", "end"]))
        if how == "change":
            data[at:end] = draw(st.binary(min_size=end - at, max_size=end - at))
        elif how == "double":
            data[at:at] = data[at:end]
        elif how == "cut":
            del data[at:end]
        else:
            del data[end:]
    return bytes(data)


@settings(max_examples=500, deadline=None)
@given(mutated())
def test_a_request_that_was_damaged_is_read_or_refused(data: bytes) -> None:
    read(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10) | st.just("0" * 31 + "1"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(JSON)
def test_any_json_is_read_or_refused(found: Any) -> None:
    read(json.dumps(found).encode())
    read(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [found]}]}]}).encode())
    read(json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [found]}]}]}).encode())


def _spans(inner: bytes) -> bytes:
    return b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + inner + b"]}]}]}"


IDS = b'"traceId":"' + b"1" * 32 + b'","spanId":"' + b"2" * 16 + b'"'
COUNT = 200_000
HOSTILE = {
    "nothings": _spans(b"0," * COUNT + b"0"),
    "empty spans": _spans(b"{}," * COUNT + b"{}"),
    "empty events": _spans(b"{" + IDS + b',"events":[' + b"{}," * COUNT + b"{}]}"),
    "empty attributes": _spans(b"{" + IDS + b',"attributes":[' + b"{}," * COUNT + b"{}]}"),
    "empty values": _spans(
        b"{" + IDS + b',"attributes":[{"key":"k","value":{"arrayValue":{"values":[' + b"{}," * COUNT + b"{}]}}}]}"
    ),
    "empty groups": b'{"resourceSpans":[' + b"{}," * COUNT + b"{}]}",
    "empty scopes": b'{"resourceSpans":[{"scopeSpans":[' + b"{}," * COUNT + b"{}]}]}",
    "deep": _spans(b"[" * COUNT),
    "empty spans in protobuf": wrapped(b"\x12\x00" * COUNT, 0x12, 0x0A),
    "empty events in protobuf": wrapped(
        b"\x0a\x10" + b"1" * 16 + b"\x12\x08" + b"2" * 8 + b"\x5a\x00" * COUNT, 0x12, 0x12, 0x0A
    ),
    "empty groups in protobuf": b"\x0a\x00" * COUNT,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_request_made_to_fill_the_memory_takes_a_multiple_of_its_size(what: str) -> None:
    data = HOSTILE[what]
    encoding: Encoding = "protobuf" if what.endswith("protobuf") else "json"
    tracemalloc.start()
    try:
        with contextlib.suppress(DecodeError):
            decode(data, encoding)
        with contextlib.suppress(DecodeError):
            decode_logs(data, encoding)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < BASE + MULTIPLE * len(data)


@settings(max_examples=30, deadline=None)
@given(mutated())
def test_a_damaged_request_takes_a_multiple_of_its_size(data: bytes) -> None:
    tracemalloc.start()
    try:
        read(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < BASE + MULTIPLE * len(data)


def test_a_bomb_takes_no_more_than_its_limit() -> None:
    bomb = gzip.compress(bytes(50 * 1024 * 1024))
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError):
            inflate(bomb, 1024 * 1024)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * 1024 * 1024


def test_logs_that_never_meet_a_span_take_no_more_than_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spanfuse_processor.otlp.logs.MAX_BYTES", 1024 * 1024)
    joiner = Joiner(Counter())
    tracemalloc.start()
    try:
        for number in range(1, 400):
            joiner.logs([test_logs.asked("x" * 20_000 + str(number), id=number)], NOW_NS)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken < 3 * 1024 * 1024
