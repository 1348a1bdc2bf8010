"""OpenAI Agents, as `opentelemetry-instrumentation-openai-agents` (OpenLLMetry) and `-openai-agents-v2` trace them, both in
one scope. What is said here is of v2; OpenLLMetry's spans have none of it.

v2 writes items of the Responses API as Python does, `ResponseFunctionToolCall(…)`, and leaves tool calls and their results
out of the input: each step of a turn would look like the question asked anew. All its spans but those of agents have one
agent's name, which it makes up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

from spanfuse.reading.parts import CALL_TYPES, RESULT_TYPES, calls_of, function_of, parts_of
from spanfuse_processor.otlp.dialects.dialect import AgentSpan
from spanfuse_processor.otlp.dialects.forms import Messages
from spanfuse_processor.otlp.dialects.openllmetry import OPENLLMETRY
from spanfuse_processor.otlp.dialects.sources import INPUT, OUTPUT, read_sources
from spanfuse_processor.otlp.reprs import python_value
from spanfuse_processor.otlp.span import Span

_BY_V2: Final = "gen_ai.output.type"
"""v2 says it of every model call."""


class WholeInput(NamedTuple):
    """The conventions' input, unless it is of a Responses call and has no trace of the tools that it may be about."""

    def read(self, span: Span, role: str) -> Messages:
        messages = read_sources(INPUT, span, role)
        partial = _BY_V2 in span.attributes and "gen_ai.response.id" in span.attributes
        return None if partial and isinstance(messages, list) and not any(map(_of_tools, messages)) else messages


class WrittenOutput(NamedTuple):
    """The conventions' output, with what Python wrote read back."""

    def read(self, span: Span, role: str) -> Messages:
        messages = read_sources(OUTPUT, span, role)
        if _BY_V2 not in span.attributes or not isinstance(messages, list):
            return messages
        return [_read_back(message) for message in messages]


def _of_tools(message: Any) -> bool:
    parts = parts_of(message.get("parts")) if isinstance(message, dict) else []
    return any(part["type"] in CALL_TYPES or part["type"] in RESULT_TYPES for part in parts)


def _read_back(message: Any) -> Any:
    if not isinstance(message, dict) or not isinstance(message.get("parts"), list):
        return message
    return {**message, "parts": [found for part in message["parts"] for found in _parts(part)]}


def _parts(part: Any) -> Iterator[Any]:
    """The parts that a text stands for; the text itself where it is one."""
    text = part.get("content") if isinstance(part, dict) else None
    item = python_value(text) if isinstance(text, str) and text.startswith(("Response", "{'")) else None
    if isinstance(item, dict) and isinstance(item.get("output"), list):  # a stream of Chat Completions
        for one in item["output"]:
            yield from _of_item(one, part)
    else:
        yield from _of_item(item, part)


def _of_item(item: Any, part: Any) -> Iterator[Any]:
    if not isinstance(item, dict):
        yield part
    elif item.get("type") == "function_call":
        yield _call(item)
    elif calls := calls_of(item):  # a message of Chat Completions
        yield from map(_call, calls)
    elif item.get("type") == "message":
        yield from parts_of(item.get("content"))
    elif item.get("type") != "reasoning":
        yield part


def _call(call: Any) -> dict[str, Any]:
    named = function_of(call)
    return {
        "type": "tool_call",
        "id": call.get("call_id", call.get("id")),
        "name": named.get("name"),
        "arguments": named.get("arguments"),
    }


OPENAI_AGENTS: Final = replace(
    OPENLLMETRY,
    name="openai_agents",
    scopes=("opentelemetry.instrumentation.openai_agents*",),
    attributes=(),
    input=(WholeInput(),),
    output=(WrittenOutput(),),
    agent=(),
    agent_span=AgentSpan("gen_ai.operation.name", "invoke_agent", ("gen_ai.agent.name",)),
)
