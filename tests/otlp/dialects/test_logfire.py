"""Logfire's own instrumentation of OpenAI, Anthropic and OpenAI Agents, versions 4 and 5."""

from __future__ import annotations

import json
from typing import Any

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
CALL = {"id": "c1", "type": "function", "function": {"name": TOOL, "arguments": json.dumps(ARGUMENTS)}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
GOT = {"role": "tool", "tool_call_id": "c1", "content": json.dumps(RESULT)}
SAID = {"role": "assistant", "content": ANSWER}


def logged(name: str, scope: str, attributes: dict[str, Any], id: int = 2, **more: Any) -> Span:
    written = {key: v if isinstance(v, (str, int)) else json.dumps(v) for key, v in attributes.items()}
    return span(written, id=id, kind=1, scope=f"logfire.{scope}", name=name, **more)


def request(scope: str, messages: list[Any], response: dict[str, Any] | None = None, **more: Any) -> Span:
    """As version 4 writes it."""
    name = more.pop("name", "Chat Completion with {request_data[model]!r}")
    given: dict[str, Any] = {"request_data": {"model": more.pop("model", "gpt-4o-mini"), "messages": messages}}
    return logged(name, scope, given | ({} if response is None else {"response_data": response}), **more)


def test_request_and_response_are_objects() -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 1024}, "completion_tokens_details": {"reasoning_tokens": 20}}
    usage = {"prompt_tokens": 1200, "completion_tokens": 50, "total_tokens": 1250, **details}
    first = call(request("openai", [USER], {"message": CALLED, "usage": usage}))
    assert is_asked(first)
    assert calls_tool(first)
    second = call(request("openai", [USER, CALLED, GOT], {"message": SAID, "usage": usage}))
    assert hears_result(second)
    assert answers(second)
    tokens = second.tokens
    assert (second.model, second.provider) == ("gpt-4o-mini", "openai")
    assert (tokens.input, tokens.output, tokens.cache_read, tokens.reasoning) == (1200, 50, 1024, 20)


def test_input_of_anthropic_excludes_the_cache() -> None:
    usage = {"input_tokens": 176, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 30, "output_tokens": 5}
    name, model = "Message with {request_data[model]!r}", "claude-sonnet-4-5"
    found = call(request("anthropic", [USER], {"message": SAID, "usage": usage}, name=name, model=model))
    assert answers(found)
    assert (found.provider, found.tokens.input, found.tokens.cache_write) == ("anthropic", 306, 30)


def test_a_stream_is_one_call() -> None:
    usage = {"prompt_tokens": 1200, "completion_tokens": 50, "total_tokens": 1250}
    name = "streaming response from {request_data[model]!r} took {duration:.2f}s"
    begun = request("openai", [USER], id=2, parent=1)
    brought = request("openai", [USER], {"message": SAID, "usage": usage}, name=name, id=3, parent=1, at=1)
    (found,) = calls(begun, brought)
    assert answers(found)
    assert (found.span_id, found.tokens.input) == (brought.span_id, 1200)
    conventions = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.response.model": "m"}
    newest = logged("Chat Completion with {request_data[model]!r}", "openai", conventions)
    assert not calls(newest)
    newest.status_code = 2
    assert call(newest).error_type == "error"


def test_openai_agents_have_the_answer_among_the_messages_of_the_request() -> None:
    def chat(messages: list[Any], reply: Any, id: int) -> Span:
        given = {
            "input": messages,
            "output": [reply],
            "request_data": {"model": "gpt-4o-mini", "messages": [*messages, reply]},
            "usage": {
                "input_tokens_details": {"cached_tokens": 1024},
                "output_tokens_details": {"reasoning_tokens": 20},
            },
            "gen_ai.request.model": "gpt-4o-mini",
            "gen_ai.usage.input_tokens": 1200,
            "gen_ai.usage.output_tokens": 50,
        }
        name = "Chat completion with {gen_ai.request.model!r}"
        return logged(name, "openai_agents", given, id=id, parent=1, at=id)

    run = {"name": "geo", "logfire.msg_template": "Agent run: {name!r}"}
    tool = {"name": TOOL, "input": ARGUMENTS, "output": RESULT}
    first, executed, second = calls(
        logged("Agent run: {name!r}", "openai_agents", run, id=1, lasts=9),
        chat([USER], CALLED, 2),
        logged("Function: {name}", "openai_agents", tool, id=3, parent=1, at=3),
        chat([USER, CALLED, GOT], SAID, 4),
    )
    assert calls_tool(first)
    assert brings_result(executed)
    assert hears_result(second)
    assert answers(second)
    assert {c.agent for c in (first, executed, second)} == {"geo"}
    assert (second.tokens.cache_read, second.tokens.reasoning) == (1024, 20)


def test_items_of_the_responses_api_are_messages() -> None:
    item = {"type": "function_call", "call_id": "c1", "name": TOOL, "arguments": json.dumps(ARGUMENTS)}
    got = {"type": "function_call_output", "call_id": "c1", "output": json.dumps(RESULT)}
    given = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o-mini", "gen_ai.usage.input_tokens": 9}
    name = "Responses API with {gen_ai.request.model!r}"
    asks = given | {"raw_input": [USER], "response": {"object": "response", "output": [item]}}
    assert calls_tool(call(logged(name, "openai_agents", asks)))
    hears = given | {"raw_input": [USER, item, got], "response": {"object": "response", "output": [SAID]}}
    assert hears_result(call(logged(name, "openai_agents", hears)))
