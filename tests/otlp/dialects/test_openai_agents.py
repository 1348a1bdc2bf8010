"""OpenAI Agents, through OpenInference, OpenLLMetry and OpenTelemetry's v2."""

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

SCOPE = "opentelemetry.instrumentation.openai_agents"
FAKE = {"gen_ai.agent.name": "OpenAI Agent", "gen_ai.agent.id": "agent"}
WRITTEN = (
    f"ResponseFunctionToolCall(arguments='{json.dumps(ARGUMENTS)}', call_id='c1', name='{TOOL}', type='function_call', "
    "id='fc_0', async_=None, status='completed')"
)


def text(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def chat(messages: list[Any], reply: list[Any], id: int = 4, **more: Any) -> Span:
    """As v2 writes it."""
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.response.id": "resp_1",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.usage.input_tokens": 1200,
        "gen_ai.usage.output_tokens": 50,
        "gen_ai.output.type": "text",
        "gen_ai.input.messages": json.dumps(messages),
        "gen_ai.output.messages": json.dumps(reply),
        **FAKE,
        **more.pop("attributes", {}),
    }
    given = {key: value for key, value in attributes.items() if value is not None}
    return span(given, id=id, scope=SCOPE, name="chat gpt-4o-mini", **more)


def test_what_python_wrote_of_a_tool_call_is_a_tool_call() -> None:
    assert calls_tool(call(chat([], [text("assistant", WRITTEN)])))
    thinking = "ResponseReasoningItem(id='rs_0', summary=[], type='reasoning', status=None)"
    parts = [*text("assistant", thinking)["parts"], *text("assistant", WRITTEN)["parts"]]
    assert calls_tool(call(chat([], [{"role": "assistant", "parts": parts}])))


def test_what_python_wrote_of_other_items_is_what_they_say() -> None:
    message = (
        f"ResponseOutputMessage(id='m', content=[ResponseOutputText(annotations=[], text='{ANSWER}', type='output_text')], "
        "role='assistant', status='completed', type='message')"
    )
    assert answers(call(chat([], [text("assistant", message)])))
    of_chat = {
        "content": None,
        "role": "assistant",
        "tool_calls": [{"id": "c1", "function": {"name": TOOL, "arguments": ARGUMENTS}}],
    }
    assert calls_tool(call(chat([], [text("assistant", str(of_chat))])))


def test_a_stream_of_chat_completions_brings_a_whole_response() -> None:
    """Which v2 writes as Python does, and OpenInference as the only message of the output."""
    item = {"type": "function_call", "call_id": "c1", "name": TOOL, "arguments": json.dumps(ARGUMENTS), "status": None}
    response = {"id": "__fake_id__", "error": None, "object": "response", "output": [item], "usage": None}
    assert calls_tool(call(chat([], [text("assistant", str(response))])))
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]}
    assert answers(call(chat([], [text("assistant", str({**response, "output": [message]}))])))
    kind = {"openinference.span.kind": "LLM"}
    assert calls_tool(call(span({**kind, "output.value": json.dumps([response])}, name="generation")))
    assert answers(call(span({**kind, "output.value": json.dumps([{**response, "output": [message]}])})))


@pytest.mark.parametrize(
    "said", [ANSWER, "Response(", "ResponseFunctionToolCall(client=<object at 0x7f>)", "{'a': 1", "{}"]
)
def test_a_text_that_is_none_of_this_is_a_text(said: str) -> None:
    found = call(chat([], [text("assistant", said)]))
    assert found.called == ()
    assert found.action is not None
    assert found.action.size == len(said)


def test_an_input_without_its_tool_results_says_nothing() -> None:
    """All steps of a turn would be the same question asked anew."""
    found = call(chat([text("user", ASKED)], [text("assistant", ANSWER)]))
    assert (found.input, found.history) == (None, 0)
    assert answers(found)
    whole = call(chat([text("user", ASKED)], [], attributes={"gen_ai.response.id": None}))  # Chat Completions
    assert is_asked(whole)


def test_an_input_with_them_is_read() -> None:
    asked = {"type": "tool_call", "id": "c1", "name": TOOL, "arguments": json.dumps(ARGUMENTS)}
    got = {"type": "tool_call_response", "id": "c1", "result": json.dumps(RESULT)}
    messages = [text("user", ASKED), {"role": "assistant", "parts": [asked]}, {"role": "tool", "parts": [got]}]
    assert hears_result(call(chat(messages, [])))


def test_the_agents_name_is_that_of_its_span() -> None:
    """All others have one that the instrumentation makes up."""
    root = {"gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "openai"}
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "geo", "gen_ai.request.model": "gpt-4o-mini"}
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": TOOL, **FAKE}
    given = {"gen_ai.tool.call.arguments": json.dumps(ARGUMENTS), "gen_ai.tool.call.result": json.dumps(RESULT)}
    found = calls(
        span(root, id=1, kind=2, scope=SCOPE, name="Agent workflow", lasts=9),
        span(agent, id=2, parent=1, scope=SCOPE, name="invoke_agent geo", lasts=8),
        span(
            {"gen_ai.operation.name": "unknown", **FAKE}, id=3, parent=2, kind=1, scope=SCOPE, name="unknown", lasts=7
        ),
        chat([], [text("assistant", WRITTEN)], parent=3),
        span(named | given, id=5, parent=3, at=2, kind=1, scope=SCOPE, name=f"execute_tool {TOOL}"),
    )
    assert [(c.kind, c.agent) for c in found] == [("llm", "geo"), ("tool", "geo")]
    assert brings_result(found[1])
    assert found[0].action == found[1].action


def test_openllmetrys_spans_of_the_same_scope_are_read_as_they_are() -> None:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.response.model": "gpt-4o-mini",
        "gen_ai.response.id": "resp_1",
        "gen_ai.input.messages": json.dumps([text("user", ASKED)]),
        "gen_ai.output.messages": json.dumps([text("assistant", ANSWER)]),
    }
    workflow = span({"traceloop.span.kind": "workflow"}, id=1, kind=1, scope=SCOPE, name="Agent Workflow", lasts=9)
    agent = {"traceloop.span.kind": "agent", "gen_ai.agent.name": "geo", "gen_ai.operation.name": "invoke_agent"}
    found = calls(
        workflow,
        span(agent, id=2, parent=1, kind=1, scope=SCOPE, name="geo.agent", lasts=8),
        span(attributes, id=3, parent=2, scope=SCOPE, name="openai.response"),
        span(
            {"traceloop.span.kind": "tool", "gen_ai.tool.name": TOOL}, id=4, parent=2, at=2, scope=SCOPE, name="x.tool"
        ),
    )
    assert [(c.kind, c.agent) for c in found] == [("llm", "geo"), ("tool", "geo")]
    assert is_asked(found[0])
    assert answers(found[0])


def test_older_openllmetry_numbers_the_messages() -> None:
    attributes = {
        "llm.request.type": "chat",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": ASKED,
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.tool_calls.0.id": "c1",
        "gen_ai.completion.0.tool_calls.0.name": TOOL,
        "gen_ai.completion.0.tool_calls.0.arguments": json.dumps(ARGUMENTS),
    }
    found = call(span(attributes, scope=SCOPE, name="openai.response"))
    assert is_asked(found)
    assert calls_tool(found)


def test_openinference_has_turns_that_are_no_calls_and_a_session_on_every_span() -> None:
    kind, who = "openinference.span.kind", {"session.id": "s-1", "user.id": "u-1"}
    scope = "openinference.instrumentation.openai_agents"
    model = {
        kind: "LLM",
        "llm.model_name": "gpt-4o-mini",
        "llm.token_count.prompt": 1200,
        "llm.token_count.completion": 50,
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": ASKED,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": TOOL,
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": json.dumps(ARGUMENTS),
    }
    tool = {kind: "TOOL", "tool.name": TOOL, "input.value": json.dumps(ARGUMENTS), "output.value": json.dumps(RESULT)}
    found = calls(
        span({kind: "AGENT", **who}, id=1, kind=1, scope=scope, name="Agent workflow", lasts=9),
        span(
            {kind: "AGENT", "agent.name": "geo", "graph.node.id": "geo", **who}, id=2, parent=1, scope=scope, name="geo"
        ),
        span({kind: "CHAIN", **who}, id=3, parent=2, kind=1, scope=scope, name="turn", lasts=7),
        span(model | who, id=4, parent=3, kind=1, scope=scope, name="response"),
        span(tool | who, id=5, parent=3, at=2, kind=1, scope=scope, name=TOOL),
    )
    assert [(c.kind, c.agent, c.session, c.user) for c in found] == [
        ("llm", "geo", "s-1", "u-1"),
        ("tool", "geo", "s-1", "u-1"),
    ]
    assert is_asked(found[0])
    assert calls_tool(found[0])
    assert brings_result(found[1])
