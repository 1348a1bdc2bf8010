"""Logfire's own instrumentation of OpenAI, Anthropic and OpenAI Agents. Version 5 follows the conventions; before, the request
and the response are JSON objects in one attribute each. Of a stream the one span tells that it began, another what it brought.
"""

from __future__ import annotations

from typing import Final

from spanfuse_processor.otlp.dialects.dialect import (
    CACHE_READ,
    CACHE_WRITE,
    INPUT_TOKENS,
    NAME,
    OPERATIONS,
    OUTPUT_TOKENS,
    REASONING,
    REQUEST_MODEL,
    TOOL_ARGUMENTS,
    TOOL_NAME,
    TOOL_RESULT,
    AgentSpan,
    Dialect,
    Roles,
)
from spanfuse_processor.otlp.dialects.sources import INPUT, OUTPUT, Json
from spanfuse_processor.otlp.values import JsonKey, Sum

_REQUEST: Final = "request_data"
_RESPONSE: Final = "response_data"
_READ: Final = "usage.cache_read_input_tokens"
_WRITTEN: Final = "usage.cache_creation_input_tokens"
_DETAILS: Final = ("completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens")


def _of(attribute: str, *fields: str) -> tuple[JsonKey, ...]:
    return tuple(JsonKey(attribute, field) for field in fields)


LOGFIRE: Final = Dialect(
    name="logfire",
    scopes=("logfire.openai", "logfire.anthropic", "logfire.openai_agents"),
    roles=(
        OPERATIONS,
        Roles(
            NAME,
            {
                "Chat completion with *": "llm",
                "Chat Completion with *": "llm",
                "Completion with *": "llm",
                "Responses API*": "llm",
                "Message with *": "llm",
                "Embedding Creation with *": "llm",
                "streaming response from *": "llm",
                "Function: *": "tool",
                "Agent run: *": "agent",
            },
        ),
    ),
    default_role="other",
    answered=frozenset(
        {"gen_ai.output.messages", "gen_ai.usage.input_tokens", "gen_ai.response.id", _RESPONSE, "output", "events"}
    ),
    # what OpenAI Agents were asked is with the answer in `request_data`, and apart from it in `input`
    input=(*INPUT, Json(("input", "raw_input", *_of(_REQUEST, "messages", "prompt", "input")))),
    output=(
        *OUTPUT,
        Json(("output", JsonKey("response", "output"), *_of(_RESPONSE, "message", "text", "combined_chunk_content"))),
    ),
    agent_span=AgentSpan("logfire.msg_template", "Agent run: {name!r}", ("name",)),
    request_model=(*REQUEST_MODEL, JsonKey(_REQUEST, "model")),
    response_id=("gen_ai.response.id", "response_id"),
    input_tokens=(
        *INPUT_TOKENS,
        *_of(_RESPONSE, "usage.prompt_tokens"),
        Sum(_of(_RESPONSE, "usage.input_tokens", _READ, _WRITTEN)),
    ),
    output_tokens=(*OUTPUT_TOKENS, *_of(_RESPONSE, "usage.completion_tokens", "usage.output_tokens")),
    cache_read=(
        *CACHE_READ,
        *_of(_RESPONSE, "usage.prompt_tokens_details.cached_tokens", _READ),
        JsonKey("usage", "input_tokens_details.cached_tokens"),
    ),
    cache_write=(*CACHE_WRITE, JsonKey(_RESPONSE, _WRITTEN)),
    reasoning=(
        *REASONING,
        *_of("gen_ai.usage.raw", *_DETAILS),
        *_of(_RESPONSE, *(f"usage.{field}" for field in _DETAILS)),
        *_of("usage", *_DETAILS),
    ),
    tool_name=(*TOOL_NAME, "name"),
    tool_span=("execute_tool ", "Function: "),
    tool_arguments=(*TOOL_ARGUMENTS, "input"),
    tool_result=(*TOOL_RESULT, "output"),
)
