"""Strands Agents: Bedrock's messages in events of the span, one each; under the latest conventions one event for each of
`gen_ai.input.messages` and its like, or attributes.
"""

from __future__ import annotations

from typing import Final

from spanfuse_processor.otlp.dialects.dialect import MILLISECOND, TTFT, Dialect

STRANDS: Final = Dialect(
    name="strands",
    scopes=("strands*",),
    attributes=(("gen_ai.system", "strands-agents"), ("gen_ai.provider.name", "strands-agents")),
    ttft=(*TTFT, ("gen_ai.server.time_to_first_token", MILLISECOND)),
    tool_span=("execute_tool ", "Tool: "),
)
