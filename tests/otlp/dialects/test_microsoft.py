"""AutoGen, Semantic Kernel and Microsoft's Agent Framework."""

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
    of_models,
)
from tests.otlp.fixtures import NOW_NS, call, calls, span

KERNEL = "semantic_kernel.utils.telemetry.model_diagnostics.decorators"


def record(name: str, body: Any) -> SpanEvent:
    """A log record of Semantic Kernel, whose body is the JSON text of a message."""
    return SpanEvent(name, NOW_NS, {"gen_ai.system": "openai", "event.name": name, "body": json.dumps(body)})


def chat(scope: str, *events: SpanEvent, **attributes: Any) -> Span:
    given = {
        "gen_ai.operation.name": "chat",
        "gen_ai.system": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.usage.input_tokens": 1200,
        "gen_ai.usage.output_tokens": 50,
        **attributes,
    }
    return span(given, id=2, parent=1, kind=1, events=list(events), scope=scope, name="chat gpt-4o-mini")


def test_semantic_kernels_messages_are_log_records() -> None:
    asked = {"id": "c1", "type": "function", "function": {"name": TOOL, "arguments": json.dumps(ARGUMENTS)}}
    assistant = {"role": "assistant", "tool_calls": [asked]}
    user = record("gen_ai.user.message", {"role": "user", "content": ASKED})
    choice = record("gen_ai.choice", {"message": assistant, "finish_reason": "tool_calls", "index": 0})
    first = call(chat(KERNEL, user, choice, **{"gen_ai.response.finish_reason": "FinishReason.TOOL_CALLS"}))
    assert is_asked(first)
    assert calls_tool(first)
    assert first.finish_reason == "tool_calls"
    got = {"role": "tool", "content": json.dumps(RESULT), "tool_call_id": "c1"}
    said = record("gen_ai.choice", {"message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"})
    events = (user, record("gen_ai.assistant.message", assistant), record("gen_ai.tool.message", got), said)
    second = call(chat(KERNEL, *events))
    assert hears_result(second)
    assert answers(second)
    assert second.finish_reason == "stop"


def test_a_stream_of_semantic_kernel_is_a_model_call() -> None:
    named = {"gen_ai.operation.name": "chat.streaming_completions"}
    assert call(chat(KERNEL, **named)).tokens.input == 1200


def test_a_text_completion_has_its_prompt_as_a_record() -> None:
    prompt = SpanEvent("gen_ai.prompt", NOW_NS, {"body": ASKED})
    assert is_asked(call(chat(KERNEL, prompt, **{"gen_ai.operation.name": "text_completion"})))


def test_a_kernel_function_is_a_tool() -> None:
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": TOOL, "gen_ai.tool.call.id": "c1"}
    given = {"gen_ai.tool.call.arguments": json.dumps(ARGUMENTS), "gen_ai.tool.call.result": json.dumps(RESULT)}
    scope = "semantic_kernel.functions.kernel_function"
    assert brings_result(call(span(named | given, kind=1, scope=scope, name=f"execute_tool {TOOL}")))


def test_a_type_as_python_writes_it_is_a_type() -> None:
    failed = chat(KERNEL, **{"error.type": "<class 'openai.RateLimitError'>"})
    failed.status_code = 2
    found = call(failed)
    assert (found.error_type, found.error_class) == ("openai.RateLimitError", "provider")


def test_semantic_kernel_of_dotnet_has_the_content_in_span_events() -> None:
    content = {"gen_ai.event.content": json.dumps({"role": "user", "content": ASKED})}
    said = {"gen_ai.event.content": json.dumps({"message": {"role": "assistant", "content": ANSWER}})}
    events = [SpanEvent("gen_ai.user.message", NOW_NS, content), SpanEvent("gen_ai.choice", NOW_NS, said)]
    usage = {"gen_ai.response.prompt_tokens": 7, "gen_ai.response.completion_tokens": 3}
    attributes = {"gen_ai.operation.name": "chat.completions", "gen_ai.request.model": "gpt-4o", **usage}
    found = call(
        span(attributes, events=events, scope="Microsoft.SemanticKernel.Diagnostics", name="chat.completions gpt-4o")
    )
    assert is_asked(found)
    assert answers(found)
    assert (found.tokens.input, found.tokens.output) == (7, 3)


@pytest.mark.parametrize("finish", ['["tool_calls"]', ["tool_calls"], "tool_calls"])
def test_agent_framework_repeats_the_sums_in_its_agents_span(finish: Any) -> None:
    sums = {"gen_ai.usage.input_tokens": 2400, "gen_ai.usage.output_tokens": 100}
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "geo", "gen_ai.request.model": "gpt-4o-mini"}
    outer = span(
        {**agent, **sums, "gen_ai.provider.name": "microsoft.agent_framework"},
        id=1,
        scope="agent_framework",
        name="invoke_agent geo",
        lasts=9,
    )
    model = chat("agent_framework", **{"gen_ai.response.finish_reasons": finish, "gen_ai.provider.name": "openai"})
    (found,) = calls(outer, model)
    assert (found.tokens.input, found.agent, found.provider) == (1200, "geo", "openai")
    assert found.finish_reason == "tool_calls"


def test_the_framework_is_no_provider() -> None:
    for name in ("microsoft.agent_framework", "autogen"):
        assert call(chat("agent_framework", **{"gen_ai.provider.name": name})).provider == "openai"


def test_autogen_has_tools_and_agents_and_leaves_model_calls_to_others() -> None:
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.system": "autogen", "gen_ai.agent.name": "geo"}
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.system": "autogen", "gen_ai.tool.name": TOOL}
    message = {"messaging.operation": "process", "message": '{"models_usage": {"prompt_tokens": 1200}}'}
    model = chat("opentelemetry.instrumentation.openai_v2")
    found = calls(
        span({**agent, "gen_ai.operation.name": "create_agent"}, id=8, scope="autogen-core", name="create_agent geo"),
        span(agent, id=1, scope="autogen-core", name="invoke_agent geo", lasts=9),
        model,
        span(named, id=3, parent=1, at=2, kind=1, scope="autogen-core", name=f"execute_tool {TOOL}"),
        span(message, id=4, parent=1, kind=5, scope="autogen SingleThreadedAgentRuntime", name="autogen process geo"),
    )
    assert [(c.kind, c.agent) for c in found] == [("llm", "geo"), ("tool", "geo")]
    assert [c.tokens.input for c in of_models(found)] == [1200]
    assert (found[1].called, found[1].content) == ((TOOL,), "structure")
