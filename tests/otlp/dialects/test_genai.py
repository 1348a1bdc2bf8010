"""The OpenTelemetry GenAI conventions, current and as they were."""

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

CALL = {"id": "t1", "type": "function", "function": {"name": TOOL, "arguments": json.dumps(ARGUMENTS)}}
USER = {"role": "user", "parts": [{"type": "text", "content": ASKED}]}
DETAILS = "gen_ai.client.inference.operation.details"


def chat(attributes: dict[str, Any] | None = None, *events: SpanEvent, **more: Any) -> Span:
    base = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o-mini", "gen_ai.system": "openai"}
    return span(base | (attributes or {}), events=list(events), **more)


def event(name: str, **attributes: Any) -> SpanEvent:
    return SpanEvent(name, NOW_NS, attributes)


def asks(arguments: Any) -> dict[str, Any]:
    part = {"type": "tool_call", "id": "t1", "name": TOOL, "arguments": arguments}
    return {"role": "assistant", "parts": [part], "finish_reason": "tool_call"}


def brings(key: str, role: str = "tool") -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "tool_call_response", "id": "t1", key: json.dumps(RESULT)}]}


@pytest.mark.parametrize("form", [json.dumps, lambda value: value, str], ids=["json", "structured", "python"])
@pytest.mark.parametrize("arguments", [ARGUMENTS, json.dumps(ARGUMENTS)], ids=["object", "text"])
@pytest.mark.parametrize(("key", "role"), [("response", "tool"), ("result", "user"), ("content", "tool")])
def test_messages_in_whatever_form(form: Any, arguments: Any, key: str, role: str) -> None:
    first = call(chat({"gen_ai.input.messages": form([USER]), "gen_ai.output.messages": form([asks(arguments)])}))
    assert is_asked(first)
    assert calls_tool(first)
    assert first.finish_reason == "tool_calls"
    history = [USER, asks(arguments), brings(key, role)]
    said = {"role": "assistant", "parts": [{"type": "text", "content": ANSWER}], "finish_reason": "stop"}
    last = call(chat({"gen_ai.input.messages": form(history), "gen_ai.output.messages": form([said])}))
    assert hears_result(last)
    assert answers(last)


def test_messages_in_the_events_of_details() -> None:
    together = event(
        DETAILS, **{"gen_ai.input.messages": json.dumps([USER]), "gen_ai.output.messages": [asks(ARGUMENTS)]}
    )
    apart = [
        event(DETAILS, **{"gen_ai.input.messages": json.dumps([USER])}),
        event(DETAILS, **{"gen_ai.output.messages": json.dumps([asks(ARGUMENTS)])}),
    ]
    for found in (call(chat(None, together)), call(chat(None, *apart))):
        assert is_asked(found)
        assert calls_tool(found)


@pytest.mark.parametrize("wrapped", [False, True], ids=["fields", "one-attribute"])
def test_one_event_a_message(wrapped: bool) -> None:
    """As spans had them, or as log records have them: structured, as JSON, or all in one attribute."""

    def said(name: str, **body: Any) -> SpanEvent:
        return event(
            name, **({"gen_ai.system": "openai", "gen_ai.event.content": json.dumps(body)} if wrapped else body)
        )

    user = said("gen_ai.user.message", content=ASKED)
    choice = said(
        "gen_ai.choice", index=0, finish_reason="tool_calls", message={"role": "assistant", "tool_calls": [CALL]}
    )
    first = call(chat(None, user, choice))
    assert is_asked(first)
    assert calls_tool(first)
    assert first.finish_reason == "tool_calls"
    history = [
        user,
        said("gen_ai.assistant.message", tool_calls=[CALL]),
        said("gen_ai.tool.message", id="t1", content=json.dumps(RESULT)),
    ]
    last = call(chat(None, *history, said("gen_ai.choice", index=0, finish_reason="stop", message={"content": ANSWER})))
    assert hears_result(last)
    assert answers(last)


def test_an_event_whose_attributes_are_json() -> None:
    choice = event("gen_ai.choice", message=json.dumps({"role": "assistant", "tool_calls": [CALL]}), index="0")
    assert calls_tool(call(chat(None, choice)))


def test_the_first_events_held_prompt_and_completion() -> None:
    prompt = event("gen_ai.content.prompt", **{"gen_ai.prompt": json.dumps([{"role": "user", "content": ASKED}])})
    message = {"role": "assistant", "tool_calls": [CALL]}
    completion = event("gen_ai.content.completion", **{"gen_ai.completion": json.dumps([message])})
    found = call(chat(None, prompt, completion))
    assert is_asked(found)
    assert calls_tool(found)


@pytest.mark.parametrize("prompt", [ASKED, json.dumps({"messages": [{"role": "user", "content": ASKED}]})])
def test_prompt_and_completion_in_one_attribute_each(prompt: str) -> None:
    found = call(chat({"gen_ai.prompt": prompt, "gen_ai.completion": ANSWER}))
    assert is_asked(found)
    assert answers(found)


@pytest.mark.parametrize(
    "usage",
    [
        {
            "gen_ai.usage.input_tokens": 1500,
            "gen_ai.usage.output_tokens": 50,
            "gen_ai.usage.cache_read.input_tokens": 1024,
            "gen_ai.usage.cache_write.input_tokens": 300,
            "gen_ai.usage.reasoning.output_tokens": 20,
        },
        {
            "gen_ai.usage.prompt_tokens": "1500",
            "gen_ai.usage.completion_tokens": "50",
            "gen_ai.usage.cache_read_input_tokens": "1024",
            "gen_ai.usage.cache_creation_input_tokens": "300",
            "gen_ai.usage.reasoning_tokens": "20",
        },
        {
            "gen_ai.usage.input_tokens": 1500.0,
            "gen_ai.usage.output_tokens": 50.0,
            "gen_ai.usage.details.cache_read_tokens": 1024,
            "gen_ai.usage.details.cache_write_tokens": 300,
            "gen_ai.usage.details.reasoning_tokens": 20,
        },
    ],
    ids=["now", "then-as-text", "details"],
)
def test_tokens_under_the_names_of_every_version(usage: dict[str, Any]) -> None:
    tokens = call(chat(usage)).tokens
    assert (tokens.input, tokens.cache_read, tokens.cache_write) == (1500, 1024, 300)
    assert (tokens.output, tokens.reasoning) == (50, 20)


@pytest.mark.parametrize(
    "reasons",
    [
        ["tool_calls"],
        '["tool_calls"]',
        ("tool_call",),
        "tool-calls",
        "['tool_calls']",
        '"tool_calls"',
        "FinishReason.TOOL_CALLS",
    ],
)
def test_finish_reasons_in_whatever_form(reasons: Any) -> None:
    assert call(chat({"gen_ai.response.finish_reasons": reasons})).finish_reason == "tool_calls"


def test_a_tool_by_attributes_and_by_events() -> None:
    base = {"gen_ai.operation.name": "execute_tool"}
    stated = {"gen_ai.tool.name": TOOL, "gen_ai.tool.call.id": "t1"}
    data = {"gen_ai.tool.call.arguments": json.dumps(ARGUMENTS), "gen_ai.tool.call.result": json.dumps(RESULT)}
    assert brings_result(call(span(base | stated | data, name=f"execute_tool {TOOL}")))
    asked = event("gen_ai.tool.message", role="tool", content=json.dumps(ARGUMENTS), id="t1")
    brought = event("gen_ai.choice", message=json.dumps(RESULT), id="t1")
    assert brings_result(call(span(base | stated, events=[asked, brought])))
    assert brings_result(call(span(base | data, name=f"execute_tool {TOOL}")))


@pytest.mark.parametrize(
    "operation", ["invoke_agent", "create_agent", "invoke_workflow", "agent_step", "plan", "retrieval"]
)
def test_operations_that_are_no_calls(operation: str) -> None:
    assert (
        calls(
            span({"gen_ai.operation.name": operation, "gen_ai.request.model": "gpt-4o", "gen_ai.usage.input_tokens": 9})
        )
        == ()
    )


def test_a_text_that_begins_like_json_is_a_text() -> None:
    for text in ("[1] See the paper.", "{name} asks", "[INST] Hello [/INST]"):
        found = call(chat({"gen_ai.prompt": text}))
        assert found.input is not None
        assert found.input.exact


@pytest.mark.parametrize("form", [str, json.dumps], ids=["text", "quoted"])
def test_an_answer_that_is_json_is_what_the_next_call_answers(form: Any) -> None:
    answer = '{"city": "Paris", "temp": 21}'
    said = call(chat({"gen_ai.prompt": ASKED, "gen_ai.completion": form(answer)}))
    history = [
        {"role": "user", "content": ASKED},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": "Go on."},
    ]
    assert call(chat({"gen_ai.input.messages": json.dumps(history)})).answers == said.action


def test_lists_in_lists_without_end_are_no_messages() -> None:
    assert call(chat({"gen_ai.prompt": "[" * 900 + "]" * 900})).kind == "llm"


def test_json_that_was_cut_has_no_identity() -> None:
    whole = json.dumps([USER])
    assert call(chat({"gen_ai.input.messages": whole[:40]})).input == f":{40}"
