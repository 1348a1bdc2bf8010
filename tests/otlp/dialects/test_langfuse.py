"""Langfuse, in Python and JavaScript: raw usage of providers, and classes of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spanfuse_processor.otlp.dialects import dialect_of
from spanfuse_processor.otlp.span import Span
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
from tests.otlp.fixtures import call, calls, span

USER = {"role": "user", "content": ASKED}
CALL = {"id": "t1", "type": "function", "function": {"name": TOOL, "arguments": json.dumps(ARGUMENTS)}}


def observed(
    kind: str = "generation", *, name: str = "OpenAI-generation", more: dict[str, Any] | None = None, **said: Any
) -> Span:
    """An observation; `said` is JSON under `langfuse.observation.`, `more` are attributes as they are."""
    attributes: dict[str, Any] = {f"langfuse.observation.{key}": json.dumps(value) for key, value in said.items()}
    attributes["langfuse.observation.type"] = kind
    more = more or {}
    given = {key: more[key] for key in ("id", "parent", "error") if key in more}
    attributes |= {key: value for key, value in more.items() if key not in given}
    return span(attributes, name=name, kind=1, scope="langfuse-sdk", **given)


def test_messages_alone_or_with_the_tools() -> None:
    for whole in ([USER], {"messages": [USER], "tools": []}):
        first = call(observed(input=whole, output={"role": "assistant", "content": None, "tool_calls": [CALL]}))
        assert is_asked(first)
        assert calls_tool(first)
    history = [
        USER,
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "t1", "content": json.dumps(RESULT)},
    ]
    last = call(observed(input=history, output={"role": "assistant", "content": ANSWER}))
    assert hears_result(last)
    assert answers(last)


def test_langchain_hands_over_definitions_of_tools_as_messages() -> None:
    """And, of old, the calls of tools among additional arguments, and a tool's arguments as Python writes them."""
    asks = {"role": "assistant", "content": "", "additional_kwargs": {"tool_calls": [CALL]}}
    definition = {"role": "tool", "content": {"type": "function", "function": {"name": TOOL, "parameters": {}}}}
    first = call(observed(input=[USER, definition], output=asks))
    assert is_asked(first)
    assert calls_tool(first)
    brought = {"role": "tool", "content": json.dumps(RESULT), "tool_call_id": "t1"}
    assert hears_result(call(observed(input=[USER, asks, brought, definition])))
    assert calls_tool(call(observed("tool", name=TOOL, input=str(ARGUMENTS), output=RESULT)))


def test_metadata_of_langchain_names_session_user_and_team() -> None:
    prefix = "langfuse.observation.metadata."
    said = {prefix + "langfuse_session_id": "s", prefix + "langfuse_user_id": "u", prefix + "team": "t"}
    found = call(observed(more={**said, prefix + "lc_agent_name": "guide"}))
    assert (found.session, found.user, found.team, found.agent) == ("s", "u", "t", "guide")


def test_messages_of_langchain_and_a_plain_text() -> None:
    history = [
        {"role": "user", "content": ASKED},
        {
            "role": "assistant",
            "content": "",
            "additional_kwargs": {"tool_calls": [CALL]},
            "tool_calls": [{"name": TOOL, "args": ARGUMENTS, "id": "t1"}],
        },
        {"role": "tool", "content": json.dumps(RESULT), "tool_call_id": "t1"},
    ]
    last = call(observed(input=history, output=ANSWER))
    assert hears_result(last)
    assert answers(last)


@pytest.mark.parametrize(
    "usage",
    [
        {
            "prompt_tokens": 1200,
            "completion_tokens": 50,
            "prompt_tokens_details": {"cached_tokens": 1024},
            "completion_tokens_details": {"reasoning_tokens": 20},
        },
        {
            "input": 176,
            "output": 30,
            "total": 1250,
            "input_cached_tokens": 1024,
            "input_audio_tokens": 0,
            "output_reasoning_tokens": 20,
        },
        {"input": 176, "output": 30, "input_cache_read": 1024, "output_reasoning": 20},
        {
            "input_tokens": 1200,
            "output_tokens": 50,
            "input_tokens_details": {"cached_tokens": 1024},
            "output_tokens_details": {"reasoning_tokens": 20},
        },
    ],
    ids=["openai", "javascript", "langchain", "responses"],
)
def test_usage_comes_to_the_same_tokens(usage: dict[str, Any]) -> None:
    tokens = call(observed(usage_details=usage)).tokens
    assert (tokens.input, tokens.cache_read, tokens.output, tokens.reasoning) == (1200, 1024, 50, 20)


@pytest.mark.parametrize("fresh", ["input", "input_tokens"])
def test_usage_of_anthropic_excludes_its_cache(fresh: str) -> None:
    usage = {fresh: 2000, "output_tokens": 50, "cache_read_input_tokens": 1024, "cache_creation_input_tokens": 300}
    tokens = call(observed(usage_details=usage)).tokens
    assert (tokens.input, tokens.cache_read, tokens.cache_write) == (3324, 1024, 300)


def test_a_function_that_is_observed_as_a_tool() -> None:
    found = call(observed("tool", name=TOOL, input={"args": [], "kwargs": ARGUMENTS}, output=RESULT))
    assert found.kind == "tool"
    assert brings_result(found)


def test_a_tool_of_langchain() -> None:
    message = {"content": json.dumps(RESULT), "type": "tool", "name": TOOL, "tool_call_id": "t1"}
    assert brings_result(call(observed("tool", name=TOOL, input=ARGUMENTS, output=message)))


def test_session_user_and_team_are_on_every_span() -> None:
    said = {"session.id": "s", "user.id": "u", "langfuse.trace.metadata.team": '"payments"'}
    found = call(observed(input=[USER], more=said))
    assert (found.session, found.user, found.team) == ("s", "u", "payments")


def test_an_agent_names_its_calls_and_a_span_does_not() -> None:
    agent = observed("agent", name="guide", more={"id": 1})
    chain = observed("span", name="request", more={"id": 2, "parent": 1})
    (found,) = calls(agent, chain, observed(input=[USER], more={"id": 3, "parent": 2}))
    assert found.agent == "guide"


def test_a_reported_cost_and_none_on_an_error() -> None:
    assert call(observed(cost_details={"input": 0.001, "output": 0.002, "total": 0.003})).cost_nano_usd == 3_000_000
    failed = call(observed(cost_details={"input": 0, "output": 0, "total": 0}, more={"error": "Error code: 500"}))
    assert (failed.cost_nano_usd, failed.error_class) == (0, "provider")


def test_spans_of_others_stay_theirs_where_langfuse_marks_them() -> None:
    marks = {"langfuse.environment": "prod", "langfuse.trace.metadata.team": '"payments"', "langfuse.session.id": "s"}
    found = span({"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"} | marks)
    assert dialect_of(found).name == "genai"
    assert (call(found).session, call(found).team) == ("s", "payments")


def test_a_level_alone_says_that_a_call_failed() -> None:
    said = {"langfuse.observation.level": "ERROR", "langfuse.observation.status_message": "Error code: 429"}
    assert call(observed(more=said)).error_class == "provider"
