"""The Vercel AI SDK: `ai.*` in all versions, and the GenAI conventions from version 7 on."""

from __future__ import annotations

from typing import Final

from spanfuse_processor.otlp.dialects.dialect import (
    CACHE_READ,
    CACHE_WRITE,
    FINISH,
    INPUT_TOKENS,
    MILLISECOND,
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
from spanfuse_processor.otlp.dialects.sources import INPUT, OUTPUT, Fields, Json
from spanfuse_processor.otlp.values import JsonKey, Sum

_OPERATION: Final = "ai.operationId"
_IN: Final = "ai.usage.inputTokenDetails."
_READ: Final = ("anthropic.usage.cache_read_input_tokens",)
_WRITE: Final = ("anthropic.usage.cache_creation_input_tokens",)


def _meta(*fields: str) -> tuple[JsonKey, ...]:
    return tuple(JsonKey("ai.response.providerMetadata", field) for field in fields)


VERCEL: Final = Dialect(
    name="vercel",
    scopes=("ai",),
    attributes=(_OPERATION,),
    # spans around model calls repeat the sums of those within
    roles=(
        Roles(
            _OPERATION,
            {
                "*.doGenerate": "llm",
                "*.doStream": "llm",
                "*.doEmbed": "llm",
                "ai.toolCall": "tool",
                "ai.rerank*": "other",
                "ai.*": "agent",
            },
        ),
    ),
    input=(Json(("ai.prompt.messages", "ai.prompt", "ai.values", "ai.value")), *INPUT),
    output=(
        Fields(
            content=("ai.response.text", "ai.result.text", "ai.response.object", "ai.result.object"),
            tool_calls=("ai.response.toolCalls", "ai.result.toolCalls"),
        ),
        *OUTPUT,
    ),
    operation=("gen_ai.operation.name",),
    provider=(*PROVIDER, "ai.model.provider"),
    response_model=("ai.response.model", *RESPONSE_MODEL),
    request_model=("ai.model.id", *REQUEST_MODEL),
    response_id=("ai.response.id", "gen_ai.response.id"),
    # before version 6 the SDK passed on what providers say, and Anthropic's input tokens exclude the cache
    input_tokens=(
        Sum((_IN + "noCacheTokens", _IN + "cacheReadTokens", _IN + "cacheWriteTokens")),
        Sum(_meta("anthropic.usage.input_tokens", *_READ, *_WRITE)),
        Sum(
            (
                "ai.usage.inputTokens",
                *_meta("bedrock.usage.cacheReadInputTokens", "bedrock.usage.cacheWriteInputTokens"),
            )
        ),
        Sum(("ai.usage.promptTokens", *_meta("anthropic.cacheReadInputTokens", "anthropic.cacheCreationInputTokens"))),
        *INPUT_TOKENS,
        "ai.usage.tokens",
    ),
    output_tokens=("ai.usage.outputTokens", "ai.usage.completionTokens", *OUTPUT_TOKENS),
    cache_read=(
        _IN + "cacheReadTokens",
        "ai.usage.cachedInputTokens",
        *_meta(
            *_READ, "anthropic.cacheReadInputTokens", "openai.cachedPromptTokens", "bedrock.usage.cacheReadInputTokens"
        ),
        *CACHE_READ,
    ),
    cache_write=(
        _IN + "cacheWriteTokens",
        *_meta(*_WRITE, "anthropic.cacheCreationInputTokens", "bedrock.usage.cacheWriteInputTokens"),
        *CACHE_WRITE,
    ),
    reasoning=(
        "ai.usage.outputTokenDetails.reasoningTokens",
        "ai.usage.reasoningTokens",
        *_meta("openai.reasoningTokens"),
        *REASONING,
    ),
    finish=("ai.response.finishReason", "ai.finishReason", *FINISH),
    ttft=(("ai.response.msToFirstChunk", MILLISECOND), ("ai.stream.msToFirstChunk", MILLISECOND)),
    ttft_events=("ai.stream.firstChunk",),
    tool_name=("ai.toolCall.name", *TOOL_NAME),
    tool_arguments=("ai.toolCall.args", *TOOL_ARGUMENTS),
    tool_result=("ai.toolCall.result", *TOOL_RESULT),
    tool_call_id=("ai.toolCall.id", "gen_ai.tool.call.id"),
)

VERCEL_GENAI: Final = Dialect(name="vercel_genai", scopes=("gen_ai",))
