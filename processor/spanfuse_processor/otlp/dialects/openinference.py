"""OpenInference (Arize Phoenix and the instrumentations that follow it)."""

from __future__ import annotations

from typing import Final

from spanfuse_processor.otlp.dialects.dialect import (
    CACHE_READ,
    CACHE_WRITE,
    FINISH,
    INPUT_TOKENS,
    NAME,
    OUTPUT_TOKENS,
    PROVIDER,
    REASONING,
    REQUEST_MODEL,
    RESPONSE_MODEL,
    TOOL_ARGUMENTS,
    TOOL_NAME,
    TOOL_RESULT,
    AgentSpan,
    Dialect,
    Roles,
)
from spanfuse_processor.otlp.dialects.identity import AGENT
from spanfuse_processor.otlp.dialects.langchain import REPLY, tool_message
from spanfuse_processor.otlp.dialects.sources import INPUT, OUTPUT, Flat, Json
from spanfuse_processor.otlp.values import JsonKey

KIND: Final = "openinference.span.kind"


def _usage(*fields: str) -> tuple[JsonKey, ...]:
    """Of the response as a whole: older versions tell no classes of tokens."""
    return tuple(JsonKey("output.value", f"usage.{field}") for field in fields)


def _of_reply(field: str) -> JsonKey:
    """Of a reply of LangChain, whose streams and older versions tell no classes of tokens."""
    return JsonKey("output.value", f"{REPLY}{field}")


OPENINFERENCE: Final = Dialect(
    name="openinference",
    overrides=(KIND,),
    roles=(
        Roles(NAME, {"*count_tokens": "other"}),  # asks what a request would hold, of the kind of those that are sent
        Roles(KIND, {"LLM": "llm", "EMBEDDING": "llm", "TOOL": "tool", "AGENT": "agent", "CHAIN": "agent"}),
    ),
    input=(Flat("llm.input_messages."), *INPUT, Json(("input.value",))),
    output=(Flat("llm.output_messages."), *OUTPUT, Json(("output.value",))),
    operation=("gen_ai.operation.name", KIND),
    agent=(*AGENT, "graph.node.id"),
    agent_span=AgentSpan(KIND, "AGENT", (JsonKey("output.value", "agent", beside="expected_output"),)),  # of CrewAI
    provider=("llm.provider", "llm.system", *PROVIDER),
    response_model=("llm.response.model_name", "llm.model_name", "embedding.model_name", *RESPONSE_MODEL),
    request_model=("llm.request.model_name", JsonKey("llm.invocation_parameters", "model"), *REQUEST_MODEL),
    response_id=("gen_ai.response.id", JsonKey("output.value", "id"), _of_reply("response_metadata.id")),
    input_tokens=("llm.token_count.prompt", *INPUT_TOKENS),
    output_tokens=("llm.token_count.completion", *OUTPUT_TOKENS),
    cache_read=(
        "llm.token_count.prompt_details.cache_read",
        "llm.token_count.prompt_details.cache_input",
        *CACHE_READ,
        *_usage(
            "prompt_tokens_details.cached_tokens",
            "input_tokens_details.cached_tokens",
            "cache_read_input_tokens",
        ),
        _of_reply("usage_metadata.input_token_details.cache_read"),
    ),
    cache_write=(
        "llm.token_count.prompt_details.cache_write",
        *CACHE_WRITE,
        *_usage("cache_creation_input_tokens"),
        _of_reply("usage_metadata.input_token_details.cache_creation"),
    ),
    reasoning=(
        "llm.token_count.completion_details.reasoning",
        *REASONING,
        *_usage("completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens"),
        _of_reply("usage_metadata.output_token_details.reasoning"),
    ),
    finish=(
        "llm.finish_reason",
        *FINISH,
        JsonKey("output.value", "choices.0.finish_reason"),
        JsonKey("output.value", "stop_reason"),
        JsonKey("output.value", "generations.0.0.generation_info.finish_reason"),
        JsonKey("output.value", "status"),
    ),
    ttft_events=("First Token Stream Event",),
    tool_name=("tool.name", *TOOL_NAME),
    tool_arguments=(*TOOL_ARGUMENTS, "input.value", "tool.parameters"),
    tool_result=(*TOOL_RESULT, *tool_message("output.value"), "output.value"),
    tool_call_id=(
        "tool_call.id",
        "tool.id",
        "gen_ai.tool.call.id",
        *tool_message("output.value", field="tool_call_id"),
    ),
)
