"""The one shape of a dialect: how its spans are told, and under which keys it keeps what.

A dialect states only what differs from the OpenTelemetry GenAI conventions, whose keys are the defaults here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from spanfuse_processor.otlp.span import KIND_CLIENT, Span
from spanfuse_processor.otlp.values import JsonKey, Keys

Role = Literal["llm", "tool", "agent", "other"]
"""What a span is: only `llm` and `tool` become calls; an `agent` span (chains and workflows too) repeats their sums."""


class Cut:
    """Stands for a content that is there but was cut on its way, so that it has no identity."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size


Messages = list[Any] | Cut | None
"""Message dicts, a content without identity, or nothing captured."""

OPERATIONS: Final[Mapping[str, Role]] = {
    "chat": "llm",
    "generate_content": "llm",
    "text_completion": "llm",
    "responses": "llm",
    "embeddings": "llm",
    "execute_tool": "tool",
    "invoke_agent": "agent",
    "create_agent": "agent",
    "invoke_workflow": "agent",
    "agent_step": "agent",
    "execute_event_loop_cycle": "agent",
    "plan": "agent",
    "chain": "agent",
}
"""`gen_ai.operation.name` → role."""

SESSION: Final[Keys] = ("session.id", "gen_ai.conversation.id")
USER: Final[Keys] = ("user.id", "enduser.id", "gen_ai.user", "gen_ai.request.user")
TEAM: Final[Keys] = ("spanfuse.team", "team.id", "team.name", "team", JsonKey("metadata", "team"))
AGENT: Final[Keys] = ("gen_ai.agent.name", "agent.name", "agent_name")
INPUT_TOKENS: Final[Keys] = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
OUTPUT_TOKENS: Final[Keys] = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
CACHE_READ: Final[Keys] = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.details.cache_read_tokens",
)
CACHE_WRITE: Final[Keys] = (
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.cache_write_input_tokens",
    "gen_ai.usage.details.cache_write_tokens",
)
REASONING: Final[Keys] = (
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "gen_ai.usage.details.reasoning_tokens",
)
COST: Final[Keys] = ("gen_ai.cost.total_cost", "operation.cost", "llm.cost.total", "gen_ai.usage.cost")
FINISH: Final[Keys] = (
    "gen_ai.response.finish_reasons",
    "gen_ai.response.finish_reason",
    "anthropic.message.stop_reason",
)
TOOL_ARGUMENTS: Final[Keys] = ("gen_ai.tool.call.arguments",)
TOOL_RESULT: Final[Keys] = ("gen_ai.tool.call.result",)

SECOND: Final = 1_000_000_000
MILLISECOND: Final = 1_000_000


def role_by_operation(span: Span) -> Role:
    """What spans with none of the attributes that say so are: as older GenAI instrumentation wrote them."""
    attributes = span.attributes
    if "gen_ai.tool.name" in attributes:
        return "tool"
    asks = "gen_ai.request.model" in attributes or "gen_ai.response.model" in attributes
    return "llm" if asks and span.kind == KIND_CLIENT else "other"


class AgentSpan(NamedTuple):
    """Which spans are an agent's own, and so name it."""

    attribute: str
    value: str
    keys: Keys = ()
    """Where the name is; else it is the span's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A span dialect. Keys are tried in order, the first that has a value wins."""

    name: str
    """Its name, for counters."""
    detect: Callable[[Span], bool]
    """Whether a span speaks it; the registry's first match wins."""
    messages: Callable[[Span], Messages]
    """The input messages of a model call."""
    reply: Callable[[Span], Messages]
    """The output messages of a model call."""
    roles: tuple[tuple[str, Mapping[str, Role]], ...] = (("gen_ai.operation.name", OPERATIONS),)
    """Attribute → its values → role; the first attribute with a value that is listed decides."""
    operation: Keys = ("gen_ai.operation.name",)
    session: Keys = SESSION
    user: Keys = USER
    team: Keys = TEAM
    agent: Keys = AGENT
    agent_span: AgentSpan | None = None
    """Whose name is the agent's where `agent` has none."""
    provider: Keys = ("gen_ai.provider.name", "gen_ai.system")
    response_model: Keys = ("gen_ai.response.model",)
    request_model: Keys = ("gen_ai.request.model",)
    response_id: Keys = ("gen_ai.response.id",)
    input_tokens: Keys = INPUT_TOKENS
    output_tokens: Keys = OUTPUT_TOKENS
    cache_read: Keys = CACHE_READ
    cache_write: Keys = CACHE_WRITE
    reasoning: Keys = REASONING
    cost: Keys = COST
    """Cost of the call, USD."""
    finish: Keys = FINISH
    ttft: tuple[tuple[str, int], ...] = (
        ("gen_ai.response.time_to_first_chunk", SECOND),
        ("gen_ai.client.operation.time_to_first_chunk", SECOND),
    )
    """Attribute with the time to the first token, and its unit in nanoseconds."""
    ttft_events: tuple[str, ...] = ("gen_ai.content.completion.chunk",)
    """Else the first event of one of these names."""
    tool_name: Keys = ("gen_ai.tool.name",)
    tool_arguments: Keys = TOOL_ARGUMENTS
    tool_result: Keys = TOOL_RESULT
    tool_call_id: Keys = ("gen_ai.tool.call.id",)
