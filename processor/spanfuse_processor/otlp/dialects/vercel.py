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
from spanfuse_processor.otlp.dialects.identity import AGENT
from spanfuse_processor.otlp.dialects.sources import INPUT, OUTPUT, Fields, Json

_OPERATION: Final = "ai.operationId"

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
    agent=(*AGENT, "ai.telemetry.functionId"),
    provider=(*PROVIDER, "ai.model.provider"),
    response_model=("ai.response.model", *RESPONSE_MODEL),
    request_model=("ai.model.id", *REQUEST_MODEL),
    response_id=("ai.response.id", "gen_ai.response.id"),
    input_tokens=("ai.usage.inputTokens", "ai.usage.promptTokens", *INPUT_TOKENS, "ai.usage.tokens"),
    output_tokens=("ai.usage.outputTokens", "ai.usage.completionTokens", *OUTPUT_TOKENS),
    cache_read=("ai.usage.inputTokenDetails.cacheReadTokens", "ai.usage.cachedInputTokens", *CACHE_READ),
    cache_write=("ai.usage.inputTokenDetails.cacheWriteTokens", *CACHE_WRITE),
    reasoning=("ai.usage.outputTokenDetails.reasoningTokens", "ai.usage.reasoningTokens", *REASONING),
    finish=("ai.response.finishReason", "ai.finishReason", *FINISH),
    ttft=(("ai.response.msToFirstChunk", MILLISECOND), ("ai.stream.msToFirstChunk", MILLISECOND)),
    ttft_events=("ai.stream.firstChunk",),
    tool_name=("ai.toolCall.name", *TOOL_NAME),
    tool_arguments=("ai.toolCall.args", *TOOL_ARGUMENTS),
    tool_result=("ai.toolCall.result", *TOOL_RESULT),
    tool_call_id=("ai.toolCall.id", "gen_ai.tool.call.id"),
)

VERCEL_GENAI: Final = Dialect(name="vercel_genai", scopes=("gen_ai",))
