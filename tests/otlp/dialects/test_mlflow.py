"""MLflow Tracing: everything is JSON within attributes."""

from __future__ import annotations

import json
from typing import Any

import pytest

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


def traced(kind: str = "CHAT_MODEL", *, name: str = "Completions", **said: Any) -> Span:
    """A span; `said` is JSON under `mlflow.`, or arguments of `span`."""
    given = {key: said.pop(key) for key in ("id", "parent", "error") if key in said}
    more = said.pop("more", {})
    attributes = {f"mlflow.{key}": json.dumps(value) for key, value in {"spanType": kind, **said}.items()}
    return span(attributes | more, name=name, kind=1, scope="mlflow.tracing.provider", **given)


def test_requests_and_responses_of_openai() -> None:
    asks = {
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {"role": "assistant", "content": None, "tool_calls": [CALL]},
            }
        ]
    }
    first = call(traced(spanInputs={"model": "gpt-4o-mini", "messages": [USER]}, spanOutputs=asks))
    assert is_asked(first)
    assert calls_tool(first)
    assert (first.model, first.provider, first.finish_reason) == ("gpt-4o-mini", "openai", "tool_calls")
    history = [
        USER,
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "t1", "content": json.dumps(RESULT)},
    ]
    last = call(
        traced(
            spanInputs={"messages": history},
            spanOutputs={"choices": [{"message": {"role": "assistant", "content": ANSWER}}]},
        )
    )
    assert hears_result(last)
    assert answers(last)


def test_requests_and_responses_of_anthropic() -> None:
    block = {"type": "tool_use", "id": "t1", "name": TOOL, "input": ARGUMENTS}
    response = {"id": "msg_1", "type": "message", "role": "assistant", "content": [block], "stop_reason": "tool_use"}
    found = call(
        traced(
            spanInputs={"model": "claude-sonnet-4-5", "system": "Be brief.", "messages": [USER]}, spanOutputs=response
        )
    )
    assert is_asked(found)
    assert calls_tool(found)
    assert (found.provider, found.finish_reason) == ("anthropic", "tool_calls")


def test_messages_and_generations_of_langchain() -> None:
    message = {"content": "", "type": "ai", "tool_calls": [{"name": TOOL, "args": ARGUMENTS, "id": "t1"}]}
    output = {"generations": [[{"text": "", "generation_info": {"finish_reason": "tool_calls"}, "message": message}]]}
    found = call(traced(spanInputs=[[{"content": ASKED, "type": "human"}]], spanOutputs=output))
    assert is_asked(found)
    assert calls_tool(found)
    assert found.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    "said",
    [
        {
            "chat.tokenUsage": {"input_tokens": 1200, "output_tokens": 50, "cache_read_input_tokens": 1024},
            "spanOutputs": {"usage": {"completion_tokens_details": {"reasoning_tokens": 20}}},
        },
        {
            "spanOutputs": {
                "usage": {
                    "prompt_tokens": 1200,
                    "completion_tokens": 50,
                    "prompt_tokens_details": {"cached_tokens": 1024},
                    "completion_tokens_details": {"reasoning_tokens": 20},
                }
            }
        },
    ],
    ids=["3.2", "older"],
)
def test_usage_stands_apart_or_in_the_response(said: dict[str, Any]) -> None:
    tokens = call(traced(**said)).tokens
    assert (tokens.input, tokens.cache_read, tokens.output, tokens.reasoning) == (1200, 1024, 50, 20)


def test_a_tool() -> None:
    found = call(traced("TOOL", name=TOOL, spanInputs=ARGUMENTS, spanOutputs=json.dumps(RESULT)))
    assert found.kind == "tool"
    assert brings_result(found)
    message = {"content": json.dumps(RESULT), "type": "tool", "name": TOOL, "tool_call_id": "t1"}
    assert brings_result(call(traced("TOOL", name=TOOL, spanInputs=ARGUMENTS, spanOutputs=message)))


def test_names_are_unquoted_and_the_root_tells_whose_the_calls_are() -> None:
    root = traced("AGENT", name="guide", id=1, more={"mlflow.traceTag.team": "t"})
    inner = traced(id=2, parent=1, **{"llm.model": "gpt-4o-mini-2024-07-18"}, more={"model": '"gpt-4o-mini"'})
    (found,) = calls(root, inner)
    assert (found.model, found.team, found.agent) == ("gpt-4o-mini-2024-07-18", "t", "guide")


@pytest.mark.parametrize("kind", ["AGENT", "CHAIN", "RETRIEVER", "PARSER", "UNKNOWN", "RERANKER"])
def test_other_types_are_no_calls(kind: str) -> None:
    assert calls(traced(kind)) == ()
