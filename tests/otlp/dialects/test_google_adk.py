"""Google's Agent Development Kit, 1.14 to 2.x."""

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
from tests.otlp.fixtures import call, calls, span

SCOPE = "gcp.vertex.agent"
USER = {"role": "user", "parts": [{"text": ASKED}]}
CALL = {"role": "model", "parts": [{"function_call": {"id": "f1", "args": ARGUMENTS, "name": TOOL}}]}
GOT = {"role": "user", "parts": [{"function_response": {"id": "f1", "name": TOOL, "response": RESULT}}]}
SAID = {"role": "model", "parts": [{"text": ANSWER}]}


def call_llm(contents: list[Any] | None, content: Any = None, id: int = 3, **more: Any) -> Span:
    """As 1.x writes it."""
    usage = more.pop("usage", {"prompt_token_count": 1200, "candidates_token_count": 50, "total_token_count": 1250})
    request = {"model": "gemini-2.5-flash", "config": {"labels": {"adk_agent_name": "geo"}}, "contents": contents}
    response = {"content": content, "finish_reason": "STOP", "usage_metadata": usage}
    attributes = {
        "gen_ai.system": "gcp.vertex.agent",
        "gen_ai.request.model": "gemini-2.5-flash",
        "gcp.vertex.agent.session_id": "s-1",
        "gcp.vertex.agent.llm_request": "{}" if contents is None else json.dumps(request),
        "gcp.vertex.agent.llm_response": "{}" if content is None else json.dumps(response),
        "gen_ai.usage.input_tokens": usage["prompt_token_count"],
        "gen_ai.usage.output_tokens": usage["candidates_token_count"],
        **more.pop("attributes", {}),
    }
    return span(attributes, id=id, kind=1, scope=SCOPE, name="call_llm", **more)


def generate_content(model: str = "gemini-2.5-flash", **attributes: Any) -> Span:
    """As 2.x writes it."""
    given = {
        "gen_ai.operation.name": "generate_content",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.request.model": model,
        "gen_ai.conversation.id": "s-1",
        "gen_ai.usage.input_tokens": 1200,
        "gen_ai.usage.output_tokens": 70,
        "gen_ai.usage.reasoning.output_tokens": 20,
        **attributes,
    }
    return span(given, id=4, parent=3, kind=1, scope=SCOPE, name=f"generate_content {model}", lasts=0.9)


def tool(**attributes: Any) -> Span:
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": TOOL, "gen_ai.tool.call.id": "f1"}
    return span(named | attributes, id=5, parent=3, kind=1, scope=SCOPE, name=f"execute_tool {TOOL}", at=2)


def test_geminis_request_and_response_are_the_messages() -> None:
    first = call(call_llm([USER], CALL))
    assert is_asked(first)
    assert calls_tool(first)
    second = call(call_llm([USER, CALL, GOT], SAID))
    assert hears_result(second)
    assert answers(second)
    assert (second.session, second.provider, second.model) == ("s-1", "gcp.gemini", "gemini-2.5-flash")
    assert (second.agent, second.finish_reason) == ("geo", "stop")


def test_spans_of_agents_and_invocations_are_not_calls_and_name_the_agent() -> None:
    whole = span({}, id=1, kind=1, scope=SCOPE, name="invocation", lasts=9)
    agent = span({}, id=2, parent=1, kind=1, scope=SCOPE, name="agent_run [geo]", lasts=8)
    merged = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "(merged tools)"}
    both = span(merged, id=6, parent=3, kind=1, scope=SCOPE, name="execute_tool (merged)")
    found = calls(whole, agent, call_llm(None, parent=2), tool(), both)
    assert [(c.kind, c.agent, c.session) for c in found] == [("llm", "geo", "s-1"), ("tool", "geo", "s-1")]


def test_a_model_call_has_two_spans_in_the_versions_between() -> None:
    (found,) = of_models(calls(call_llm([USER], SAID), generate_content()))
    assert (found.tokens.input, found.content) == (1200, "content")


def test_pieces_of_a_stream_stand_before_the_whole() -> None:
    def message(finish: str, **part: Any) -> dict[str, Any]:
        return {"role": "assistant", "parts": [part], "finish_reason": finish}

    asked = {"type": "tool_call", "id": "f1", "name": TOOL}
    begun = [message("", **asked, arguments=None)] * 2
    whole = message("stop", **asked, arguments=ARGUMENTS)
    assert calls_tool(call(generate_content(**{"gen_ai.output.messages": json.dumps([*begun, whole])})))
    said = [message("", type="text", content=text) for text in ("It is ", "21 degrees.")]
    said.append(message("stop", type="text", content=ANSWER))
    assert answers(call(generate_content(**{"gen_ai.output.messages": json.dumps(said)})))


def test_tokens_of_thoughts_are_beside_those_of_the_answer() -> None:
    """In 1.x, as Gemini counts them; the total tells."""
    usage = {
        "prompt_token_count": 1200,
        "candidates_token_count": 50,
        "thoughts_token_count": 20,
        "cached_content_token_count": 1024,
        "total_token_count": 1270,
    }
    found = call(call_llm([USER], SAID, usage=usage)).tokens
    assert (found.input, found.output, found.reasoning, found.cache_read) == (1200, 70, 20, 1024)


@pytest.mark.parametrize(
    ("model", "output"),
    [
        ("openai/gpt-4o-mini", 50),
        ("openrouter/openai/o3", 50),
        ("gemini-2.5-flash", 70),
        ("models/gemini-2.5-flash", 70),
        ("projects/p/locations/l/publishers/google/models/gemini-2.5-pro", 70),
    ],
)
def test_reasoning_is_counted_twice_of_models_through_litellm(model: str, output: int) -> None:
    found = call(generate_content(model)).tokens
    assert (found.output, found.reasoning) == (output, 20)


@pytest.mark.parametrize(
    "names",
    [
        ("gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.tool_response"),
        ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
    ],
)
def test_a_tool_execution_has_arguments_and_result(names: tuple[str, str]) -> None:
    given = {names[0]: json.dumps(ARGUMENTS), names[1]: json.dumps(RESULT), "gcp.vertex.agent.llm_request": "{}"}
    assert brings_result(call(tool(**given)))


def test_content_that_is_left_out_is_no_content() -> None:
    """Where it is off, 1.x writes an empty object in its place: the same for all that an agent does."""
    found = call(call_llm(None))
    assert (found.content, found.input, found.action, found.tokens.input) == ("structure", None, None, 1200)
    left_out = {"gcp.vertex.agent.tool_call_args": "{}", "gcp.vertex.agent.tool_response": "{}"}
    run = call(tool(**left_out))
    assert (run.content, run.called, run.output, run.action.canon if run.action else "") == (
        "structure",
        (TOOL,),
        None,
        "",
    )
    bare = call(tool(**left_out | {"gcp.vertex.agent.tool_response": json.dumps(RESULT)}))
    assert (bare.content, bool(bare.action and bare.action.canon)) == ("content", True)
