"""Claude Code: spans of its own making, with token counts that leave the cache out, and with little content."""

from __future__ import annotations

from typing import Final

from spanfuse_processor.otlp.dialects.dialect import (
    COST,
    FINISH,
    INPUT_TOKENS,
    MILLISECOND,
    NAME,
    OUTPUT_TOKENS,
    REQUEST_MODEL,
    TOOL_ARGUMENTS,
    TOOL_NAME,
    TOOL_RESULT,
    TTFT,
    Dialect,
    Quirks,
    Roles,
)
from spanfuse_processor.otlp.values import EventKey

CLAUDE_CODE: Final = Dialect(
    name="claude_code",
    scopes=("com.anthropic.claude_code*",),
    attributes=(("span.type", "llm_request"), ("span.type", "interaction")),
    span_names=("claude_code.",),
    # A tool span holds one of the wait for permission and one of the execution: it is counted itself.
    roles=(
        Roles("span.type", {"llm_request": "llm", "tool": "tool", "interaction": "agent"}),
        Roles(NAME, {"claude_code.llm_request": "llm", "claude_code.tool": "tool", "claude_code.interaction": "agent"}),
    ),
    default_role="other",
    request_model=(*REQUEST_MODEL, "model"),
    response_id=("gen_ai.response.id", "request_id"),
    input_tokens=("input_tokens", *INPUT_TOKENS),
    output_tokens=("output_tokens", *OUTPUT_TOKENS),
    cache_read=("cache_read_tokens",),
    cache_write=("cache_creation_tokens",),
    cost=(*COST, EventKey("claude_code.api_request", "cost_usd")),
    finish=(*FINISH, "stop_reason"),
    ttft=(*TTFT, ("ttft_ms", MILLISECOND)),
    tool_name=(*TOOL_NAME, "tool_name"),
    # The path of a file that is read or edited says too little of what is done with it.
    tool_arguments=(*TOOL_ARGUMENTS, "tool_input", "full_command"),
    tool_result=(*TOOL_RESULT, EventKey("tool.output", "output"), EventKey("tool.output", "content")),
    tool_call_id=("gen_ai.tool.call.id", "tool_use_id"),
    quirks=Quirks(input_excludes_cache=True),
)
