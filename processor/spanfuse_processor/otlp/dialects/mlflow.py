"""MLflow Tracing: every attribute is JSON, texts too."""

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
    PROVIDER,
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
from spanfuse_processor.otlp.values import JsonKey

_TYPE: Final = "mlflow.spanType"
_INPUT: Final = "mlflow.spanInputs"
_OUTPUT: Final = "mlflow.spanOutputs"


def _usage(field: str, *raw: str) -> tuple[JsonKey, ...]:
    """A field of what MLflow says, else of what the provider answered."""
    return (JsonKey("mlflow.chat.tokenUsage", field), *(JsonKey(_OUTPUT, f"usage.{key}") for key in raw))


MLFLOW: Final = Dialect(
    name="mlflow",
    attributes=(_TYPE,),
    roles=(
        Roles(
            _TYPE,
            {
                "chat_model": "llm",
                "llm": "llm",
                "embedding": "llm",
                "tool": "tool",
                "agent": "agent",
                "chain": "agent",
                "workflow": "agent",
                "task": "agent",
            },
        ),
        OPERATIONS,
    ),
    input=(Json((_INPUT,)), *INPUT),
    output=(Json((_OUTPUT,)), *OUTPUT),
    agent_span=AgentSpan(_TYPE, "AGENT"),
    provider=("mlflow.llm.provider", *PROVIDER),
    response_model=(JsonKey(_OUTPUT, "model"), "mlflow.llm.model", *RESPONSE_MODEL),
    request_model=(*REQUEST_MODEL, "model", JsonKey(_INPUT, "model")),
    response_id=("gen_ai.response.id", JsonKey(_OUTPUT, "id")),
    input_tokens=(*_usage("input_tokens", "prompt_tokens", "input_tokens"), *INPUT_TOKENS),
    output_tokens=(*_usage("output_tokens", "completion_tokens", "output_tokens"), *OUTPUT_TOKENS),
    cache_read=(
        *_usage(
            "cache_read_input_tokens",
            "prompt_tokens_details.cached_tokens",
            "input_tokens_details.cached_tokens",
            "cache_read_input_tokens",
        ),
        *CACHE_READ,
    ),
    cache_write=(*_usage("cache_creation_input_tokens", "cache_creation_input_tokens"), *CACHE_WRITE),
    reasoning=(
        *_usage(
            "reasoning_tokens",
            "completion_tokens_details.reasoning_tokens",
            "output_tokens_details.reasoning_tokens",
        ),
        *REASONING,
    ),
    cost=(JsonKey("mlflow.llm.cost", "total_cost"), *COST),
    finish=(
        *FINISH,
        JsonKey(_OUTPUT, "choices.0.finish_reason"),
        JsonKey(_OUTPUT, "stop_reason"),
        JsonKey(_OUTPUT, "generations.0.0.generation_info.finish_reason"),
        JsonKey(_OUTPUT, "status"),
    ),
    tool_arguments=(*TOOL_ARGUMENTS, _INPUT),
    tool_result=(*TOOL_RESULT, *tool_message(_OUTPUT), _OUTPUT),
    tool_call_id=("gen_ai.tool.call.id", *tool_message(_OUTPUT, field="tool_call_id")),
    ttft_events=("mlflow.chunk.item.0",),
)
