"""The Vercel AI SDK, from version 3 to 7."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spanfuse_processor.otlp.dialects import dialect_of
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

USER = {"role": "user", "content": [{"type": "text", "text": ASKED}]}
ASKS_4 = {"type": "tool-call", "toolCallId": "t1", "toolName": TOOL, "args": ARGUMENTS}
ASKS_6 = {"type": "tool-call", "toolCallId": "t1", "toolName": TOOL, "input": ARGUMENTS}
BRINGS_4 = {"type": "tool-result", "toolCallId": "t1", "toolName": TOOL, "result": RESULT}
BRINGS_6 = {"type": "tool-result", "toolCallId": "t1", "toolName": TOOL, "output": {"type": "json", "value": RESULT}}


def step(operation: str = "ai.generateText.doGenerate", *, scope: str = "ai", **more: Any) -> Span:
    """A span of the SDK; `more` are attributes with `_` for the first dot, or arguments of `span`."""
    given = {key: more.pop(key) for key in ("id", "parent", "events", "error") if key in more}
    attributes = {
        "ai.operationId": operation,
        "operation.name": f"{operation} guide",
        "ai.telemetry.functionId": "guide",
        "ai.model.provider": "openai.chat",
        "ai.model.id": "gpt-4o-mini",
        **more.pop("attributes", {}),
    }
    return span(attributes, name=operation, kind=1, scope=scope, **given)


@pytest.mark.parametrize(
    ("said", "asks", "brings", "arguments"),
    [
        ("ai.response", ASKS_6, BRINGS_6, {"input": json.dumps(ARGUMENTS)}),
        ("ai.response", ASKS_4, BRINGS_4, {"args": json.dumps(ARGUMENTS), "toolCallType": "function"}),
        ("ai.result", ASKS_4, BRINGS_4, {"args": json.dumps(ARGUMENTS), "toolCallType": "function"}),
    ],
    ids=["5-7", "4", "3"],
)
def test_every_version_tells_what_was_asked_called_and_answered(
    said: str, asks: dict[str, Any], brings: dict[str, Any], arguments: dict[str, Any]
) -> None:
    called = [{"toolCallId": "t1", "toolName": TOOL, **arguments}]
    first = call(step(attributes={"ai.prompt.messages": json.dumps([USER]), f"{said}.toolCalls": json.dumps(called)}))
    assert is_asked(first)
    assert calls_tool(first)
    history = [USER, {"role": "assistant", "content": [asks]}, {"role": "tool", "content": [brings]}]
    last = call(step(attributes={"ai.prompt.messages": json.dumps(history), f"{said}.text": ANSWER}))
    assert hears_result(last)
    assert answers(last)


def test_a_text_beside_tool_calls_is_not_what_the_call_did() -> None:
    called = [{"toolCallId": "t1", "toolName": TOOL, "input": json.dumps(ARGUMENTS)}]
    assert calls_tool(
        call(step(attributes={"ai.response.text": "Let me see.", "ai.response.toolCalls": json.dumps(called)}))
    )


def test_an_object_is_the_answer() -> None:
    found = call(step("ai.streamObject.doStream", attributes={"ai.response.object": '{"city": "Paris"}'}))
    assert found.action is not None
    assert found.called == ()


def test_a_tool() -> None:
    attributes = {
        "ai.toolCall.name": TOOL,
        "ai.toolCall.id": "t1",
        "ai.toolCall.args": json.dumps(ARGUMENTS),
        "ai.toolCall.result": json.dumps(RESULT),
    }
    found = call(step("ai.toolCall", attributes=attributes))
    assert found.kind == "tool"
    assert brings_result(found)


@pytest.mark.parametrize("whole", ["ai.generateText", "ai.streamText", "ai.generateObject", "ai.embedMany"])
def test_spans_around_calls_repeat_their_sums_and_count_nothing(whole: str) -> None:
    usage = {"ai.usage.inputTokens": 2000, "ai.usage.outputTokens": 90}
    inner = step(id=2, parent=1, attributes={"ai.usage.inputTokens": 1000, "ai.usage.outputTokens": 45})
    (found,) = calls(step(whole, id=1, attributes=usage), inner)
    assert (found.tokens.input, found.tokens.output) == (1000, 45)


@pytest.mark.parametrize(
    "usage",
    [
        {
            "ai.usage.inputTokens": 1200,
            "ai.usage.inputTokenDetails.cacheReadTokens": 1024,
            "ai.usage.outputTokens": 50,
            "ai.usage.outputTokenDetails.reasoningTokens": 20,
        },
        {
            "ai.usage.inputTokens": 1200,
            "ai.usage.cachedInputTokens": 1024,
            "ai.usage.outputTokens": 50,
            "ai.usage.reasoningTokens": 20,
        },
    ],
    ids=["6", "5"],
)
def test_tokens_by_class(usage: dict[str, Any]) -> None:
    tokens = call(step(attributes=usage)).tokens
    assert (tokens.input, tokens.cache_read, tokens.output, tokens.reasoning) == (1200, 1024, 50, 20)


def test_tokens_of_version_4() -> None:
    tokens = call(step(attributes={"ai.usage.promptTokens": 1200, "ai.usage.completionTokens": 50})).tokens
    assert (tokens.input, tokens.output) == (1200, 50)


ANTHROPIC = {"input_tokens": 2000, "cache_read_input_tokens": 1024, "cache_creation_input_tokens": 300}


@pytest.mark.parametrize(
    ("usage", "metadata"),
    [
        (
            {
                "inputTokens": 3324,
                "inputTokenDetails.noCacheTokens": 2000,
                "inputTokenDetails.cacheReadTokens": 1024,
                "inputTokenDetails.cacheWriteTokens": 300,
            },
            {"anthropic": {"usage": ANTHROPIC}},
        ),
        (
            {"inputTokens": 2000, "cachedInputTokens": 1024},
            {"anthropic": {"usage": ANTHROPIC, "cacheCreationInputTokens": 300}},
        ),
        ({"promptTokens": 2000}, {"anthropic": {"cacheReadInputTokens": 1024, "cacheCreationInputTokens": 300}}),
        (
            {"inputTokens": 2000, "cachedInputTokens": 1024},
            {"bedrock": {"usage": {"cacheReadInputTokens": 1024, "cacheWriteInputTokens": 300}}},
        ),
    ],
    ids=["6", "5", "4", "5-bedrock"],
)
def test_tokens_of_anthropic_in_every_version(usage: dict[str, int], metadata: dict[str, Any]) -> None:
    stated = {f"ai.usage.{key}": value for key, value in usage.items()}
    tokens = call(step(attributes={**stated, "ai.response.providerMetadata": json.dumps(metadata)})).tokens
    assert (tokens.input, tokens.cache_read, tokens.cache_write) == (3324, 1024, 300)


def test_embeddings_are_model_calls() -> None:
    found = call(step("ai.embed.doEmbed", attributes={"ai.values": ['"a"'], "ai.usage.tokens": 12}))
    assert (found.kind, found.tokens.input) == ("llm", 12)


@pytest.mark.parametrize(
    ("stated", "provider"),
    [
        ("openai.chat", "openai"),
        ("openai.responses", "openai"),
        ("anthropic.messages", "anthropic"),
        ("google.generative-ai", "gcp.gemini"),
        ("google.vertex.chat", "gcp.vertex_ai"),
        ("amazon-bedrock", "aws.bedrock"),
        ("azure-openai.chat", "azure.ai.openai"),
        ("mistral.chat", "mistral_ai"),
        ("xai.chat", "x_ai"),
    ],
)
def test_the_provider_is_named_without_its_interface(stated: str, provider: str) -> None:
    assert call(step(attributes={"ai.model.provider": stated, "gen_ai.system": stated})).provider == provider


@pytest.mark.parametrize("prefix", ["ai.telemetry.metadata.", "ai.settings.context."])
def test_metadata_names_session_user_and_team(prefix: str) -> None:
    found = call(step(attributes={prefix + "sessionId": "s", prefix + "userId": "u", prefix + "team": "t"}))
    assert (found.session, found.user, found.team, found.agent) == ("s", "u", "t", "guide")


@pytest.mark.parametrize("key", ["ai.response.msToFirstChunk", "ai.stream.msToFirstChunk"])
def test_the_first_chunk_comes_after_milliseconds(key: str) -> None:
    assert call(step("ai.streamText.doStream", attributes={key: 250.0})).ttft_ns == 250_000_000


def test_the_first_chunk_is_an_event_in_any_case() -> None:
    first = SpanEvent("ai.stream.firstChunk", NOW_NS + 250_000_000, {})
    assert call(step("ai.streamText.doStream", events=[first])).ttft_ns == 250_000_000


def test_a_tracer_of_ones_own_changes_nothing() -> None:
    assert dialect_of(step(scope="my-app")).name == "vercel"


def test_what_openinference_made_of_the_spans_keeps_the_agent() -> None:
    agent = step("ai.generateText", id=1, attributes={"openinference.span.kind": "AGENT"})
    inner = step(id=2, parent=1, attributes={"openinference.span.kind": "LLM", "llm.token_count.prompt": 1200})
    (found,) = calls(agent, inner)
    assert (dialect_of(inner).name, found.agent, found.tokens.input) == ("openinference", "guide", 1200)


def test_version_7_speaks_the_conventions_under_its_own_scope() -> None:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.client.operation.time_to_first_chunk": 0.25,
        "traceloop.association.properties.session_id": "s",  # a processor of the user's copied it
    }
    found = span(attributes, scope="gen_ai")
    assert dialect_of(found).name == "vercel_genai"
    assert (call(found).ttft_ns, call(found).session) == (250_000_000, "s")
    steps = [span({"gen_ai.operation.name": "agent_step"}, scope="gen_ai", id=9)]
    assert calls(*steps) == ()
