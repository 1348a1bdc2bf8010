"""Pydantic AI, from 0.8 to 2.x."""

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
    of_models,
)
from tests.otlp.fixtures import call, calls, normaliser, span

SCOPE = "pydantic-ai"
MADE_UP = "01a2271d-2738-76c0-b16b-82dce2ef19ea"


def event(kind: str, index: int, **body: Any) -> dict[str, Any]:
    return {**body, "gen_ai.message.index": index, "event.name": f"gen_ai.{kind}"}


USER = event("user.message", 0, role="user", content=ASKED)
CALL = {
    "role": "assistant",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": TOOL, "arguments": ARGUMENTS}}],
}


def chat(events: list[Any] | str | None = None, id: int = 2, **more: Any) -> Span:
    """As version 1 of the format has it, whose spans are internal."""
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.system": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.usage.input_tokens": 1200,
        "gen_ai.usage.output_tokens": 50,
        **more.pop("attributes", {}),
    }
    if events is not None:
        attributes["events"] = events if isinstance(events, str) else json.dumps(events)
    return span(attributes, id=id, kind=1, scope=SCOPE, name="chat gpt-4o-mini", **more)


def agent_run(**attributes: Any) -> Span:
    return span(
        {"agent_name": "geo", "model_name": "gpt-4o-mini", **attributes},
        id=1,
        kind=1,
        scope=SCOPE,
        name="agent run",
        lasts=9,
    )


def test_messages_are_a_list_of_events_in_one_attribute() -> None:
    choice = {"index": 0, "message": CALL, "event.name": "gen_ai.choice"}
    first = call(chat([USER, choice]))
    assert is_asked(first)
    assert calls_tool(first)
    result = event("tool.message", 2, role="tool", content=RESULT, id="c1", name=TOOL)
    last = event("choice", 3, message={"role": "assistant", "content": ANSWER})
    second = call(chat([USER, event("assistant.message", 1, **CALL), result, last]))
    assert hears_result(second)
    assert answers(second)


def test_parts_have_a_kind_in_place_of_a_type() -> None:
    parts = [{"kind": "thinking", "text": "hm"}, {"kind": "text", "text": ANSWER}]
    choice = {"message": {"role": "assistant", "content": parts}, "event.name": "gen_ai.choice"}
    found = call(chat([event("user.message", 0, role="user", content=[{"kind": "text", "text": ASKED}]), choice]))
    assert is_asked(found)
    assert answers(found)


@pytest.mark.parametrize("events", ["", "[", "null", "[1, null]", '[{"event.name": 7}]', '{"a": 1}', "no json"])
def test_a_list_that_cannot_be_read_is_no_content(events: str) -> None:
    found = call(chat(events))
    assert (found.content, found.tokens.input) == ("structure", 1200)


def test_the_sums_of_an_agent_run_are_not_billed_and_its_name_is_known() -> None:
    run = agent_run(**{"gen_ai.usage.input_tokens": 2400, "gen_ai.usage.output_tokens": 100})
    found = calls(run, chat(id=2, parent=1), chat(id=3, parent=1, at=2))
    assert [(c.tokens.input, c.agent) for c in found] == [(1200, "geo")] * 2


def test_an_agents_span_may_be_told_by_its_name_alone() -> None:
    """Version 3 of the format has no operation on it."""
    run = agent_run(**{"gen_ai.agent.name": "geo", "gen_ai.usage.input_tokens": 2400})
    run.name = "invoke_agent geo"
    (found,) = calls(run, chat(parent=1))
    assert (found.tokens.input, found.agent) == (1200, "geo")


@pytest.mark.parametrize(
    "names",
    [("tool_arguments", "tool_response"), ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result")],
)
def test_tools_have_no_operation_in_old_versions(names: tuple[str, str]) -> None:
    given = {names[0]: json.dumps(ARGUMENTS), names[1]: json.dumps(RESULT)}
    attributes = {"gen_ai.tool.name": TOOL, "gen_ai.tool.call.id": "c1", **given}
    tool = span(attributes, id=3, parent=2, kind=1, scope=SCOPE, name="running tool")
    group = span({"tools": [TOOL]}, id=2, parent=1, kind=1, scope=SCOPE, name="running 1 tool")
    (found,) = calls(agent_run(), group, tool)
    assert found.kind == "tool"
    assert brings_result(found)


@pytest.mark.parametrize(
    ("details", "read", "write", "reasoning"),
    [
        ({"cached_tokens": 1024, "reasoning_tokens": 20}, 1024, 0, 20),
        ({"cache_read_input_tokens": 1024, "cache_creation_input_tokens": 100, "input_tokens": 76}, 1024, 100, 0),
        ({"cached_content_tokens": 1024, "thoughts_tokens": 20}, 1024, 0, 20),
        ({"cache_read_tokens": "1024", "cache_write_tokens": 100}, 1024, 100, 0),
    ],
)
def test_details_are_named_as_the_provider_names_them(
    details: dict[str, Any], read: int, write: int, reasoning: int
) -> None:
    found = call(chat(attributes={f"gen_ai.usage.details.{key}": value for key, value in details.items()})).tokens
    assert (found.input, found.cache_read, found.cache_write, found.reasoning) == (1200, read, write, reasoning)


def test_a_session_that_a_user_names_is_surer_than_one_that_was_made_up() -> None:
    made_up = {"gen_ai.conversation.id": MADE_UP}
    alone = calls(agent_run(**made_up), chat(parent=1, attributes=made_up))
    assert {(c.session, c.session_source) for c in alone} == {(MADE_UP, "explicit")}
    request = span({"session.id": "s-1", "user.id": "u-1"}, id=9, scope="my.app", name="POST /chat", lasts=10)
    run = agent_run(**made_up, metadata='{"team": "geo-team"}')
    run.parent_span_id = request.span_id
    other = span({"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}, id=4, parent=1, at=3)
    under = calls(request, run, chat(parent=1, attributes=made_up), other)
    assert {(c.session, c.user, c.team) for c in under} == {("s-1", "u-1", "geo-team")}
    without = calls(agent_run(**made_up), other)
    assert {(c.session, c.session_source) for c in without} == {(MADE_UP, "inherited")}


def test_a_call_stays_where_it_was_counted() -> None:
    """The content of a call that was logged comes after its parents, which name another session."""
    made_up = {"gen_ai.conversation.id": MADE_UP}
    inside = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", "session.id": "s-2"}
    memory = normaliser()
    first = calls(chat(id=2, parent=1, attributes=made_up), using=memory)
    request = span({"session.id": "s-1"}, id=9, scope="my.app", name="POST /chat", lasts=10)
    run = agent_run(**made_up)
    run.parent_span_id = request.span_id
    assert not calls(run, request, using=memory)
    again = calls(chat(id=2, parent=1, attributes=made_up), using=memory)
    client = calls(span(inside, id=3, parent=2, lasts=0.5), using=memory)
    assert [c.session for c in (*first, *again, *client)] == [MADE_UP] * 3


def test_new_messages_have_their_results_under_another_name() -> None:
    """2.x: `result` in messages of the user, arguments as JSON text."""
    asked = {"type": "tool_call", "id": "c1", "name": TOOL, "arguments": json.dumps(ARGUMENTS)}
    got = {"type": "tool_call_response", "id": "c1", "name": TOOL, "result": json.dumps(RESULT)}
    messages = [
        {"role": "user", "parts": [{"type": "text", "content": ASKED}]},
        {"role": "assistant", "parts": [asked], "finish_reason": "tool_call"},
        {"role": "user", "parts": [got]},
    ]
    for value in (messages, json.dumps(messages)):
        found = call(chat(attributes={"gen_ai.input.messages": value}))
        assert hears_result(found)


def test_anthropics_own_span_inside_counts_once() -> None:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-sonnet-4-5",
        "gen_ai.usage.input_tokens": 1200,
        "gen_ai.response.id": "msg_1",
        "gen_ai.response.time_to_first_chunk": 0.25,
    }
    own = span(
        attributes, id=3, parent=2, lasts=0.5, scope="com.anthropic.sdk.python", name="anthropic.messages.create"
    )
    found = of_models(calls(agent_run(), chat([USER], parent=1, attributes={"gen_ai.response.id": "msg_1"}), own))
    assert [(c.tokens.input, c.content, c.ttft_ns) for c in found] == [(1200, "content", 250_000_000)]


def test_messages_without_their_contents_are_no_content() -> None:
    """With `include_content=False` there are parts, and in them nothing: all that is asked and done would look the same."""
    asked = {"type": "tool_call", "id": "c1", "name": TOOL}
    got = {"type": "tool_call_response", "id": "c1", "name": TOOL}
    messages = [
        {"role": "user", "parts": [{"type": "text"}]},
        {"role": "assistant", "parts": [asked]},
        {"role": "user", "parts": [got]},
    ]
    attributes = {
        "gen_ai.input.messages": json.dumps(messages),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [asked], "finish_reason": "tool_call"}]),
    }
    found = call(chat(attributes=attributes))
    assert (found.content, found.history, found.input, found.action) == ("structure", 0, None, None)
    events = [
        event("user.message", 0, role="user", content={"kind": "text"}),
        event("choice", 1, message={"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": TOOL}}]}),
    ]
    assert call(chat(events)).content == "structure"


@pytest.mark.parametrize("arguments", [{}, {"n": 1}, {"n": 0}, {"deep": [False]}, "{}"])
def test_a_call_without_a_text_in_its_arguments_is_content_where_the_rest_is(arguments: Any) -> None:
    messages = [{"role": "user", "parts": [{"type": "text", "content": ASKED}]}]
    reply = [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": TOOL, "arguments": arguments}]}]
    attributes = {"gen_ai.input.messages": json.dumps(messages), "gen_ai.output.messages": json.dumps(reply)}
    found = call(chat(attributes=attributes))
    assert (found.content, found.called) == ("content", (TOOL,))
    assert found.action is not None
    assert found.action.canon


def test_what_logfire_has_scrubbed_is_nobodys_session() -> None:
    """It scrubs attributes that speak of a session, so that those of all users would be one."""
    scrubbed = "[Scrubbed due to 'session']"
    request = span({"session.id": scrubbed, "user.id": scrubbed}, id=9, scope="logfire", name="POST /chat", lasts=10)
    run = agent_run(**{"gen_ai.conversation.id": MADE_UP})
    run.parent_span_id = request.span_id
    found = calls(request, run, chat([USER], parent=1))
    assert {(c.session, c.user) for c in found} == {(MADE_UP, "")}
    secret = call(chat([event("user.message", 0, role="user", content="[Scrubbed due to 'password']")]))
    assert secret.content == "structure"
