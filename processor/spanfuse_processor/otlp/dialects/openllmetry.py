"""OpenLLMetry (Traceloop): new versions write GenAI messages, old ones `gen_ai.prompt.N`, the first `llm.prompts.N`."""

from __future__ import annotations

from typing import Final

from spanfuse_processor.otlp.dialects.dialect import (
    FINISH,
    INPUT_TOKENS,
    OPERATIONS,
    OUTPUT_TOKENS,
    PROVIDER,
    REQUEST_MODEL,
    RESPONSE_MODEL,
    TOOL_ARGUMENTS,
    TOOL_NAME,
    TOOL_RESULT,
    AgentSpan,
    Dialect,
    Roles,
)
from spanfuse_processor.otlp.dialects.langchain import tool_message
from spanfuse_processor.otlp.dialects.sources import INPUT, OUTPUT, Flat
from spanfuse_processor.otlp.values import JsonKey

_KIND: Final = "traceloop.span.kind"
_INPUT: Final = "traceloop.entity.input"
_OUTPUT: Final = "traceloop.entity.output"


def _callback(attribute: str, *fields: str) -> tuple[JsonKey, ...]:
    """What LangChain calls a tool with: the arguments are beside the callback's own, in newer versions under the key of the
    conventions, too."""
    return tuple(JsonKey(attribute, field, beside="input_str") for field in fields)


OPENLLMETRY: Final = Dialect(
    name="openllmetry",
    attributes=(
        "llm.request.type",
        "gen_ai.is_streaming",
        "gen_ai.prompt.0.role",
        "gen_ai.prompt.0.content",
        _KIND,
        "traceloop.entity.name",
    ),
    roles=(
        OPERATIONS,
        Roles("llm.request.type", {"chat": "llm", "completion": "llm", "embedding": "llm", "rerank": "other"}),
        Roles(_KIND, {"tool": "tool", "agent": "agent", "workflow": "agent", "task": "agent"}),
    ),
    input=(*INPUT, Flat("llm.prompts.")),
    output=(*OUTPUT, Flat("llm.completions.")),
    operation=("gen_ai.operation.name", "llm.request.type"),
    agent_span=AgentSpan(_KIND, "agent", ("traceloop.entity.name",)),
    provider=(*PROVIDER, "llm.vendor"),
    response_model=(*RESPONSE_MODEL, "llm.response.model"),
    request_model=(*REQUEST_MODEL, "llm.request.model"),
    input_tokens=(*INPUT_TOKENS, "llm.usage.prompt_tokens"),
    output_tokens=(*OUTPUT_TOKENS, "llm.usage.completion_tokens"),
    finish=(*FINISH, "gen_ai.completion.0.finish_reason", "llm.completions.0.finish_reason"),
    tool_name=(*TOOL_NAME, "traceloop.entity.name"),
    tool_arguments=(
        *_callback("gen_ai.tool.call.arguments", "inputs", "input_str"),
        *TOOL_ARGUMENTS,
        JsonKey(_INPUT, "inputs"),
        *_callback(_INPUT, "input_str"),
        JsonKey(_INPUT, "kwargs", unless="args"),
        _INPUT,
    ),
    tool_result=(
        *tool_message("gen_ai.tool.call.result", "output"),
        JsonKey("gen_ai.tool.call.result", "output", beside="kwargs.name"),
        *TOOL_RESULT,
        *tool_message(_OUTPUT, "output"),
        JsonKey(_OUTPUT, "output"),
        _OUTPUT,
    ),
    tool_call_id=(
        "gen_ai.tool.call.id",
        *tool_message(_OUTPUT, "output", field="tool_call_id"),
        *_callback(_INPUT, "kwargs.tool_call_id"),
    ),
)
