"""Strands Agents, from 0.2 to 1.62, under both conventions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spanfuse_processor.otlp.span import Span, SpanEvent
from tests.otlp.dialects.steps import (
    ANSWER,
    ARGUMENTS,
    ASKED,
    RESULT,
    TOOL,
    answers,
    brings_result,
    calls_tool,
    hears_result,
    is_asked,
)
from tests.otlp.fixtures import NOW_NS, call, calls, span

SCOPE = "strands.telemetry.tracer"
DETAILS = "gen_ai.client.inference.operation.details"
TOOL_USE = [{"toolUse": {"toolUseId": "t1", "name": TOOL, "input": ARGUMENTS}}]
BLOCKS = [{"text": json.dumps(RESULT)}]
TOOL_RESULT = [{"toolResult": {"toolUseId": "t1", "status": "success", "content": BLOCKS}}]


def event(name: str, **attributes: Any) -> SpanEvent:
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in attributes.items()}
    return SpanEvent(name, NOW_NS, texts)


def details(**attributes: Any) -> SpanEvent:
    return event(DETAILS, **{f"gen_ai.{key}": value for key, value in attributes.items()})


def chat(*events: SpanEvent, name: str = "chat", kind: int = 1, **more: Any) -> Span:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.system": "strands-agents",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.usage.input_tokens": 1200,
        "gen_ai.usage.output_tokens": 50,
        "gen_ai.usage.total_tokens": 1250,
        **more.pop("attributes", {}),
    }
    return span(attributes, events=list(events), name=name, kind=kind, scope=SCOPE, **more)


def test_messages_are_events_with_bedrocks_blocks() -> None:
    user = event("gen_ai.user.message", content=[{"text": ASKED}])
    first = call(chat(user, event("gen_ai.choice", finish_reason="tool_use", message=TOOL_USE)))
    assert is_asked(first)
    assert calls_tool(first)
    assert (first.provider, first.finish_reason) == ("openai", "tool_calls")
    asked, choice = (
        event("gen_ai.assistant.message", content=TOOL_USE),
        event("gen_ai.choice", message=[{"text": ANSWER}]),
    )
    for name in ("gen_ai.tool.message", "gen_ai.user.message"):  # 1.x, and 0.2, which says whose turn it is
        second = call(chat(user, asked, event(name, content=TOOL_RESULT), choice))
        assert hears_result(second)
        assert answers(second)


def test_the_latest_conventions_have_one_event_for_each_attribute() -> None:
    messages = [
        {"role": "user", "parts": [{"type": "text", "content": ASKED}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "name": TOOL, "id": "t1", "arguments": ARGUMENTS}]},
        {"role": "user", "parts": [{"type": "tool_call_response", "id": "t1", "response": BLOCKS}]},
    ]
    reply = [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}], "finish_reason": "end_turn"}]
    system = details(system_instructions=[{"type": "text", "content": "Be terse."}])
    found = call(chat(system, details(**{"input.messages": messages}), details(**{"output.messages": reply})))
    assert hears_result(found)
    assert answers(found)
    assert found.finish_reason == "stop"
    attributes = {"gen_ai.input.messages": json.dumps(messages), "gen_ai.output.messages": json.dumps(reply)}
    as_attributes = call(chat(attributes=attributes))
    assert (as_attributes.input, as_attributes.action) == (found.input, found.action)


@pytest.mark.parametrize("name", ["execute_tool get_weather", "Tool: get_weather"])
def test_a_tool_execution_is_told_by_its_events_or_attributes(name: str) -> None:
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": TOOL, "gen_ai.tool.call.id": "t1"}
    given = event("gen_ai.tool.message", role="tool", content=ARGUMENTS, id="t1")
    got = event("gen_ai.choice", message=BLOCKS, id="t1")
    assert brings_result(call(span(named, events=[given, got], name=name, scope=SCOPE)))
    attributes = {"gen_ai.tool.call.arguments": json.dumps(ARGUMENTS), "gen_ai.tool.call.result": json.dumps(BLOCKS)}
    assert brings_result(call(span(named | attributes, name=name, scope=SCOPE)))
    asked = [{"role": "tool", "parts": [{"type": "tool_call", "name": TOOL, "id": "t1", "arguments": ARGUMENTS}]}]
    heard = [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "t1", "response": BLOCKS}]}]
    latest = [details(**{"input.messages": asked}), details(**{"output.messages": heard})]
    assert brings_result(call(span(named, events=latest, name=name, scope=SCOPE)))
    structured = call(span(named | {"gen_ai.tool.call.result": '[{"json": {"temp_c": 21.0}}]'}, name=name, scope=SCOPE))
    assert structured.output == call(span(named | attributes, name=name, scope=SCOPE)).output


@pytest.mark.parametrize("key", ["gen_ai.tool.status", "tool.status"])
def test_a_tool_fails_whose_status_says_so(key: str) -> None:
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": TOOL}
    failed = call(span(named | {key: "error"}, name=f"Tool: {TOOL}", scope=SCOPE))
    assert (failed.error_type, failed.error_class) == ("error", "tool")
    assert call(span(named | {key: "success"}, name=f"Tool: {TOOL}", scope=SCOPE)).error_type == ""


def test_spans_of_agents_and_cycles_are_not_billed() -> None:
    sums = {"gen_ai.usage.input_tokens": 1200, "gen_ai.usage.output_tokens": 50}
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "geo", "gen_ai.request.model": "gpt-4o-mini"}
    whole = {"session.id": "s-1", **agent, **sums}
    outer = span(whole, id=1, scope=SCOPE, name="invoke_agent geo", lasts=9)
    old_cycle = span({"event_loop.cycle_id": "x"}, id=2, parent=1, kind=1, scope=SCOPE, name="Cycle x", lasts=8)
    model = chat(id=3, parent=2, name="Model invoke", kind=3)
    (found,) = calls(outer, old_cycle, model)
    assert (found.session, found.agent, found.tokens.input) == ("s-1", "geo", 1200)


def test_the_first_token_comes_after_milliseconds() -> None:
    assert call(chat(attributes={"gen_ai.server.time_to_first_token": 250})).ttft_ns == 250_000_000


def test_bedrock_counts_the_cache_beside_the_input_as_the_total_shows() -> None:
    """Before Strands added it up itself."""
    cache = {"gen_ai.usage.cache_read_input_tokens": 800, "gen_ai.usage.cache_write_input_tokens": 100}
    beside = call(chat(attributes={**cache, "gen_ai.usage.total_tokens": 2150})).tokens
    assert (beside.input, beside.cache_read, beside.cache_write) == (2100, 800, 100)
    assert call(chat(attributes=cache)).tokens.input == 1200


def test_content_that_was_hidden_is_the_same_as_nothing() -> None:
    """Or all that an agent does would look like one thing done again."""
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": TOOL}
    hidden = {"gen_ai.tool.call.arguments": "[REDACTED]", "gen_ai.tool.call.result": "[REDACTED]"}
    found = call(span(named | hidden, name=f"execute_tool {TOOL}", scope=SCOPE))
    assert (found.action.canon if found.action else "", found.output.canon if found.output else "") == ("", "")
