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
    RESPONSE_MODEL,
    Dialect,
    Role,
    Roles,
)
from spanfuse_processor.otlp.dialects.sources import INPUT, OUTPUT, Flat, Joined, Json
from spanfuse_processor.otlp.values import JsonKey, Sum

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


_RAW: Final = ("llm.openai.", "llm.azure.", "llm.anthropic.")
"""Under these is what was sent to a provider and what came back, in a span of its own: within that of the call, or, where
newer versions find a span under way, within that. There each call writes over the last."""


def _raw(field: str) -> tuple[str, ...]:
    return tuple(prefix + field for prefix in _RAW)


def _raw_usage(*fields: str) -> tuple[JsonKey, ...]:
    return tuple(JsonKey(key, field) for key in _raw("usage") for field in fields)


_CLAUDE: Final = tuple(
    JsonKey("llm.anthropic.usage", f"{field}input_tokens") for field in ("", "cache_read_", "cache_creation_")
)
"""Anthropic tells the tokens of the cache beside the others."""


def _usage(*fields: str) -> tuple[JsonKey, ...]:
    return tuple(JsonKey("metadata.usage_object", field) for field in fields)


LITELLM: Final = Dialect(
    name="litellm",
    scopes=("litellm",),
    attributes=("litellm.call_id", "metadata.usage_object", "metadata.user_api_key_hash"),
    roles=(
        *(Roles(key, {"*": "llm"}) for key in _raw("id")),
        Roles(NAME, {"raw_gen_ai_request": "other"}),  # of a stream, which tells nothing
        Roles("llm.request.type", _ROLES),
        OPERATIONS,
    ),
    input=(*INPUT, Flat(f"{_ENUM}PROMPTS."), Json((*_raw("messages"), *_raw("input")))),
    # tool calls stand apart from the messages, by their number
    output=(
        Joined(Json(("gen_ai.output.messages",)), Flat("gen_ai.completion.")),
        *OUTPUT,
        Flat(f"{_ENUM}COMPLETIONS."),
        Json((*_raw("choices"), *_raw("output"))),
        Json(_raw("content")),
    ),
    response_model=(*RESPONSE_MODEL, *_raw("model")),
    response_id=("gen_ai.response.id", *_raw("id")[:2]),  # LiteLLM's own id is another than Anthropic's
    input_tokens=(
        *INPUT_TOKENS,
        *_usage("prompt_tokens", "input_tokens"),
        *_raw_usage("prompt_tokens"),
        Sum(_CLAUDE),
        *_raw_usage("input_tokens"),
    ),
    output_tokens=(
        *OUTPUT_TOKENS,
        *_usage("completion_tokens", "output_tokens"),
        *_raw_usage("completion_tokens", "output_tokens"),
    ),
    cache_read=(
        *CACHE_READ,
        *_usage("cache_read_input_tokens", "prompt_tokens_details.cached_tokens"),
        *_raw_usage(
            "cache_read_input_tokens", "prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens"
        ),
    ),
    cache_write=(
        *CACHE_WRITE,
        *_usage("cache_creation_input_tokens", "prompt_tokens_details.cache_creation_tokens"),
        *_raw_usage("cache_creation_input_tokens"),
    ),
    reasoning=(
        *REASONING,
        *_usage("completion_tokens_details.reasoning_tokens"),
        *_raw_usage("completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens"),
    ),
    cost=(*COST, JsonKey("hidden_params", "response_cost")),
    finish=(
        *FINISH,
        "gen_ai.completion.0.finish_reason",
        f"{_ENUM}COMPLETIONS.0.finish_reason",
        *_raw("stop_reason"),
        *_raw("status"),
    ),
)
