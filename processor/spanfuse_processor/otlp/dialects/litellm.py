"""LiteLLM, the library and the proxy: what its GenAI attributes lack stands in what Python writes for a dict."""

from __future__ import annotations

from typing import Final

from spanfuse_processor.otlp.dialects.dialect import (
    CACHE_READ,
    CACHE_WRITE,
    COST,
    FINISH,
    INPUT_TOKENS,
    NAME,
    OPERATIONS,
    OUTPUT_TOKENS,
    REASONING,
    Dialect,
    Role,
    Roles,
)
from spanfuse_processor.otlp.dialects.sources import INPUT, OUTPUT, Flat, Joined, Json
from spanfuse_processor.otlp.values import JsonKey

_ENUM: Final = "SpanAttributes.LLM_"
"""What some versions write for a key under Python 3.11 and later, which formats members of an enum by their name."""
_CALL_TYPES: Final = (
    "completion",
    "text_completion",
    "embedding",
    "responses",
    "anthropic_messages",
    "generate_content",
    "generate_content_stream",
)
_ROLES: Final[dict[str, Role]] = {prefix + call: "llm" for call in _CALL_TYPES for prefix in ("", "a")}


def _usage(*fields: str) -> tuple[JsonKey, ...]:
    return tuple(JsonKey("metadata.usage_object", field) for field in fields)


LITELLM: Final = Dialect(
    name="litellm",
    scopes=("litellm",),
    attributes=("litellm.call_id", "metadata.usage_object", "metadata.user_api_key_hash"),
    roles=(
        Roles(NAME, {"raw_gen_ai_request": "other"}),  # what was sent, within the call's own span
        Roles("llm.request.type", _ROLES),
        OPERATIONS,
    ),
    input=(*INPUT, Flat(f"{_ENUM}PROMPTS.")),
    # tool calls stand apart from the messages, by their number
    output=(
        Joined(Json(("gen_ai.output.messages",)), Flat("gen_ai.completion.")),
        *OUTPUT,
        Flat(f"{_ENUM}COMPLETIONS."),
    ),
    input_tokens=(*INPUT_TOKENS, *_usage("prompt_tokens", "input_tokens")),
    output_tokens=(*OUTPUT_TOKENS, *_usage("completion_tokens", "output_tokens")),
    cache_read=(*CACHE_READ, *_usage("cache_read_input_tokens", "prompt_tokens_details.cached_tokens")),
    cache_write=(
        *CACHE_WRITE,
        *_usage("cache_creation_input_tokens", "prompt_tokens_details.cache_creation_tokens"),
    ),
    reasoning=(*REASONING, *_usage("completion_tokens_details.reasoning_tokens")),
    cost=(*COST, JsonKey("hidden_params", "response_cost")),
    finish=(*FINISH, "gen_ai.completion.0.finish_reason", f"{_ENUM}COMPLETIONS.0.finish_reason"),
)
