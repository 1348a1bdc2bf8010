"""A request is cut by where its traces live, and says in its parts what it said as a whole."""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any

import pytest

from spanfuse_processor.errors import DecodeError
from spanfuse_processor.otlp.decode import Encoding, decode, decode_logs
from spanfuse_processor.otlp.span import LogRecord, Span
from spanfuse_processor.otlp.split import split_logs, split_spans
from tests.otlp import test_logs
from tests.otlp.fixtures import as_json, chat, json_bytes, pairs, protobuf_bytes, request

LIMIT = 1_000_000

ENCODINGS: tuple[Encoding, ...] = ("protobuf", "json")


def trace(number: int) -> str:
    return f"{number:032x}"


def place(trace_id: str) -> Hashable:
    """Two places."""
    return int(trace_id or "0", 16) % 2


def encoded(encoding: Encoding, *spans: Span) -> bytes:
    make = json_bytes if encoding == "json" else protobuf_bytes
    return make(*spans, resource={"service.name": "shop"})


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_lives_in_one_place_stays_as_it_came(encoding: Encoding) -> None:
    data = encoded(encoding, chat(trace=trace(2), id=1), chat(trace=trace(4), id=2))
    assert split_spans(data, encoding, place, LIMIT) == ([(trace(2), data)], 0)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_traces_of_other_places_go_there_with_their_resource_and_scope(encoding: Encoding) -> None:
    spans = [chat(trace=trace(1 + i // 2), id=1 + i, input="é") for i in range(8)]
    whole = decode(encoded(encoding, *spans), encoding)
    parts = split_spans(encoded(encoding, *spans), encoding, place, LIMIT)
    assert [trace_id for trace_id, _ in parts.found] == [trace(1), trace(2)]
    found = [decode(data, encoding) for _, data in parts.found]
    assert found == [[s for s in whole if place(s.trace_id) == where] for where in (1, 0)]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_request_of_nothing_has_no_parts(encoding: Encoding) -> None:
    assert split_spans(b"{}" if encoding == "json" else b"", encoding, place, LIMIT) == ([], 0)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_spans_without_a_trace_are_handed_on_to_be_counted(encoding: Encoding) -> None:
    bad = request(chat(trace=trace(1)), {**as_json(chat()), "traceId": ""}, None if encoding == "json" else {})
    data = json.dumps(bad).encode() if encoding == "json" else protobuf_bytes(chat(trace=trace(1)), chat(trace=""))
    parts = split_spans(data, encoding, place, LIMIT)
    assert [trace_id for trace_id, _ in parts.found] == [trace(1), ""]
    assert {s.span_id for s in decode(parts.found[1][1], encoding)} == {""}


def test_texts_that_are_no_utf8_survive_the_cut() -> None:
    data = protobuf_bytes(chat(trace=trace(1), input="~~~"), chat(trace=trace(2))).replace(b"~~~", b"\xff\xfe!")
    parts = split_spans(data, "protobuf", place, LIMIT)
    assert b"\xff\xfe!" in parts.found[0][1]


def test_numbers_that_json_has_not_survive_the_cut() -> None:
    """Some writers write NaN, Infinity, and integers of any size."""
    spans = [
        as_json(chat(trace=trace(n), id=n)) | {"droppedLinksCount": -(2**80), "flags": float("inf")} for n in (1, 2)
    ]
    data = json.dumps(request(*spans)).encode()
    parts = split_spans(data, "json", place, LIMIT)
    assert [len(decode(part, "json")) for _, part in parts.found] == [1, 1]
    assert all(str(2**80) in part.decode() for _, part in parts.found)


def test_snake_case_is_cut_too() -> None:
    spans = [as_json(chat(trace=trace(i), id=i)) for i in (1, 2)]
    body = {"resource_spans": [{"resource": {"attributes": pairs({"k": 1})}, "scope_spans": [{"spans": spans}]}]}
    parts = split_spans(json.dumps(body).encode(), "json", place, LIMIT)
    found = [decode(data, "json") for _, data in parts.found]
    assert [[s.span_id[-1] for s in group] for group in found] == [["1"], ["2"]]
    assert found[1][0].resource == {"k": 1}


@pytest.mark.parametrize("data", [b"{", b"\xff\xff", b'{"resourceSpans": 5}'])
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("split", [split_spans, split_logs])
def test_what_is_no_request_is_refused(split: Any, encoding: Encoding, data: bytes) -> None:
    with pytest.raises(DecodeError):
        split(data, encoding, place, LIMIT)


def logged(encoding: Encoding, *records: LogRecord) -> bytes:
    return test_logs.json_bytes(*records) if encoding == "json" else test_logs.protobuf_bytes(*records)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_log_records_that_are_no_content_of_a_span_are_left_out(encoding: Encoding) -> None:
    mine, other = test_logs.asked(), test_logs.asked()
    other.trace_id = trace(2)
    loose = LogRecord("", "", "gen_ai.choice", 1, {"content": "x"}, {})
    data = logged(encoding, mine, test_logs.record("http.request", "x"), other, loose)
    parts = split_logs(data, encoding, place, LIMIT)
    assert parts.left_out == 2
    assert [decode_logs(part, encoding) for _, part in parts.found] == (
        [[mine, other]] if place(mine.trace_id) == place(other.trace_id) else [[mine], [other]]
    )
    assert split_logs(logged(encoding, loose), encoding, place, LIMIT) == ([], 1)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_would_be_too_large_goes_in_several_parts_in_order(encoding: Encoding) -> None:
    spans = [chat(trace=trace(2), id=n, input="x" * 1000) for n in range(1, 30)]
    data = encoded(encoding, *spans)
    parts = split_spans(data, encoding, place, 10_000).found
    assert max(len(part) for _, part in parts) <= 10_000
    assert {trace_id for trace_id, _ in parts} == {trace(2)}
    assert [span for _, part in parts for span in decode(part, encoding)] == decode(data, encoding)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_single_span_is_not_cut(encoding: Encoding) -> None:
    parts = split_spans(encoded(encoding, chat(trace=trace(2), input="x" * 1000)), encoding, place, 100).found
    assert len(parts) == 1
