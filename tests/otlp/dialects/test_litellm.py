"""LiteLLM, from 1.60 to 1.110, as a library and as a proxy."""

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
    calls_tool,
    hears_result,
    is_asked,
)
from tests.otlp.fixtures import call, calls, span

CALL = {"id": "t1", "type": "function", "function": {"name": TOOL, "arguments": json.dumps(ARGUMENTS)}}
ASKS = {
    "gen_ai.completion.0.function_call.name": TOOL,
    "gen_ai.completion.0.function_call.arguments": json.dumps(ARGUMENTS),
}


def request(kind: str = "acompletion", *, name: str = "litellm_request", **more: Any) -> Span:
    attributes = {
        "metadata.user_api_key_hash": "",
        "metadata.user_api_key_team_alias": "",
        "llm.request.type": kind,
        "gen_ai.system": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "llm.is_streaming": "False",
        **more.pop("attributes", {}),
    }
    return span(attributes, name=name, kind=1, scope="litellm", **more)


def parts(*texts: str, **more: Any) -> str:
    return json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": text} for text in texts], **more}])


def user() -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "content": ASKED}]}


@pytest.mark.parametrize("texts", [(), ("Let me see.",)], ids=["alone", "beside-a-text"])
def test_tool_calls_stand_apart_from_the_messages(texts: tuple[str, ...]) -> None:
    said = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps([user()]),
        "gen_ai.output.messages": parts(*texts, finish_reason="tool_calls"),
        "gen_ai.response.finish_reasons": '["tool_calls"]',
    }
    found = call(request(attributes=said | ASKS))
    assert is_asked(found)
    assert calls_tool(found)
    assert found.finish_reason == "tool_calls"


def test_each_of_several_tool_calls_has_a_number_of_its_own() -> None:
    second = {"gen_ai.completion.1.function_call.name": "b", "gen_ai.completion.1.function_call.arguments": "{}"}
    assert call(request(attributes={"gen_ai.output.messages": parts(), **ASKS, **second})).called == (TOOL, "b")


def test_tool_calls_that_are_among_the_messages_are_not_told_twice() -> None:
    assert calls_tool(call(request(attributes={"gen_ai.output.messages": parts(tool_calls=[CALL]), **ASKS})))


def test_the_next_call_hears_the_result() -> None:
    history = [
        user(),
        {"role": "assistant", "parts": [], "tool_calls": [CALL]},
        {"role": "tool", "parts": [{"type": "text", "content": json.dumps(RESULT)}], "tool_call_id": "t1"},
    ]
    last = call(
        request(attributes={"gen_ai.input.messages": json.dumps(history), "gen_ai.output.messages": parts(ANSWER)})
    )
    assert hears_result(last)
    assert answers(last)


@pytest.mark.parametrize(
    ("prompt", "completion"),
    [
        ("gen_ai.prompt", "gen_ai.completion"),
        ("SpanAttributes.LLM_PROMPTS", "SpanAttributes.LLM_COMPLETIONS"),  # under Python 3.11
    ],
)
def test_older_versions_flatten_their_messages(prompt: str, completion: str) -> None:
    said = {
        f"{prompt}.0.role": "user",
        f"{prompt}.0.content": str([{"type": "text", "text": ASKED}]),
        f"{completion}.0.role": "assistant",
        f"{completion}.0.finish_reason": "tool_calls",
        f"{completion}.0.function_call.name": TOOL,
        f"{completion}.0.function_call.arguments": json.dumps(ARGUMENTS),
        "gen_ai.usage.prompt_tokens": 1200,
        "gen_ai.usage.completion_tokens": 50,
    }
    found = call(request(attributes=said))
    assert is_asked(found)
    assert calls_tool(found)
    assert (found.tokens.input, found.tokens.output, found.finish_reason) == (1200, 50, "tool_calls")


@pytest.mark.parametrize(
    "usage",
    [
        "{'prompt_tokens': 1500, 'completion_tokens': 50, 'completion_tokens_details': {'reasoning_tokens': 20}, "
        "'prompt_tokens_details': {'cached_tokens': 1024}, 'cache_creation_input_tokens': 300}",
        "{'prompt_tokens': 1500, 'completion_tokens': 50, 'completion_tokens_details': CompletionTokensDetailsWrapper("
        "reasoning_tokens=20, text_tokens=None), 'prompt_tokens_details': PromptTokensDetailsWrapper(cached_tokens=1024, "
        "audio_tokens=None), 'cache_creation_input_tokens': 300, 'cache_read_input_tokens': 1024}",
        json.dumps(
            {
                "prompt_tokens": 1500,
                "completion_tokens": 50,
                "completion_tokens_details": {"reasoning_tokens": 20},
                "prompt_tokens_details": {"cached_tokens": 1024},
                "cache_creation_input_tokens": 300,
            }
        ),
    ],
    ids=["python", "objects", "json"],
)
def test_the_cache_is_in_what_python_writes_for_the_usage(usage: str) -> None:
    tokens = call(request(attributes={"metadata.usage_object": usage})).tokens
    assert (tokens.input, tokens.cache_read, tokens.cache_write) == (1500, 1024, 300)
    assert (tokens.output, tokens.reasoning) == (50, 20)


def test_what_was_sent_is_no_call_whatever_its_span_is_named() -> None:
    raw = {"llm.openai.messages": "[{'role': 'user', 'content': 'x'}]", "llm.openai.model": "gpt-4o-mini"}
    inner = [
        span(raw, id=i, parent=1, name=name, kind=1, scope="litellm")
        for i, name in ((2, "raw_gen_ai_request"), (3, "my generation"))
    ]
    assert len(calls(request(id=1), *inner)) == 1


@pytest.mark.parametrize(
    "kind", ["completion", "acompletion", "anthropic_messages", "aresponses", "atext_completion", "aembedding"]
)
def test_model_calls_of_every_type_count(kind: str) -> None:
    assert call(request(kind)).kind == "llm"


@pytest.mark.parametrize("kind", ["arerank", "aimage_generation", "atranscription", "call_mcp_tool"])
def test_calls_of_other_types_do_not(kind: str) -> None:
    assert calls(request(kind)) == ()


def test_the_proxy_knows_whose_key_was_used() -> None:
    said = {
        "metadata.user_api_key_team_alias": "payments",
        "metadata.user_api_key_team_id": "t1",
        "metadata.user_api_key_user_id": "admin",
        "metadata.user_api_key_end_user_id": "user-7",
    }
    found = call(request(name="Received Proxy Server Request", attributes=said))
    assert (found.team, found.user) == ("payments", "user-7")


def test_the_cost_is_that_of_the_breakdown_or_of_the_hidden_parameters() -> None:
    for said in ({"gen_ai.cost.total_cost": 0.003}, {"hidden_params": '{"response_cost": 0.003}'}):
        found = call(request(attributes=said))
        assert (found.cost_nano_usd, found.cost_source) == (3_000_000, "reported")


def test_clients_of_the_proxy_say_whose_a_request_is_in_its_metadata() -> None:
    said = {"metadata.requester_metadata": "{'session_id': 's', 'user_id': 'u', 'team': 't'}"}
    found = call(request(attributes=said))
    assert (found.session, found.user, found.team) == ("s", "u", "t")


def raw(id: int, provider: str, usage: dict[str, Any], **more: Any) -> Span:
    """What was sent to a provider, and what came back."""
    key = f"llm.{provider}."
    said = {"messages": [{"role": "user", "content": ASKED}], "model": "gpt-4o-mini", "id": f"{provider}-{id}", **more}
    attributes = {key + name: value if isinstance(value, str) else str(value) for name, value in said.items()}
    attributes[key + "usage"] = str(usage)
    return span(attributes, id=id, parent=1, at=id, name="raw_gen_ai_request", kind=1, scope="litellm")


def test_calls_that_wrote_over_one_another_on_a_span_under_way_all_count() -> None:
    """Newer versions put what they know of a call on the span that they find, each over the last."""
    usage = {"prompt_tokens": 1200, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 1024}}
    asks = [{"finish_reason": "tool_calls", "index": 0, "message": {"role": "assistant", "tool_calls": [CALL]}}]
    last = {"gen_ai.agent.name": "guide", "gen_ai.operation.name": "chat", "gen_ai.response.id": "openai-2"}
    loop = request(name="invoke_agent guide", attributes=last, id=1, lasts=9)
    found = calls(raw(2, "openai", usage, choices=asks), raw(3, "openai", usage, choices=asks), loop)
    assert [(c.tokens.input, c.tokens.cache_read, c.tokens.output, c.agent) for c in found] == [
        (1200, 1024, 50, "guide")
    ] * 2
    assert all(map(is_asked, found))
    assert all(map(calls_tool, found))


def test_what_anthropic_answered_is_the_call_that_holds_it() -> None:
    """LiteLLM's own id of the response is another."""
    usage = {
        "input_tokens": 176,
        "cache_read_input_tokens": 1024,
        "cache_creation_input_tokens": 300,
        "output_tokens": 50,
    }
    content = [{"type": "tool_use", "id": "t1", "name": TOOL, "input": ARGUMENTS}]
    inner = raw(2, "anthropic", usage, content=content, stop_reason="tool_use")
    alone = call(inner)
    assert (alone.tokens.input, alone.tokens.cache_read, alone.tokens.cache_write) == (1500, 1024, 300)
    assert calls_tool(alone)
    outer = request(attributes={"gen_ai.response.id": "chatcmpl-1", "gen_ai.usage.input_tokens": 1500}, id=1, lasts=9)
    assert [c.tokens.input for c in calls(inner, outer)] == [1500]


@pytest.mark.parametrize("session", [{"metadata": {"session_id": "s"}}, {"litellm_session_id": "s"}])
def test_the_parameters_of_a_request_say_whose_it_is(session: dict[str, Any]) -> None:
    """As OpenInference records them."""
    metadata = {**session.get("metadata", {}), "team": "t"}
    parameters = {"model": "gpt-4o-mini", "user": "u", **session, "metadata": metadata}
    attributes = {"openinference.span.kind": "LLM", "llm.invocation_parameters": json.dumps(parameters)}
    found = call(span(attributes, scope="openinference.instrumentation.litellm"))
    assert (found.session, found.session_source, found.user, found.team) == ("s", "explicit", "u", "t")
