"""Spans that Anthropic's own SDK and API make of each request, inside those of whatever else traces the client."""

from __future__ import annotations

from typing import Final

from spanfuse_processor.otlp.dialects.dialect import TOOL_RESULT, Dialect

ANTHROPIC_SDK: Final = Dialect(
    name="anthropic_sdk",
    scopes=("com.anthropic.sdk*", "com.anthropic.claude-platform"),
    # Every method of the API has a span, and some (`count_tokens`, `sessions.create`) name a model that they do not call.
    default_role="other",
    tool_result=(*TOOL_RESULT, "anthropic.tool_result.content"),
    tool_span=("anthropic.tool_use ", "anthropic.mcp_tool_use ", "anthropic.custom_tool_use "),
)
