"""LangSmith over OpenTelemetry: LangChain's runs, and libraries that it wraps."""

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
from tests.otlp.fixtures import call, calls, span

DETAILS = {"input_token_details": {"cache_read": 1024}, "output_token_details": {"reasoning": 20}}
CALL = {"name": TOOL, "args": ARGUMENTS, "id": "t1", "type": "tool_call"}


def lc(kind: str, **fields: Any) -> dict[str, Any]:
    """A message as LangChain's `dumpd` has it."""
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", kind], "kwargs": fields}


def run(
    kind: str = "llm", *, name: str = "ChatOpenAI", prompt: Any = None, completion: Any = None, **more: Any
) -> Span:
    operation = {"llm": "chat", "prompt": "chat", "retriever": "embeddings", "tool": "execute_tool"}.get(kind, kind)
    attributes = {
        "langsmith.span.kind": kind,
        "langsmith.trace.name": name,
        "langsmith.trace.session_name": "project",
        "langsmith.trace.session_id": "project-id",
        "gen_ai.operation.name": operation,
        "gen_ai.system": "langchain",
        "gen_ai.prompt": None if prompt is None else json.dumps(prompt),
        "gen_ai.completion": None if completion is None else json.dumps(completion),
        **more.pop("attributes", {}),
    }
    return span({k: v for k, v in attributes.items() if v is not None}, name=name, kind=1, scope="langsmith", **more)


def generated(message: dict[str, Any]) -> dict[str, Any]:
    info = {"finish_reason": "stop"}
    return {"generations": [[{"text": "", "generation_info": info, "type": "ChatGeneration", "message": message}]]}


def test_messages_as_langchain_serialises_them() -> None:
    human = lc("HumanMessage", content=ASKED, type="human")
    asks = lc("AIMessage", content="", type="ai", tool_calls=[CALL])
    first = call(run(prompt={"messages": [[human]]}, completion=generated(asks)))
    assert is_asked(first)
    assert calls_tool(first)
    brings = lc("ToolMessage", content=json.dumps(RESULT), type="tool", tool_call_id="t1")
    last = call(
        run(
            prompt={"messages": [[human, asks, brings]]},
            completion=generated(lc("AIMessage", content=ANSWER, type="ai")),
        )
    )
    assert hears_result(last)
    assert answers(last)
    assert last.finish_reason == "stop"


def test_tool_calls_of_older_versions_stand_among_the_additional_arguments() -> None:
    function = {"id": "t1", "function": {"name": TOOL, "arguments": json.dumps(ARGUMENTS)}}
    asks = lc("AIMessage", content="", additional_kwargs={"tool_calls": [function]})
    assert calls_tool(call(run(completion=generated(asks))))


def test_a_library_that_is_wrapped_has_requests_and_responses_of_its_own() -> None:
    asks = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "t1", "function": {"name": TOOL, "arguments": json.dumps(ARGUMENTS)}}],
    }
    response = {
        "id": "chatcmpl-1",
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [{"index": 0, "message": asks, "finish_reason": "tool_calls"}],
        "usage_metadata": {"input_tokens": 1200, "output_tokens": 50, "input_token_details": {"cache_read": 1024}},
    }
    found = call(
        run(prompt={"model": "gpt-4o-mini", "messages": [{"role": "user", "content": ASKED}]}, completion=response)
    )
    assert is_asked(found)
    assert calls_tool(found)
    assert (found.model, found.provider, found.finish_reason) == ("gpt-4o-mini-2024-07-18", "openai", "tool_calls")
    assert (found.tokens.input, found.tokens.output, found.tokens.cache_read) == (1200, 50, 1024)


@pytest.mark.parametrize(
    "usage",
    [
        {"langsmith.metadata.usage_metadata": json.dumps(DETAILS)},
        {
            "gen_ai.usage.input_token_details": "{'cache_read': 1024}",
            "gen_ai.usage.output_token_details": "{'reasoning': 20}",
        },
    ],
    ids=["json", "python"],
)
def test_details_of_usage(usage: dict[str, Any]) -> None:
    tokens = call(run(attributes={"gen_ai.usage.input_tokens": 1200, "gen_ai.usage.output_tokens": 50, **usage})).tokens
    assert (tokens.input, tokens.cache_read, tokens.reasoning) == (1200, 1024, 20)


def test_a_tool_brings_the_content_of_its_message() -> None:
    message = lc("ToolMessage", content=json.dumps(RESULT), type="tool", tool_call_id="t1")
    found = call(run("tool", name=TOOL, prompt=ARGUMENTS, completion={"output": message}))
    assert found.kind == "tool"
    assert brings_result(found)
    assert brings_result(
        call(run("tool", name=TOOL, prompt={"input": str(json.dumps(ARGUMENTS))}, completion={"output": RESULT}))
    )


def test_a_run_that_failed_did_nothing() -> None:
    found = call(
        run(
            prompt={"messages": [{"role": "user", "content": ASKED}]},
            completion={"output": None},
            error="Error code: 400",
        )
    )
    assert is_asked(found)
    assert found.action is None


@pytest.mark.parametrize("kind", ["chain", "prompt", "retriever", "parser"])
def test_runs_that_are_no_calls_count_nothing_though_their_operation_says_so(kind: str) -> None:
    assert calls(run(kind, name="x", attributes={"gen_ai.request.model": "gpt-4o"})) == ()


def test_the_project_is_no_session() -> None:
    assert call(run()).session_source == "trace"
    said = {"langsmith.metadata.thread_id": "s", "langsmith.metadata.user_id": "u", "langsmith.metadata.team": "t"}
    found = call(run(attributes={**said, "langsmith.metadata.lc_agent_name": "guide"}))
    assert (found.session, found.user, found.team, found.agent) == ("s", "u", "t", "guide")


def test_a_failure_that_is_called_a_success_is_one() -> None:
    """LangChain has a reply for it, of which LangSmith tells; the exception is recorded as text."""
    raised = {"exception.type": "Exception", "exception.message": "OpenAIRateLimitError('Error code: 429')Traceback …"}
    reply = generated(lc("AIMessage", content="", response_metadata={"status_code": 429}))
    found = call(run(prompt={"messages": []}, completion=reply, events=[SpanEvent("exception", 0, raised)]))
    assert (found.error_type, found.error_class, found.tokens.output) == ("OpenAIRateLimitError", "provider", 0)
