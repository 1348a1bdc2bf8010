"""Spans of Anthropic's own SDK, alone and inside those of others."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse_processor.otlp.span import Span
from tests.otlp.dialects.steps import ARGUMENTS, RESULT, TOOL, brings_result, of_models
from tests.otlp.fixtures import call, calls, span

SCOPE = "com.anthropic.sdk.python"


def create(id: int = 2, parent: int = 0, response: str = "msg_1", scope: str = SCOPE, **more: Any) -> Span:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-sonnet-4-5",
        "gen_ai.response.id": response,
        "gen_ai.usage.input_tokens": 1500,
        "gen_ai.usage.cache_read.input_tokens": 1024,
        "gen_ai.usage.cache_write.input_tokens": 300,
        "gen_ai.usage.output_tokens": 50,
        "anthropic.message.stop_reason": "tool_use",
    }
    return span(attributes, id=id, parent=parent, scope=scope, name="anthropic.messages.create", **more)


def test_a_call_has_tokens_and_an_end_and_no_content() -> None:
    found = call(create())
    tokens = found.tokens
    assert (tokens.input, tokens.cache_read, tokens.cache_write, tokens.output) == (1500, 1024, 300, 50)
    assert (found.provider, found.finish_reason, found.content) == ("anthropic", "tool_calls", "structure")


@pytest.mark.parametrize("name", ["messages.count_tokens", "sessions.create", "messages.batches.create", "models.list"])
def test_other_methods_are_no_model_calls(name: str) -> None:
    """Though some name a model."""
    attributes = {"gen_ai.request.model": "claude-sonnet-4-5", "gen_ai.provider.name": "anthropic"}
    assert calls(span(attributes, scope=SCOPE, name=f"anthropic.{name}")) == ()


@pytest.mark.parametrize("scope", ["com.anthropic.claude-platform", "com.anthropic.sdk.python.bedrock"])
def test_spans_of_one_request_count_once(scope: str) -> None:
    """The API's own inside the SDK's, and both inside those of whatever else traces the client."""
    outer = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "claude-sonnet-4-5",
        "llm.token_count.prompt": 1500,
        "llm.token_count.completion": 50,
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "hi",
    }
    whole = span(outer, id=1, kind=1, lasts=3, scope="openinference.instrumentation.anthropic", name="Messages")
    inner = create(id=3, parent=2, lasts=1, at=0.5, scope=scope)
    found = of_models(calls(whole, create(parent=1, lasts=2), inner))
    assert [(c.tokens.input, c.content) for c in found] == [(1500, "content")]


def test_a_tool_runner_is_an_agent_and_its_tools_are_tools() -> None:
    runner = {"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "claude-sonnet-4-5"}
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": TOOL, "anthropic.session.id": "sesn_1"}
    given = {
        "gen_ai.tool.call.arguments": str(ARGUMENTS).replace("'", '"'),
        "anthropic.tool_result.content": str(RESULT).replace("'", '"'),
    }
    found = calls(
        span(runner, id=1, kind=1, scope=SCOPE, name="anthropic.messages.tool_runner", lasts=9),
        create(parent=1),
        span(named | given, id=3, parent=1, kind=1, at=2, scope=SCOPE, name=f"anthropic.custom_tool_use {TOOL}"),
        create(id=4, parent=1, at=4, response="msg_2"),
    )
    assert [c.kind for c in found] == ["llm", "tool", "llm"]
    assert brings_result(found[1])
    assert found[1].session == "sesn_1"
