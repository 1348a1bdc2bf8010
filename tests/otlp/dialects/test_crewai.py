"""CrewAI, as OpenInference traces it: its own spans are crews, agents and tools; model calls are those of the client."""

from __future__ import annotations

import json

from tests.otlp.dialects.steps import ARGUMENTS, RESULT, TOOL, brings_result, calls_tool
from tests.otlp.fixtures import calls, span

SCOPE = "openinference.instrumentation.crewai"
KIND = "openinference.span.kind"
WHO = {"session.id": "s-1", "user.id": "u-1"}


def test_a_crew_and_its_agents_are_no_calls() -> None:
    """They repeat what the calls below them said, and name the agent by its role."""
    model = {
        KIND: "LLM",
        "llm.model_name": "gpt-4o-mini",
        "llm.token_count.prompt": 1200,
        "llm.token_count.completion": 50,
        **WHO,
    }
    tool = {
        KIND: "TOOL",
        "tool.name": TOOL,
        "input.value": json.dumps(ARGUMENTS),
        "output.value": json.dumps(RESULT),
        **WHO,
    }
    crew = {KIND: "CHAIN", "crew_key": "k", "input.value": "{}", "output.value": "done", **WHO}
    found = calls(
        span(crew, id=1, kind=1, scope=SCOPE, name="Crew.kickoff", lasts=9),
        span(
            {KIND: "AGENT", "graph.node.id": "Geographer", **WHO},
            id=2,
            parent=1,
            kind=1,
            scope=SCOPE,
            name="task",
            lasts=8,
        ),
        span(model, id=3, parent=2, kind=1, scope="openinference.instrumentation.openai", name="ChatCompletion"),
        span(tool, id=4, parent=2, at=2, kind=1, scope=SCOPE, name="ToolUsage._use"),
    )
    assert [(c.kind, c.agent, c.session, c.user) for c in found] == [
        ("llm", "Geographer", "s-1", "u-1"),
        ("tool", "Geographer", "s-1", "u-1"),
    ]
    assert brings_result(found[1])


def test_the_output_of_a_call_that_is_listened_to_is_a_list_of_tool_calls() -> None:
    asked = [{"id": "c1", "type": "function", "function": {"name": TOOL, "arguments": json.dumps(ARGUMENTS)}}]
    listener = f"{SCOPE}._event_listener"
    found = calls(span({KIND: "LLM", "output.value": json.dumps(asked)}, scope=listener, name="gpt-4o-mini.llm_call"))
    assert [calls_tool(one) for one in found] == [True]


def test_an_agent_is_named_in_what_its_task_brought() -> None:
    """In versions that name it nowhere else."""
    brought = {"output.value": json.dumps({"expected_output": "a city", "raw": "Paris", "agent": "Geographer"})}
    found = calls(
        span({KIND: "AGENT", **brought}, id=1, kind=1, scope=SCOPE, name="Task._execute_core", lasts=2),
        span(
            {KIND: "LLM", "llm.model_name": "gpt-4o-mini"},
            id=2,
            parent=1,
            scope="openinference.instrumentation.litellm",
        ),
    )
    assert [call.agent for call in found] == ["Geographer"]
