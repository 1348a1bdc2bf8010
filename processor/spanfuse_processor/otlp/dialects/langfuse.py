"""Langfuse: numbers and messages are in JSON, under the names of whichever library was observed."""

from __future__ import annotations

from typing import Final

from spanfuse_processor.otlp.dialects.dialect import (
    CACHE_READ,
    CACHE_WRITE,
    COST,
    FINISH,
    INPUT_TOKENS,
    OPERATIONS,
    OUTPUT_TOKENS,
    REASONING,
    REQUEST_MODEL,
    RESPONSE_MODEL,
    TOOL_ARGUMENTS,
    TOOL_RESULT,
    AgentSpan,
    Dialect,
    Roles,
)
from spanfuse_processor.otlp.dialects.langchain import tool_message
from spanfuse_processor.otlp.dialects.sources import INPUT, OUTPUT, Json
from spanfuse_processor.otlp.values import JsonKey, Sum

_TYPE: Final = "langfuse.observation.type"
_INPUT: Final = "langfuse.observation.input"
_OUTPUT: Final = "langfuse.observation.output"
_COST: Final = "langfuse.observation.cost_details"


def _usage(*fields: str) -> tuple[JsonKey, ...]:
    return tuple(JsonKey("langfuse.observation.usage_details", field) for field in fields)


_CACHE_READ: Final = ("cache_read_input_tokens", "input_cached_tokens", "input_cache_read", "cache_read")
_CACHE_WRITE: Final = ("cache_creation_input_tokens", "input_cache_creation", "input_cache_write", "cache_creation")
_REASONING: Final = ("output_reasoning_tokens", "output_reasoning")

LANGFUSE: Final = Dialect(
    name="langfuse",
    scopes=("langfuse-sdk",),
    attributes=(_TYPE, "langfuse.observation.model.name", "langfuse.observation.usage_details"),
    roles=(
        Roles(
            _TYPE,
            {
                "generation": "llm",
                "embedding": "llm",
                "tool": "tool",
                "agent": "agent",
                "chain": "agent",
                "span": "agent",
                "event": "other",
            },
        ),
        OPERATIONS,
    ),
    input=(Json((_INPUT,)), *INPUT),
    output=(Json((_OUTPUT,)), *OUTPUT),
    operation=("gen_ai.operation.name", _TYPE),
    agent_span=AgentSpan(_TYPE, "agent"),
    response_model=("langfuse.observation.model.name", *RESPONSE_MODEL),
    request_model=(*REQUEST_MODEL, JsonKey(_INPUT, "model")),
    response_id=("gen_ai.response.id", JsonKey(_OUTPUT, "id")),
    # raw usage of OpenAI includes the cache; Langfuse's own classes, and raw usage of Anthropic, are apart from one another
    input_tokens=(
        *_usage("prompt_tokens"),
        Sum(_usage("input", *_CACHE_READ, *_CACHE_WRITE, "input_audio_tokens", "input_audio")),
        *(Sum((*_usage("input_tokens"), *_usage(_CACHE_READ[0], _CACHE_WRITE[0]))),),
        *INPUT_TOKENS,
    ),
    output_tokens=(
        *_usage("completion_tokens"),
        Sum(_usage("output", *_REASONING, "output_audio_tokens", "output_audio")),
        *_usage("output_tokens"),
        *OUTPUT_TOKENS,
    ),
    cache_read=(
        *_usage("prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens", *_CACHE_READ),
        *CACHE_READ,
    ),
    cache_write=(*_usage(*_CACHE_WRITE), *CACHE_WRITE),
    reasoning=(
        *_usage("completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens", *_REASONING),
        *REASONING,
    ),
    cost=(JsonKey(_COST, "total"), Sum((JsonKey(_COST, "input"), JsonKey(_COST, "output"))), *COST),
    finish=(*FINISH, "langfuse.observation.metadata.finish_reason"),
    first_token_at=("langfuse.observation.completion_start_time",),
    tool_arguments=(
        *TOOL_ARGUMENTS,
        JsonKey(_INPUT, "kwargs", unless="args"),  # of a function that was observed
        _INPUT,
    ),
    tool_result=(*TOOL_RESULT, *tool_message(_OUTPUT), _OUTPUT),
    tool_call_id=("gen_ai.tool.call.id", *tool_message(_OUTPUT, field="tool_call_id")),
)
