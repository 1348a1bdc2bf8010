"""Spans to calls: what is counted, as whose, and with which fingerprints."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanfuse.reading.messages import Prints, new_input, read_messages
from spanfuse.reading.texts import print_of
from spanfuse_processor.otlp.span import Span, SpanEvent
from spanfuse_schemas import Action, Call, Message
from spanfuse_schemas.fingerprint import action_print, fingerprint
from tests.otlp.fixtures import NOW_NS, SECOND, TRACE, call, calls, chat, normaliser, says, span

ASK = [says("Be brief.", "system"), says("How warm is Paris?")]
ACT = {"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Paris"}}
ACTED = [{"role": "assistant", "parts": [ACT], "finish_reason": "tool_call"}]
HEARD = [*ASK, *ACTED, {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "18"}]}]


def tool(attributes: dict[str, Any] | None = None, **more: Any) -> Span:
    base = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather", "gen_ai.tool.call.id": "c1"}
    return span(base | (attributes or {}), kind=1, name="execute_tool weather", **more)


def test_a_model_call_is_read_whole() -> None:
    found = call(
        chat(
            input=HEARD,
            output=[says("18 degrees.", "assistant")],
            attributes={
                "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
                "gen_ai.response.finish_reasons": ["stop"],
                "gen_ai.response.time_to_first_chunk": 0.25,
                "gen_ai.conversation.id": "s-1",
                "gen_ai.agent.name": "guide",
                "user.id": "u-1",
                "team.id": "t-1",
            },
        )
    )
    assert found.model_dump(exclude={"answers", "action", "input", "wording"}) == {
        "v": 1,
        "kind": "llm",
        "trace_id": TRACE,
        "span_id": "0000000000000001",
        "parent_span_id": "",
        "start_ns": NOW_NS,
        "end_ns": NOW_NS + SECOND,
        "session": "s-1",
        "session_source": "explicit",
        "agent": "guide",
        "user": "u-1",
        "team": "t-1",
        "operation": "chat",
        "provider": "openai",
        "model": "gpt-4o-mini-2024-07-18",
        "tokens": {"input": 100, "output": 10, "cache_read": 0, "cache_write": 0, "reasoning": 0},
        "usage_estimated": False,
        "cost_nano_usd": 100 * 150 + 10 * 600,
        "cost_source": "computed",
        "finish_reason": "stop",
        "error_type": "",
        "error_class": "",
        "ttft_ns": SECOND // 4,
        "response": "",
        "repeats": "",
        "progress": None,
        "content": "content",
        "history": 3,
        "system": "",
        "failed": False,
        "restates": False,
        "echoes": False,
        "spoken": False,
        "fields": "",
        "meaning": "",
        "asks": "",
        "answered": ("weather",),
        "called": (),
        "output": None,
        "drift": None,
    }


def test_its_fingerprints_are_those_that_the_guard_computes() -> None:
    found = call(chat(input=HEARD, output=ACTED))
    read = read_messages(HEARD)
    assert (found.input, found.answers) == (new_input(HEARD), read.answers)
    assert found.answered == tuple(a.tool for a in read.prior)
    assert (found.action, found.called) == (read_messages(HEARD[:3]).answers, ("weather",))
    assert found.action == found.answers


def test_no_text_of_the_span_is_in_the_call() -> None:
    """The promise on which everything downstream rests."""
    secret = "correct horse battery staple"
    spans = [
        chat(
            input=[says(secret)], output=[says(secret, "assistant")], attributes={"gen_ai.system_instructions": secret}
        ),
        tool({"gen_ai.tool.call.arguments": secret, "gen_ai.tool.call.result": secret}, id=2),
        tool({"gen_ai.tool.call.arguments": secret}, id=3, error=secret),
    ]
    for found in calls(*spans):
        assert "horse" not in found.model_dump_json()


@pytest.mark.parametrize(
    ("attributes", "kind", "counted"),
    [
        ({"gen_ai.operation.name": "chat"}, "llm", ""),
        ({"gen_ai.operation.name": "embeddings"}, "llm", ""),
        ({"gen_ai.operation.name": "execute_tool"}, "tool", ""),
        ({"gen_ai.system": "openai", "gen_ai.request.model": "gpt-4"}, "llm", ""),
        ({"gen_ai.operation.name": "invoke_agent"}, "", "agent"),
        ({"gen_ai.operation.name": "invoke_workflow"}, "", "agent"),
        ({"gen_ai.operation.name": "something_new"}, "", "other"),
        ({"http.request.method": "GET"}, "", "other"),
        ({}, "", "other"),
        ({"openinference.span.kind": "LLM"}, "llm", ""),
        ({"openinference.span.kind": "EMBEDDING"}, "llm", ""),
        ({"openinference.span.kind": "TOOL"}, "tool", ""),
        ({"openinference.span.kind": "CHAIN", "gen_ai.usage.input_tokens": 5}, "", "agent"),
        ({"openinference.span.kind": "RETRIEVER"}, "", "other"),
        ({"llm.request.type": "chat"}, "llm", ""),
        ({"llm.request.type": "rerank"}, "", "other"),
        ({"llm.request.type": "chat", "gen_ai.operation.name": "odd"}, "llm", ""),
        ({"traceloop.span.kind": "tool"}, "tool", ""),
        ({"traceloop.span.kind": "workflow"}, "", "agent"),
    ],
)
def test_only_model_calls_and_tool_executions_are_calls(attributes: dict[str, Any], kind: str, counted: str) -> None:
    using = normaliser()
    found = calls(span(attributes), using=using)
    assert [c.kind for c in found] == ([kind] if kind else [])
    assert using.counters.get(counted, 0) == (1 if counted else 0)


def test_a_span_without_ids_is_counted_and_the_rest_of_the_batch_lives() -> None:
    using = normaliser()
    bad = [chat(trace=""), Span("0" * 0, "1" * 16), Span(TRACE, "")]
    assert [c.span_id for c in calls(*bad, chat(id=9), using=using)] == ["0000000000000009"]
    assert using.counters["invalid"] == 3


def test_a_span_that_no_reader_foresaw_is_counted_and_the_rest_lives(caplog: pytest.LogCaptureFixture) -> None:
    """And the operator reads where, once, and nothing of its content."""
    using = normaliser()
    for _ in range(3):
        broken = chat(id=1, input=[says("secret")])
        broken.events = [None]  # type: ignore[list-item]
        assert len(calls(broken, chat(id=2), using=using)) == 1
    assert using.counters["failed"] == 3
    worse = chat(id=1)
    worse.attributes = None  # type: ignore[assignment]
    assert len(calls(worse, chat(id=2), using=using)) == 1
    logged, _ = caplog.messages
    assert "AttributeError at " in logged
    assert "secret" not in logged


def test_calls_are_ordered_by_their_ends() -> None:
    found = calls(chat(id=1, at=5), chat(id=2, at=1), chat(id=3, at=0, lasts=9))
    assert [c.span_id[-1] for c in found] == ["2", "1", "3"]


def test_a_span_from_the_future_ends_with_its_receipt() -> None:
    using = normaliser()
    found = call(chat(at=3600, lasts=2), using)
    received = NOW_NS + 60 * SECOND
    assert (found.start_ns, found.end_ns, using.counters["clamped"]) == (received - 2 * SECOND, received, 1)


@pytest.mark.parametrize(
    ("start", "end"), [(0, 0), (0, NOW_NS), (NOW_NS, 0), (NOW_NS, NOW_NS - 5), (-9, -5), (2**64, -1)]
)
def test_missing_and_reversed_times_are_repaired(start: int, end: int) -> None:
    found = chat()
    found.start_ns, found.end_ns = start, end
    repaired = call(found)
    assert 0 < repaired.start_ns <= repaired.end_ns <= NOW_NS + 60 * SECOND


@pytest.mark.parametrize("start", [1, NOW_NS - 24 * 3600 * SECOND, NOW_NS + 2 * SECOND, 2**63 - 1])
def test_a_start_that_cannot_be_is_counted_and_is_the_end(start: int) -> None:
    """It would make a session of a second last for years."""
    found, using = chat(), normaliser()
    found.start_ns = start
    repaired = call(found, using)
    assert (repaired.start_ns, repaired.end_ns, using.counters["start_invalid"]) == (found.end_ns, found.end_ns, 1)


def test_a_call_may_last_for_hours() -> None:
    found, using = chat(), normaliser()
    found.start_ns = found.end_ns - 24 * 3600 * SECOND
    assert call(found, using).start_ns == found.start_ns
    assert "start_invalid" not in using.counters


class TestIdentity:
    """Whose call it is."""

    def test_the_first_key_that_names_a_session_wins(self) -> None:
        found = call(chat(attributes={"gen_ai.conversation.id": "b", "session.id": "a"}))
        assert (found.session, found.session_source) == ("a", "explicit")

    def test_an_ancestor_names_what_the_span_does_not(self) -> None:
        """The official instrumentations put nothing on the model's span; the user's own parent span says it."""
        root = span({"session.id": "s", "user.id": "u", "team.id": "t"}, id=1, kind=2)
        agent = span({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "guide"}, id=2, parent=1)
        (found,) = calls(chat(id=3, parent=2), agent, root)
        assert (found.session, found.session_source) == ("s", "inherited")
        assert (found.user, found.team, found.agent) == ("u", "t", "guide")

    def test_an_ancestor_in_an_earlier_batch_counts_too(self) -> None:
        using = normaliser()
        assert calls(span({"session.id": "s"}, id=1), using=using) == ()
        assert call(chat(id=2, parent=1), using).session == "s"

    def test_a_span_of_another_trace_is_no_ancestor(self) -> None:
        using = normaliser()
        calls(span({"session.id": "s"}, id=1, trace="f" * 32), using=using)
        assert call(chat(id=2, parent=1), using).session == f"trace:{TRACE}"

    def test_without_any_the_trace_is_the_session(self) -> None:
        found = call(chat())
        assert (found.session, found.session_source) == (f"trace:{TRACE}", "trace")

    def test_spans_that_are_one_anothers_parents_do_not_hang(self) -> None:
        loop = [chat(id=i, parent=p, attributes={"gen_ai.response.id": str(i)}) for i, p in ((1, 2), (2, 1), (3, 3))]
        assert len(calls(*loop)) == 3

    def test_the_service_is_the_agent_where_nobody_names_one(self) -> None:
        assert call(chat(resource={"service.name": "shop"})).agent == "shop"
        assert call(chat(resource={"service.name": "unknown_service:python"})).agent == ""

    def test_the_resource_names_the_team_last(self) -> None:
        assert call(chat(resource={"service.namespace": "payments"})).team == "payments"

    def test_a_name_without_end_is_bounded_and_still_its_own(self) -> None:
        one, other = (call(chat(attributes={"session.id": "x" * 5_000_000 + end})).session for end in "ab")
        assert len(one) <= 256
        assert one != other

    def test_what_utf8_cannot_hold_is_replaced(self) -> None:
        found = call(
            chat(attributes={"session.id": "a\ud800", "gen_ai.request.model": "\udfff"}, input=[says("\ud800")])
        )
        assert (found.session, found.model) == ("a?", "?")
        assert Call.from_json(found.to_json()) == found


class TestContent:
    """From content to fingerprints."""

    def test_without_content_only_the_structure_is_known(self) -> None:
        found = call(chat())
        assert (found.content, found.input, found.action, found.output) == ("structure", None, None, None)

    def test_messages_may_be_values_in_place_of_json(self) -> None:
        structured = chat(attributes={"gen_ai.input.messages": HEARD, "gen_ai.output.messages": ACTED})
        assert call(structured).model_dump() == call(chat(input=HEARD, output=ACTED)).model_dump()

    def test_messages_may_be_events(self) -> None:
        """As the conventions were until 2025."""
        found = chat(
            events=[
                SpanEvent("gen_ai.user.message", NOW_NS, {"content": "How warm is Paris?"}),
                SpanEvent(
                    "gen_ai.choice",
                    NOW_NS,
                    {
                        "message": json.dumps(
                            {
                                "tool_calls": [
                                    {"id": "c1", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}}
                                ]
                            }
                        )
                    },
                ),
            ]
        )
        assert call(found).input == new_input(ASK)
        assert (call(found).action, call(found).called) == (read_messages(HEARD[:3]).answers, ("weather",))

    def test_messages_may_be_in_an_event_of_details(self) -> None:
        attributes = {"gen_ai.input.messages": json.dumps(HEARD), "gen_ai.output.messages": json.dumps(ACTED)}
        found = chat(events=[SpanEvent("gen_ai.client.inference.operation.details", NOW_NS, attributes)])
        assert call(found).input == new_input(HEARD)

    def test_a_plain_text_is_a_prompt(self) -> None:
        assert call(chat(input="How warm is Paris?")).input == new_input(prompt="How warm is Paris?")

    def test_messages_that_were_cut_have_no_identity_and_equal_nothing(self) -> None:
        using = normaliser()
        found = call(chat(input=json.dumps(HEARD)[:-20], output=ACTED), using)
        assert found.input is not None
        assert (found.input.canon, found.input.exact, found.answers) == ("", "", None)
        assert found.input.size > 0
        assert using.counters["content_truncated"] == 1

    def test_a_text_that_was_clipped_but_carries_its_digest_keeps_its_identity(self) -> None:
        texts = [
            "a [...clipped 900 chars, sha1 53a09188bfba...] z",
            "a [clipped 900 chars, sha1 53a09188bfba]",
            "a [truncated]",
        ]
        prints = [call(chat(input=[says(text)])).input for text in texts]
        assert [found is not None and found.canon != "" for found in prints] == [True, True, False]

    def test_fingerprints_on_the_span_win_over_content(self) -> None:
        prints = Prints(
            history=4,
            messages=(Message(role="user", print=fingerprint("secret")),),
            prior=(Action(tool="t", print=fingerprint("{}")),),
            actions=(Action(print=fingerprint("done")),),
        )
        found = call(chat(input=HEARD, attributes={"spanfuse.fingerprint": prints.to_json().decode()}))
        assert (found.content, found.history, found.input) == ("fingerprint", 4, new_input(prompt="secret"))
        assert (found.answers, found.answered) == (action_print(prints.prior), ("t",))
        assert (found.action, found.called) == (action_print(prints.actions), ())

    @pytest.mark.parametrize("bad", ["{", "[]", '{"history": "x"}', 5, {"messages": [{}]}])
    def test_fingerprints_that_are_none_are_counted_and_the_content_is_used(self, bad: Any) -> None:
        using = normaliser()
        found = call(chat(input=HEARD, attributes={"spanfuse.fingerprint": bad}), using)
        assert (found.content, using.counters["fingerprint_invalid"]) == ("content", 1)

    @pytest.mark.parametrize(
        ("results", "also", "failed"),
        [
            (["Error: no such city"], [], True),
            (["Error: no such city", "Error: no such city"], [], True),
            (["Error: no such city", "18"], [], False),
            (["18"], [], False),
            (["Error: no such city"], [says("Try Rome.")], False),
            ([], [says("Try Rome.")], False),
        ],
    )
    def test_a_turn_has_failed_if_all_that_is_new_are_failures(
        self, results: list[str], also: list[Any], failed: bool
    ) -> None:
        answers = [{"role": "tool", "tool_call_id": "c1", "content": result} for result in results]
        assert call(chat(input=[*ASK, *ACTED, *answers, *also])).failed is failed

    def test_a_task_that_is_stated_anew_is_told(self) -> None:
        """Some frameworks send the template each turn, with what was observed somewhere inside."""
        task = "You have tools. Answer the question as well as you can. " * 5
        again = [says(task), *ACTED, says(task + "Observation: 18")]
        assert call(chat(input=again)).restates is True
        assert call(chat(input=[says(task), *ACTED, says("Observation: 18")])).restates is False

    def test_thousands_of_new_messages_stay_small(self) -> None:
        found = call(chat(input=[says(str(i)) for i in range(3000)])).input
        assert found is not None
        assert (found.canon, found.size > 0) == ("", True)


class TestTools:
    """Tool executions."""

    def test_arguments_and_result_are_those_that_the_model_sees(self) -> None:
        values = {"gen_ai.tool.call.arguments": '{"city":"Paris"}', "gen_ai.tool.call.result": '{"temp": 18}'}
        found = call(tool(values))
        assert (found.action, found.called) == (read_messages(HEARD[:3]).answers, ("weather",))
        assert found.output == print_of({"temp": 18})
        assert (found.kind, found.content, found.cost_nano_usd, found.error_type) == ("tool", "content", 0, "")

    def test_without_content_the_name_of_the_tool_is_known(self) -> None:
        found = call(tool())
        assert (found.content, found.output) == ("structure", None)
        assert found.action is not None
        assert (found.called, found.action.canon) == (("weather",), "")

    def test_an_exception_is_its_result(self) -> None:
        failed = tool({"gen_ai.tool.call.arguments": "{}", "error.type": "TimeoutError"}, error="too slow")
        found = call(failed)
        assert (found.error_type, found.error_class, found.output) == ("TimeoutError", "tool", print_of("too slow"))

    def test_a_result_that_reads_as_an_error_is_one(self) -> None:
        found = call(tool({"gen_ai.tool.call.result": '{"error": "no such city"}'}))
        assert (found.error_type, found.error_class) == ("error", "tool")

    @pytest.mark.parametrize("result", ['{"rows": [1, 2', "abc [truncated]"])
    def test_a_result_that_was_cut_has_no_identity(self, result: str) -> None:
        output = call(tool({"gen_ai.tool.call.arguments": "{}", "gen_ai.tool.call.result": result})).output
        assert output is not None
        assert output.canon == ""


class TestFailures:
    """Whose failure it was, and what it costs."""

    @pytest.mark.parametrize(
        ("error", "message", "whose"),
        [
            ("429", "", "provider"),
            ("503", "", "provider"),
            ("408", "", "provider"),
            ("400", "", "client"),
            ("401", "", "client"),
            ("openai.RateLimitError", "Error code: 429 - slow down", "provider"),
            ("RateLimitError", "", "provider"),
            ("openai.APITimeoutError", "", "provider"),
            ("TimeoutError", "", "provider"),
            ("httpx.ConnectError", "", "provider"),
            ("InternalServerError", "", "provider"),
            ("anthropic.OverloadedError", "", "provider"),
            ("APIStatusError", "Error code: 529 - overloaded", "provider"),
            ("openai.BadRequestError", "Error code: 400 - bad", "client"),
            ("BadRequestError", "context_length_exceeded", "client"),
            ("AuthenticationError", "", "client"),
            ("NotFoundError", "", "client"),
            ("asyncio.CancelledError", "", "client"),
            ("spanfuse.Blocked", "session:a is blocked by cycle", "client"),
            ("APIError", "maximum context length is 8192 tokens", "client"),
            ("error", "Rate limit reached", "provider"),
            ("_OTHER", "upstream connection reset by peer", "provider"),
            ("APIConnectionError", "Connection error.", "provider"),
            ("aiohttp.ServerDisconnectedError", "", "provider"),
            ("httpx.ReadError", "", "provider"),
            ("google.api_core.exceptions.DeadlineExceeded", "", "provider"),
            ("APIError", "", "client"),
            ("SomethingNew", "", "client"),
            ("error", "", "client"),
            ("_OTHER", "boom", "client"),
            ("AssertionError", "expected a connection error", "client"),
            ("ZeroDivisionError", "division by zero", "client"),
            ("OutputParserException", "Could not parse: the request timed out", "client"),
            ("RuntimeError", "the rows do not connect", "client"),
        ],
    )
    def test_a_failed_call_is_the_providers_fault_only_where_something_says_so(
        self, error: str, message: str, whose: str
    ) -> None:
        found = call(chat(error=message, attributes={"error.type": error}))
        assert (found.error_type, found.error_class) == (error, whose)

    def test_the_recorded_exception_names_the_error(self) -> None:
        event = SpanEvent("exception", NOW_NS, {"exception.type": "openai.BadRequestError", "exception.message": "no"})
        found = call(chat(error="", events=[event]))
        assert (found.error_type, found.error_class) == ("openai.BadRequestError", "client")

    def test_an_error_without_usage_costs_nothing(self) -> None:
        none = {"gen_ai.usage.input_tokens": None, "gen_ai.usage.output_tokens": None}
        found = call(chat(input=HEARD, error="boom", attributes=none))
        assert (found.tokens.input, found.cost_nano_usd, found.usage_estimated) == (0, 0, False)
        assert (found.error_type, found.finish_reason) == ("error", "")

    @pytest.mark.parametrize(("output", "cost"), [(10, 21_000), (None, 15_000)])
    def test_an_error_with_usage_costs_what_it_used(self, output: Any, cost: int) -> None:
        found = call(chat(error="cut off", input=HEARD, attributes={"gen_ai.usage.output_tokens": output}))
        assert (found.cost_nano_usd, found.usage_estimated) == (cost, False)


class TestUsage:
    """Tokens and money."""

    @pytest.mark.parametrize(("read", "write", "total"), [(60, 20, 100), (100, 0, 100), (1024, 300, 1424), (0, 0, 100)])
    def test_more_cached_than_input_means_that_input_excludes_it(self, read: int, write: int, total: int) -> None:
        attributes = {"gen_ai.usage.cache_read.input_tokens": read, "gen_ai.usage.cache_creation.input_tokens": write}
        found = call(chat(attributes=attributes)).tokens
        assert (found.input, found.cache_read, found.cache_write) == (total, read, write)

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -1, 1e300, "lots", "NaN", [], True, "1" * 5000])
    def test_tokens_that_cannot_be_are_counted_and_estimated(self, bad: Any) -> None:
        using = normaliser()
        attributes = {"gen_ai.usage.input_tokens": bad, "gen_ai.usage.output_tokens": bad}
        found = call(
            chat(input=[says("x" * 4000)], output=[says("y" * 400, "assistant")], attributes=attributes), using
        )
        assert (found.tokens.input, found.tokens.output, found.usage_estimated) == (1000, 100, True)
        assert (found.cost_nano_usd, using.counters["tokens_invalid"]) == (1000 * 150 + 100 * 600, 2)

    @pytest.mark.parametrize("value", ["100", 100.0, " 100 "])
    def test_tokens_may_be_text_or_floats(self, value: Any) -> None:
        found = call(chat(attributes={"gen_ai.usage.input_tokens": value}))
        assert (found.tokens.input, found.usage_estimated) == (100, False)

    def test_without_usage_and_content_nothing_is_known(self) -> None:
        none = {"gen_ai.usage.input_tokens": None, "gen_ai.usage.output_tokens": None}
        found = call(chat(attributes=none))
        assert (found.tokens.input, found.usage_estimated, found.cost_nano_usd) == (0, True, 0)
        assert found.cost_source == "unknown"

    def test_embeddings_have_no_output_and_are_no_estimate(self) -> None:
        attributes = {"gen_ai.operation.name": "embeddings", "gen_ai.usage.output_tokens": None}
        found = call(chat(input=[says("hi")], attributes=attributes))
        assert (found.tokens.output, found.usage_estimated, found.operation) == (0, False, "embeddings")

    @pytest.mark.parametrize(
        ("value", "cost", "source"),
        [
            (0.5, 500_000_000, "reported"),
            ("0.25", 250_000_000, "reported"),
            (0, 21_000, "computed"),
            (-1, 21_000, "computed"),
            (math.nan, 21_000, "computed"),
            (1e300, 21_000, "computed"),
        ],
    )
    def test_a_reported_cost_is_believed_if_it_can_be(self, value: Any, cost: int, source: str) -> None:
        found = call(chat(attributes={"gen_ai.cost.total_cost": value}))
        assert (found.cost_nano_usd, found.cost_source) == (cost, source)

    def test_an_unknown_model_costs_the_fallback(self) -> None:
        found = call(chat(attributes={"gen_ai.request.model": "acme-7", "gen_ai.provider.name": "acme"}))
        assert (found.cost_nano_usd, found.cost_source) == (100 * 5000 + 10 * 15_000, "fallback")

    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            (["tool_calls"], "tool_calls"),
            ('["tool_use"]', "tool_calls"),
            ("FinishReason.TOOL_CALLS", "tool_calls"),
            (["tool-calls"], "tool_calls"),
            ("end_turn", "stop"),
            (["max_tokens"], "length"),
            (["SAFETY"], "content_filter"),
            (["odd"], "odd"),
            ([], ""),
            ("[", ""),
        ],
    )
    def test_finish_reasons_have_one_name_each(self, value: Any, reason: str) -> None:
        assert call(chat(attributes={"gen_ai.response.finish_reasons": value})).finish_reason == reason

    @pytest.mark.parametrize(
        ("provider", "model", "expected"),
        [
            ("OpenAI", "gpt-4o", ("openai", "gpt-4o")),
            ("az.ai.openai", "gpt-4o", ("azure.ai.openai", "gpt-4o")),
            ("strands-agents", "claude-sonnet-4-5", ("anthropic", "claude-sonnet-4-5")),
            ("litellm", "openai/gpt-4o", ("openai", "gpt-4o")),
            ("openrouter", "openai/gpt-4o", ("openrouter", "openai/gpt-4o")),
            (None, "gemini-2.5-pro", ("gcp.gemini", "gemini-2.5-pro")),
            (None, "acme-7", ("", "acme-7")),
        ],
    )
    def test_providers_have_one_name_each(self, provider: Any, model: str, expected: tuple[str, str]) -> None:
        found = call(chat(attributes={"gen_ai.provider.name": provider, "gen_ai.request.model": model}))
        assert (found.provider, found.model) == expected


class TestNested:
    """One call that two instrumentations saw."""

    @staticmethod
    def pair(inner: dict[str, Any], outer: dict[str, Any], **more: Any) -> tuple[Call, ...]:
        a = chat(id=1, lasts=3, scope="a", input=HEARD, output=ACTED, attributes=outer)
        b = chat(id=2, parent=1, at=1, scope="b", attributes=inner)
        return calls(b, a, **more)

    def test_a_span_within_a_span_with_the_same_response_is_the_same_call(self) -> None:
        using = normaliser()
        same = {"gen_ai.response.id": "r1"}
        (found,) = self.pair(same, same, using=using)
        assert (found.span_id[-1], found.content, using.counters["nested"]) == ("1", "content", 1)

    def test_what_the_one_lacks_is_taken_from_the_other(self) -> None:
        none = {"gen_ai.usage.input_tokens": None, "gen_ai.usage.output_tokens": None}
        (found,) = self.pair({"gen_ai.response.id": "r1", "session.id": "s"}, {"gen_ai.response.id": "r1"} | none)
        assert (found.tokens.input, found.usage_estimated, found.session) == (100, False, "s")

    def test_an_instrumentation_that_makes_ids_of_its_own_hides_none_and_adds_none(self) -> None:
        assert len(self.pair({"gen_ai.response.id": "msg_1"}, {"gen_ai.response.id": "chatcmpl-2"})) == 1

    def test_different_responses_of_one_instrumentation_are_different_calls(self) -> None:
        outer, inner = ({"gen_ai.response.id": f"r{i}"} for i in (1, 2))
        assert len(calls(chat(id=2, parent=1, at=1, attributes=inner), chat(id=1, lasts=3, attributes=outer))) == 2

    def test_the_inner_span_knows_the_tokens_best(self) -> None:
        (found,) = self.pair({"gen_ai.usage.cache_read.input_tokens": 90}, {})
        assert (found.span_id[-1], found.tokens.input, found.tokens.cache_read) == ("1", 100, 90)

    def test_an_attempt_that_failed_within_a_call_is_counted_beside_it(self) -> None:
        failed = {"error.type": "500", "gen_ai.usage.input_tokens": None, "gen_ai.usage.output_tokens": None}
        assert [(c.error_type, c.tokens.input) for c in self.pair(failed, {})] == [("500", 0), ("", 100)]

    def test_a_span_recorded_twice_under_two_ids_counts_once(self) -> None:
        using = normaliser()
        assert len(calls(chat(id=1, parent=9), chat(id=2, parent=9), using=using)) == 1
        assert using.counters["nested"] == 1

    def test_spans_beside_each_other_with_one_response_are_one_call(self) -> None:
        """OpenLLMetry and Anthropic's own instrumentation give each its own trace."""
        same = {"gen_ai.response.id": "r1"}
        one = chat(id=1, scope="a", input=HEARD, attributes=same)
        other = chat(id=2, scope="b", trace="f" * 32, attributes=same)
        assert [c.span_id[-1] for c in calls(other, one)] == ["1"]

    def test_an_endpoint_that_gives_every_response_one_id_hides_no_call(self) -> None:
        same = {"gen_ai.response.id": "r1"}
        assert len(calls(*(chat(id=i, at=i, attributes=same) for i in range(1, 6)))) == 5

    def test_a_model_span_around_a_whole_loop_only_sums_it_up(self) -> None:
        inner = [chat(id=i, parent=1, at=i, attributes={"gen_ai.response.id": f"r{i}"}) for i in range(2, 5)]
        assert [c.span_id[-1] for c in calls(*inner, chat(id=1, lasts=9))] == ["2", "3", "4"]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_value_of_any_attribute_raises(data: st.DataObject) -> None:
    values = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=30)
        | st.sampled_from(["\ud800", '["\ud800"]'])
        | st.sampled_from(["{", "[{}]", '{"a":1}', '"x"', "[1]"])
        | st.lists(st.text(max_size=5), max_size=2)
        | st.binary(max_size=5)
    )
    keys = st.sampled_from(
        [
            "gen_ai.input.messages",
            "gen_ai.output.messages",
            "gen_ai.request.model",
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.cache_read.input_tokens",
            "gen_ai.response.finish_reasons",
            "gen_ai.response.id",
            "gen_ai.cost.total_cost",
            "session.id",
            "metadata",
            "error.type",
            "spanfuse.fingerprint",
            "llm.input_messages.0.message.role",
            "llm.input_messages.0.message.contents.0.message_content.text",
            "llm.input_messages.0.message.tool_calls.x",
            "gen_ai.prompt.0.content",
            "gen_ai.prompt.1.tool_calls.0.arguments",
            "tool.parameters",
            "traceloop.entity.input",
            "output.value",
        ]
    )
    kind = data.draw(st.sampled_from(["gen_ai.operation.name", "openinference.span.kind", "llm.request.type"]))
    value = data.draw(st.sampled_from(["chat", "LLM", "TOOL", "execute_tool"]))
    using = normaliser()
    found = span({kind: value, **data.draw(st.dictionaries(keys, values, max_size=6))})
    for made in calls(found, using=using):
        assert Call.from_json(made.to_json()) == made
    assert using.counters["failed"] == 0


def test_an_attribute_of_5_mb_and_deep_nesting_survive() -> None:
    deep = "[" * 50_000 + "]" * 50_000
    for text in (
        "x" * 5_000_000,
        deep,
        json.dumps([says(deep)]),
        json.dumps([{"role": "user", "content": json.loads("[" * 400 + "]" * 400)}]),
    ):
        assert call(chat(input=text, output=text)).kind == "llm"
