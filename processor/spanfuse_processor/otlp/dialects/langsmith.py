"""LangSmith over OpenTelemetry: runs whose inputs and outputs are JSON, of LangChain or of the library that was wrapped."""

from __future__ import annotations

from typing import Final

from spanfuse_processor.otlp.dialects.dialect import (
    CACHE_READ,
    CACHE_WRITE,
    FINISH,
    INPUT_TOKENS,
    OPERATIONS,
    OUTPUT_TOKENS,
    PROVIDER,
    REASONING,
    REQUEST_MODEL,
    RESPONSE_MODEL,
    TOOL_ARGUMENTS,
    TOOL_NAME,
    TOOL_RESULT,
    Dialect,
    Roles,
)
from spanfuse_processor.otlp.dialects.langchain import tool_message
from spanfuse_processor.otlp.values import JsonKey

_KIND: Final = "langsmith.span.kind"
_PROMPT: Final = "gen_ai.prompt"
_COMPLETION: Final = "gen_ai.completion"
_USAGE: Final = "langsmith.metadata.usage_metadata"
_IN_DETAILS: Final = "gen_ai.usage.input_token_details"
_OUT_DETAILS: Final = "gen_ai.usage.output_token_details"

LANGSMITH: Final = Dialect(
    name="langsmith",
    scopes=("langsmith",),
    attributes=(_KIND,),
    # the kind goes first: prompts have the operation `chat`, retrievers `embeddings`
    roles=(
        Roles(
            _KIND,
            {
                "llm": "llm",
                "embedding": "llm",
                "tool": "tool",
                "chain": "agent",
                "prompt": "other",
                "retriever": "other",
                "parser": "other",
            },
        ),
        OPERATIONS,
    ),
    provider=("langsmith.metadata.ls_provider", *PROVIDER),
    response_model=(
        *RESPONSE_MODEL,
        JsonKey(_COMPLETION, "generations.0.0.message.kwargs.response_metadata.model_name"),
        JsonKey(_COMPLETION, "model"),
    ),
    request_model=(*REQUEST_MODEL, "langsmith.metadata.ls_model_name", JsonKey(_PROMPT, "model")),
    response_id=(
        "gen_ai.response.id",
        JsonKey(_COMPLETION, "generations.0.0.message.kwargs.response_metadata.id"),
        JsonKey(_COMPLETION, "id"),
    ),
    input_tokens=(*INPUT_TOKENS, JsonKey(_USAGE, "input_tokens"), JsonKey(_COMPLETION, "usage_metadata.input_tokens")),
    output_tokens=(
        *OUTPUT_TOKENS,
        JsonKey(_USAGE, "output_tokens"),
        JsonKey(_COMPLETION, "usage_metadata.output_tokens"),
    ),
    cache_read=(
        *CACHE_READ,
        JsonKey(_USAGE, "input_token_details.cache_read"),
        JsonKey(_IN_DETAILS, "cache_read"),
        JsonKey(_COMPLETION, "usage_metadata.input_token_details.cache_read"),
        JsonKey(_COMPLETION, "generations.0.0.message.kwargs.usage_metadata.input_token_details.cache_read"),
    ),
    cache_write=(
        *CACHE_WRITE,
        JsonKey(_USAGE, "input_token_details.cache_creation"),
        JsonKey(_IN_DETAILS, "cache_creation"),
        JsonKey(_COMPLETION, "usage_metadata.input_token_details.cache_creation"),
        JsonKey(_COMPLETION, "generations.0.0.message.kwargs.usage_metadata.input_token_details.cache_creation"),
    ),
    reasoning=(
        *REASONING,
        JsonKey(_USAGE, "output_token_details.reasoning"),
        JsonKey(_OUT_DETAILS, "reasoning"),
        JsonKey(_COMPLETION, "usage_metadata.output_token_details.reasoning"),
        JsonKey(_COMPLETION, "generations.0.0.message.kwargs.usage_metadata.output_token_details.reasoning"),
    ),
    finish=(
        *FINISH,
        JsonKey(_COMPLETION, "generations.0.0.generation_info.finish_reason"),
        JsonKey(_COMPLETION, "choices.0.finish_reason"),
        JsonKey(_COMPLETION, "stop_reason"),
    ),
    tool_name=(*TOOL_NAME, "langsmith.trace.name"),
    tool_arguments=(*TOOL_ARGUMENTS, JsonKey(_PROMPT, "input"), _PROMPT),
    tool_result=(
        *TOOL_RESULT,
        *tool_message(_COMPLETION, "output"),
        JsonKey(_COMPLETION, "output"),
        _COMPLETION,
    ),
    tool_call_id=("gen_ai.tool.call.id", *tool_message(_COMPLETION, "output", field="tool_call_id")),
)
