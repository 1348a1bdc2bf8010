"""Google's Agent Development Kit: 1.x writes Gemini's request and response on `call_llm` spans, 2.x the conventions."""

from __future__ import annotations

from typing import Final

from spanfuse_processor.otlp.dialects.dialect import (
    CACHE_READ,
    FINISH,
    NAME,
    OPERATIONS,
    REASONING,
    TOOL_ARGUMENTS,
    TOOL_RESULT,
    Dialect,
    Quirks,
    Roles,
)
from spanfuse_processor.otlp.dialects.identity import AGENT
from spanfuse_processor.otlp.dialects.sources import INPUT, OUTPUT, Json, Streamed
from spanfuse_processor.otlp.values import JsonKey

_REQUEST: Final = "gcp.vertex.agent.llm_request"
_RESPONSE: Final = "gcp.vertex.agent.llm_response"

GOOGLE_ADK: Final = Dialect(
    name="google_adk",
    scopes=("gcp.vertex.agent",),
    attributes=(_REQUEST, "gcp.vertex.agent.invocation_id"),
    roles=(
        Roles("gen_ai.tool.name", {"(merged tools)": "other"}),  # repeats the executions that were merged
        OPERATIONS,
        Roles(NAME, {"call_llm": "llm", "agent_run*": "agent", "invocation": "agent"}),
    ),
    input=(*INPUT, Json((JsonKey(_REQUEST, "contents"),))),
    output=(*map(Streamed, OUTPUT), Json((JsonKey(_RESPONSE, "content"),))),
    agent=(*AGENT, JsonKey(_REQUEST, "config.labels.adk_agent_name")),
    response_model=("gen_ai.response.model", JsonKey(_RESPONSE, "model_version")),
    cache_read=(*CACHE_READ, JsonKey(_RESPONSE, "usage_metadata.cached_content_token_count")),
    reasoning=(*REASONING, JsonKey(_RESPONSE, "usage_metadata.thoughts_token_count")),
    total_tokens=(JsonKey(_RESPONSE, "usage_metadata.total_token_count"),),
    finish=(*FINISH, JsonKey(_RESPONSE, "finish_reason")),
    tool_arguments=(*TOOL_ARGUMENTS, "gcp.vertex.agent.tool_call_args"),
    tool_result=(*TOOL_RESULT, "gcp.vertex.agent.tool_response"),
    quirks=Quirks(
        # LiteLlm's output tokens hold the reasoning, and ADK adds it: of its models alone, `provider/model`
        reasoning_twice=r"(?!projects/|publishers/|models/|tunedModels/)[^/]+/.+",
        left_out=("{}",),
    ),
)
