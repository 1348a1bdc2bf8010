"""LangChain, whose messages and callbacks other libraries trace as they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spanfuse_processor.otlp.span import Span
from spanfuse_schemas import Tokens
from tests.core.test_belated import Host
from tests.otlp.dialects.steps import ARGUMENTS, RESULT, TOOL, brings_result
from tests.otlp.fixtures import call, calls, span

KIND = "openinference.span.kind"
HERE, THERE = "0" * 31 + "a", "0" * 31 + "b"
USAGE = {"llm.token_count.prompt": 1200, "llm.token_count.completion": 50}
CLASSES = {
    "input_token_details": {"cache_read": 1000, "cache_creation": 100},
    "output_token_details": {"reasoning": 20},
}


def reply(**kwargs: Any) -> str:
    """What a model said, as LangChain serialises it."""
    message = {"lc": 1, "id": ["langchain", "schema", "messages", "AIMessage"], "kwargs": {"content": "Hi.", **kwargs}}
    return json.dumps({"generations": [[{"text": "Hi.", "message": message}]]})


def traced(id: int, name: str, attributes: dict[str, Any], **more: Any) -> Span:
    """A span of OpenInference for LangChain."""
    scope = "openinference.instrumentation.langchain"
    return span(attributes, **{"id": id, "name": name, "kind": 1, "scope": scope, "trace": HERE, **more})


def test_classes_of_tokens_that_are_in_the_reply_alone_are_known() -> None:
    """As in streams, and in all calls of older versions."""
    said = {KIND: "LLM", "llm.model_name": "gpt-4o-mini", **USAGE, "output.value": reply(usage_metadata=CLASSES)}
    tokens = Tokens(input=1200, output=50, cache_read=1000, cache_write=100, reasoning=20)
    assert call(traced(1, "ChatOpenAI", said)).tokens == tokens


def twice(known: bool = True) -> list[Span]:
    """A call that the client's instrumentation sees in a trace of its own, within a run of an agent.

    Args:
        known: whether LangChain knows the id of the response, as of those that are no streams.
    """
    model = {KIND: "LLM", "llm.model_name": "gpt-4o-mini", **USAGE, "llm.output_messages.0.message.content": "Hi."}
    client = span(
        {**model, "output.value": '{"id": "chatcmpl-1"}'},
        id=3,
        at=0.2,
        lasts=0.5,
        trace=THERE,
        scope="openinference.instrumentation.openai",
    )
    run = {**model, "output.value": reply(response_metadata={"id": "chatcmpl-1"} if known else {})}
    return [client, traced(2, "ChatOpenAI", run, parent=1), traced(1, "guide", {KIND: "CHAIN"}, lasts=2)]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("together", [False, True])
def test_a_call_that_the_client_traces_too_counts_once_where_the_agent_is(order: int, together: bool) -> None:
    host = Host()
    spans = twice()[::order]
    for request in [spans] if together else [[one] for one in spans]:
        host.take(request)
    assert {name: (s.calls, s.tokens) for name, s in host.states.items() if s.calls} == {f"trace:{HERE}": (1, 1250)}


@pytest.mark.parametrize("key", ["gen_ai.tool.call.", "traceloop.entity."])
def test_a_tool_is_called_with_its_arguments_and_not_with_the_callbacks(key: str) -> None:
    """Of OpenLLMetry; what is beside them is another at each step."""
    given = {
        "input_str": str(ARGUMENTS),
        "tags": ["seq:step:1"],
        "metadata": {"langgraph_step": 2},
        "inputs": ARGUMENTS,
        "kwargs": {"color": "green", "tool_call_id": "call_1"},
    }
    kwargs = {"content": json.dumps(RESULT), "type": "tool", "tool_call_id": "call_1"}
    brought = {"output": {"lc": 1, "type": "constructor", "kwargs": kwargs}, "kwargs": {"name": TOOL}}
    names = ("arguments", "result") if key.startswith("gen_ai") else ("input", "output")
    attributes = {
        "traceloop.span.kind": "tool",
        "traceloop.entity.name": TOOL,
        key + names[0]: json.dumps(given),
        key + names[1]: json.dumps(brought),
    }
    assert brings_result(call(span(attributes, kind=1, scope="opentelemetry.instrumentation.langchain")))


@pytest.mark.parametrize("name", ["agent", "LangGraph", "AgentExecutor", "Task._execute_core"])
def test_what_langchain_calls_any_agent_is_no_name(name: str) -> None:
    """Else agents of many services would be one."""
    model = {KIND: "LLM", "llm.model_name": "gpt-4o-mini", **USAGE}
    agent = traced(1, name, {KIND: "AGENT"}, lasts=2)
    (found,) = calls(agent, traced(2, "ChatOpenAI", model, parent=1, resource={"service.name": "desk"}))
    assert found.agent == "desk"


@pytest.mark.parametrize("order", [1, -1])
def test_a_stream_that_the_client_traces_too_counts_once(order: int) -> None:
    """Of its response LangChain does not know the id; they agree on tokens and on what was said."""
    host = Host()
    host.take(twice(known=False)[::order])
    assert {name: (s.calls, s.tokens) for name, s in host.states.items() if s.calls} == {f"trace:{HERE}": (1, 1250)}


def test_streams_that_differ_in_what_was_said_are_two() -> None:
    client, run, agent = twice(known=False)
    run.attributes["llm.output_messages.0.message.content"] = "Bye."
    assert len(calls(client, run, agent)) == 2
