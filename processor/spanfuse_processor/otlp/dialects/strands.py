"""Strands Agents: Bedrock's messages in events of the span, one each; under the latest conventions one event for each of
`gen_ai.input.messages` and its like, or attributes.
"""

from __future__ import annotations

from typing import Final

from spanfuse_processor.otlp.dialects.dialect import (
    MILLISECOND,
    TOOL_ARGUMENTS,
    TOOL_EVENTS,
    TOOL_RESULT,
    TTFT,
    Dialect,
)
from spanfuse_processor.otlp.dialects.sources import DETAILS_EVENT
from spanfuse_processor.otlp.values import EventKey

STRANDS: Final = Dialect(
    name="strands",
    scopes=("strands*",),
    attributes=(("gen_ai.system", "strands-agents"), ("gen_ai.provider.name", "strands-agents")),
    ttft=(*TTFT, ("gen_ai.server.time_to_first_token", MILLISECOND)),
    tool_span=("execute_tool ", "Tool: "),
    # of old, under the latest conventions: messages in events
    tool_arguments=(
        *TOOL_ARGUMENTS,
        *TOOL_EVENTS[0],
        EventKey(DETAILS_EVENT, "gen_ai.input.messages", "0.parts.0.arguments"),
    ),
    tool_result=(
        *TOOL_RESULT,
        *TOOL_EVENTS[1],
        EventKey(DETAILS_EVENT, "gen_ai.output.messages", "0.parts.0.response"),
    ),
)
