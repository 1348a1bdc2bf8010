"""Content that comes as log records finds its span, whichever comes first; nothing waits for it, and nothing grows for ever."""

from __future__ import annotations

import base64
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from spanfuse_processor.errors import DecodeError
from spanfuse_processor.otlp import logs as joining
from spanfuse_processor.otlp.decode import decode, decode_logs
from spanfuse_processor.otlp.logs import PART_WAIT_NS, WAIT_NS, Joiner, content_name, event_of
from spanfuse_processor.otlp.shelf import Shelf, weight
from spanfuse_processor.otlp.span import LogRecord, Span
from spanfuse_schemas import Call
from tests.otlp.fixtures import NOW_NS, TRACE, any_value, chat, normaliser, pairs, span_id

CAPTURES = Path(os.environ.get("SPANFUSE_CAPTURES", Path(__file__).parents[3] / "shared" / "captures"))


def record(name: str, body: Any = None, *, id: int = 1, at: int = 0, **attributes: Any) -> LogRecord:
    return LogRecord(TRACE, span_id(id), name, NOW_NS + at, body, attributes)


def asked(text: str = "hello", id: int = 1) -> LogRecord:
    return record("gen_ai.user.message", {"content": text}, id=id)


def replied(text: str = "hi", id: int = 1) -> LogRecord:
    return record("gen_ai.choice", {"index": 0, "message": {"content": text}}, id=id, at=5)


def as_json(found: LogRecord, **more: Any) -> dict[str, Any]:
    return {
        "traceId": found.trace_id,
        "spanId": found.span_id,
        "eventName": found.event_name,
        "timeUnixNano": str(found.time_ns),
        "body": any_value(found.body),
        "attributes": pairs(found.attributes),
        **more,
    }


def request(*items: Any) -> dict[str, Any]:
    return {"resourceLogs": [{"resource": {}, "scopeLogs": [{"scope": {"name": "x"}, "logRecords": list(items)}]}]}


def json_bytes(*items: Any) -> bytes:
    return json.dumps(request(*(as_json(i) if isinstance(i, LogRecord) else i for i in items))).encode()


def protobuf_bytes(*records: LogRecord) -> bytes:
    items = [as_json(found) for found in records]
    for item in items:
        for key in ("traceId", "spanId"):
            item[key] = base64.b64encode(bytes.fromhex(item[key])).decode()
    return json_format.ParseDict(request(*items), ExportLogsServiceRequest()).SerializeToString()


def joiner() -> tuple[Joiner, Counter[str]]:
    counters: Counter[str] = Counter()
    return Joiner(counters), counters


def test_protobuf_and_json_give_the_same_records() -> None:
    rich = record("gen_ai.choice", {"message": {"content": "é"}, "index": 0}, kind="x", n=3)
    assert decode_logs(json_bytes(rich), "json") == decode_logs(protobuf_bytes(rich), "protobuf") == [rich]


def test_records_are_read_as_tolerantly_as_spans() -> None:
    loose = {
        "trace_id": TRACE.upper(),
        "span_id": span_id(1),
        "observed_time_unix_nano": 7,
        "body": {"string_value": "x"},
        "event_name": "e",
        "new": {},
    }
    found = decode_logs(json_bytes(None, 5, {}, loose), "json")
    assert found[:3] == [LogRecord("", "")] * 3
    assert found[3] == LogRecord(TRACE, span_id(1), "e", 7, "x", {})
    broken = protobuf_bytes(asked("~~~")).replace(b"~~~", b"\xff\xfe!")
    assert decode_logs(broken, "protobuf")[0].body == {"content": "\ufffd\ufffd!"}


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"resourceSpans": []}', b'{"resourceLogs": 5}', b"\xff\xfe"])
def test_what_is_no_logs_request_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_logs(data, "json")
    with pytest.raises(DecodeError):
        decode_logs(b"\xff" * 9, "protobuf")


@pytest.mark.parametrize(
    "found",
    [
        LogRecord(TRACE, span_id(1), "gen_ai.choice", attributes={"content": "x"}),
        LogRecord(TRACE, span_id(1), attributes={"event.name": "gen_ai.choice", "content": "x"}),
        LogRecord(TRACE, span_id(1), attributes={"event_name": "gen_ai.choice", "content": "x"}),
        LogRecord(TRACE, span_id(1), body="gen_ai.choice", attributes={"content": "x"}),
        LogRecord(TRACE, span_id(1), body={"event.name": "gen_ai.choice", "content": "x"}),
        LogRecord(TRACE, span_id(1), "other", attributes={"event.name": "gen_ai.choice", "content": "x"}),
    ],
)
def test_the_name_of_an_event_is_found_where_each_convention_has_put_it(found: LogRecord) -> None:
    assert content_name(found) == "gen_ai.choice"


CALLED = {"id": "call_1", "type": "function", "function": {"name": "get_weather"}}


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("gen_ai.user.message", None),
        ("gen_ai.user.message", {"content": "<elided>"}),
        ("gen_ai.user.message", "gen_ai.user.message"),
        ("gen_ai.tool.message", {"id": "call_1"}),
        ("gen_ai.assistant.message", {"tool_calls": [CALLED]}),
        ("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": {"role": "assistant"}}),
        ("gen_ai.choice", {"index": 0, "message": {"role": "assistant", "tool_calls": [CALLED]}}),
        ("gen_ai.client.inference.operation.details", {"gen_ai.request.model": "gpt-4o"}),
    ],
)
def test_an_event_without_its_content_is_none(name: str, body: Any) -> None:
    """Instrumentation that may not capture content logs the events all the same: all questions would look alike."""
    found = record(name, body)
    found.attributes["gen_ai.system"] = "openai"
    assert content_name(found) == ""


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("gen_ai.user.message", {"content": [{"type": "text", "text": "x"}]}),
        ("gen_ai.tool.message", {"id": "call_1", "content": ""}),
        ("gen_ai.assistant.message", {"tool_calls": [CALLED | {"function": {"name": "f", "arguments": "{}"}}]}),
        ("gen_ai.choice", '{"message": {"role": "assistant", "content": "x"}}'),
        ("gen_ai.client.inference.operation.details", {"gen_ai.output.messages": "[]"}),
    ],
)
def test_an_event_has_content_in_whichever_form(name: str, body: Any) -> None:
    assert content_name(record(name, body)) == name


def test_events_on_a_span_without_their_content_are_no_content() -> None:
    """Two questions that nobody may see are not the same question."""
    events = [
        event_of(found, found.event_name) for found in (record("gen_ai.user.message"), record("gen_ai.choice", {}))
    ]
    (call,) = normaliser().batch([chat(events=events)], NOW_NS).calls
    assert (call.content, call.input, call.action) == ("structure", None, None)


def test_claude_code_names_its_events_without_their_prefix() -> None:
    found = LogRecord("", "", body="claude_code.api_request", attributes={"event.name": "api_request", "cost_usd": 0.1})
    assert content_name(found) == "claude_code.api_request"
    assert content_name(LogRecord("", "", body="a line of text", attributes={"event.name": 5})) == ""


@pytest.mark.parametrize(
    ("body", "attributes"),
    [
        ({"content": "x"}, {"k": 1, "content": "x"}),
        ('{"content": "x"}', {"k": 1, "content": "x"}),
        ("plain", {"k": 1, "body": "plain"}),
        ("{no json", {"k": 1, "body": "{no json"}),
        ('{"city": "Paris"}', {"k": 1, "body": '{"city": "Paris"}'}),
        (["a"], {"k": 1, "body": ["a"]}),
        (None, {"k": 1}),
    ],
)
def test_an_event_says_what_body_and_attributes_say(body: Any, attributes: dict[str, Any]) -> None:
    assert event_of(record("gen_ai.user.message", body, k=1), "e").attributes == attributes


def test_content_that_came_before_its_span_is_on_it_when_it_is_read() -> None:
    found, counters = joiner()
    assert found.logs([replied(), asked()], NOW_NS) == []
    other, mine = chat(id=2), chat(id=1)
    assert found.spans([other, mine], NOW_NS) == [other, mine]
    assert [event.name for event in mine.events] == ["gen_ai.user.message", "gen_ai.choice"]
    assert other.events == []
    assert counters == {"logs_joined": 2}


def test_content_that_comes_after_its_span_gives_the_span_once_more() -> None:
    found, _ = joiner()
    mine = chat()
    found.wants(mine, NOW_NS)
    assert found.logs([asked(), replied(), asked(id=2)], NOW_NS) == [mine]
    assert len(mine.events) == 2
    assert found.logs([asked(), replied()], NOW_NS) == []


@pytest.mark.parametrize("reply_first", [False, True])
def test_a_span_whose_reply_or_input_is_still_to_come_is_read_once_and_with_all_of_it(reply_first: bool) -> None:
    """A reply overtakes its input where each record is a request of its own."""
    found, _ = joiner()
    mine = chat()
    first, second = (replied(), asked()) if reply_first else (asked(), replied())
    found.logs([first], NOW_NS)
    assert found.spans([mine], NOW_NS) == [mine]
    assert mine.events == []
    found.wants(mine, NOW_NS)
    assert found.logs([second], NOW_NS) == [mine]
    assert [event.name for event in mine.events] == ["gen_ai.user.message", "gen_ai.choice"]


@pytest.mark.parametrize("part", ["input", "reply"])
@pytest.mark.parametrize("first", ["span", "logs"])
def test_the_part_that_never_comes_is_waited_for_some_seconds(first: str, part: str) -> None:
    found, _ = joiner()
    mine, logged = chat(), asked() if part == "input" else replied()
    if first == "span":
        found.wants(mine, NOW_NS)
        found.logs([logged], NOW_NS)
    else:
        found.logs([logged], NOW_NS)
        found.spans([mine], NOW_NS)
        found.wants(mine, NOW_NS)
    assert found.logs([asked(id=9)], NOW_NS + PART_WAIT_NS) == []
    assert found.spans([], NOW_NS + PART_WAIT_NS + 1) == [mine]
    assert len(mine.events) == 1


def test_a_failed_call_has_no_reply_to_wait_for() -> None:
    found, _ = joiner()
    mine = chat(error="boom")
    found.wants(mine, NOW_NS)
    assert found.logs([asked()], NOW_NS) == [mine]


def test_what_is_sent_twice_is_one_message() -> None:
    found, _ = joiner()
    mine = chat()
    found.logs([asked(), replied()], NOW_NS)
    found.logs([asked(), replied()], NOW_NS)
    found.spans([mine], NOW_NS)
    assert len(mine.events) == 2


def test_logs_of_other_things_and_outside_of_spans_are_counted_and_dropped() -> None:
    found, counters = joiner()
    loose = LogRecord("", "", "gen_ai.choice", NOW_NS, {"content": "x"}, {})
    assert found.logs([record("http.request"), record("", "a line"), loose], NOW_NS) == []
    assert counters == {"logs_other": 2, "logs_loose": 1}


def test_content_whose_span_never_comes_is_dropped_and_counted_once_spans_are_past_it() -> None:
    """Logs wait for spans: where spans are behind, as when a worker catches up, the logs' own progress drops nothing."""
    found, counters = joiner()
    found.logs([asked()], NOW_NS)
    found.logs([asked(id=2)], NOW_NS + 2 * WAIT_NS)
    assert counters["logs_unmatched"] == 0
    found.spans([], NOW_NS + WAIT_NS + 1)
    found.logs([asked(id=3)], NOW_NS + 2 * WAIT_NS)
    assert counters["logs_unmatched"] == 1


def test_content_that_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "MAX_BYTES", 100_000)
    found, counters = joiner()
    for number in range(1, 200):
        found.logs([asked("x" * 1000, id=number)], NOW_NS)
    assert 0 < len(found._content) < 60
    assert counters["logs_unmatched"] == 199 - len(found._content)
    last = chat(id=199)
    found.logs([replied(id=199)], NOW_NS)
    found.spans([last], NOW_NS)
    assert len(last.events) == 2


def test_spans_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "MAX_SPANS_BYTES", 100_000)
    found, _ = joiner()
    for number in range(1, 1000):
        found.wants(chat(id=number), NOW_NS)
    assert 0 < len(found._wanting) < 100
    assert found.logs([asked(id=1), replied(id=1)], NOW_NS) == []
    assert len(found.logs([asked(id=999), replied(id=999)], NOW_NS)) == 1


def test_a_shelf_keeps_turns_and_sizes() -> None:
    shelf: Shelf[str, int] = Shelf(10_000, 3)
    for at, key in enumerate("abc"):
        assert shelf.put(key, at, 10, at) == []
    assert shelf.put("a", 9, 20, 99) == []
    assert shelf.put("d", 3, 10, 3) == [("a", 9)]
    assert shelf.expire(2) == [("b", 1)]
    assert (shelf.pop("c"), shelf.pop("c"), len(shelf), "d" in shelf) == (2, None, 1, True)
    assert shelf.put("e", 4, 20_000, 4) == [("d", 3), ("e", 4)]
    assert len(shelf) == 0


def test_values_weigh_about_what_they_take() -> None:
    text = "x" * 10_000
    assert 10_000 < weight({"a": [text], "b": None, "c": 5}) < 11_000


@pytest.mark.parametrize("logs_first", [True, False])
def test_a_call_has_the_content_that_its_logs_say_and_is_the_same_call(logs_first: bool) -> None:
    using = normaliser()
    records = [asked(), replied()]
    if logs_first:
        assert using.logs(records, NOW_NS).calls == ()
        (call,) = using.batch([chat()], NOW_NS).calls
    else:
        (before,) = using.batch([chat()], NOW_NS).calls
        assert before.content == "structure"
        (call,) = using.logs(records, NOW_NS).calls
        assert (call.span_id, call.tokens, call.end_ns) == (before.span_id, before.tokens, before.end_ns)
    assert call.content == "content"
    assert call.input is not None
    assert call.action


def test_spans_that_have_their_content_are_not_kept() -> None:
    using = normaliser()
    assert using.batch([chat(input="hello", output="hi")], NOW_NS).calls
    assert using.logs([asked(), replied()], NOW_NS).calls == ()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 4), st.lists(st.integers(0, 3), max_size=3), st.lists(st.booleans(), min_size=6, max_size=6))
def test_however_logs_and_spans_are_batched_a_call_comes_to_the_same(
    at: int, again: list[int], cuts: list[bool]
) -> None:
    """Logs of one sender come in their order, in any number of requests, some twice, the span before, among or after."""
    said = [
        record("gen_ai.system.message", {"content": "be brief"}, at=1),
        record("gen_ai.user.message", {"content": "hello"}, at=2),
        record("gen_ai.user.message", {"content": "well?"}, at=3),
        record("gen_ai.choice", {"message": {"content": "hi"}}, at=4),
    ]
    whole = normaliser()
    whole.logs(said, NOW_NS)
    (expected,) = whole.batch([chat()], NOW_NS).calls
    using = normaliser()
    found: list[Call] = []
    batch: list[LogRecord] = []
    for place, cut in zip(range(len(said) + 1), [*cuts, True], strict=False):
        if place == at or cut:
            found += using.logs(batch, NOW_NS).calls
            batch = []
        if place == at:
            found += using.batch([chat()], NOW_NS).calls
        batch += said[place : place + 1]
        batch += [said[n] for n in again if n < place]
    found += using.logs(batch, NOW_NS).calls
    assert found[-1] == expected
    assert {call.content for call in found[:-1]} <= {"structure"}


def _captured(folder: str, scenario: str, encoding: Any) -> tuple[list[Span], list[LogRecord]]:
    suffix = "bin" if encoding == "protobuf" else "json"
    traces, logs = (CAPTURES / folder / f"{scenario}.{kind}.{suffix}" for kind in ("traces", "logs"))
    return decode(traces.read_bytes(), encoding), decode_logs(logs.read_bytes(), encoding)


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="no captures here")
@pytest.mark.parametrize("encoding", ["protobuf", "json"])
@pytest.mark.parametrize("logs_first", [True, False])
@pytest.mark.parametrize("scenario", ["chat", "tools", "session", "stream", "error"])
def test_a_real_instrumentation_that_logs_its_content_has_it_on_every_call(
    scenario: str, logs_first: bool, encoding: Any
) -> None:
    spans, records = _captured("openai_v2_events", scenario, encoding)
    using = normaliser()
    if logs_first:
        using.logs(records, NOW_NS)
        calls = using.batch(spans, NOW_NS).calls
    else:
        counted = {call.span_id for call in using.batch(spans, NOW_NS).calls if call.kind == "llm"}
        calls = using.logs(records, NOW_NS).calls
        assert {call.span_id for call in calls} == counted
    assert {call.content for call in calls} == {"content"}
    assert using.counters["logs_joined"] == len(records)
