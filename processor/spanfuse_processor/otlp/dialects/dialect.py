"""The one shape of a dialect, which is data: what tells its spans, under which keys it keeps what, and where its messages are.

A dialect states only what differs from the OpenTelemetry GenAI conventions, whose keys are the defaults here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from spanfuse_processor.otlp.dialects.identity import AGENT
from spanfuse_processor.otlp.dialects.sources import INPUT, OUTPUT, Source
from spanfuse_processor.otlp.values import EventKey, Keys

Role = Literal["llm", "tool", "agent", "other"]
"""What a span is: only `llm` and `tool` become calls; an `agent` span (chains and workflows too) repeats their sums."""

NAME: Final = ""
"""Stands for the span's name where an attribute is asked for."""


class Roles(NamedTuple):
    """What the values of an attribute say of the role of a span."""

    attribute: str
    """The attribute, or `NAME`."""
    values: Mapping[str, Role]
    """Value → role. A key that begins or ends with `*` stands for all values with that end or beginning."""


OPERATIONS: Final = Roles(
    "gen_ai.operation.name",
    {
        "chat": "llm",
        "generate_content": "llm",
        "text_completion": "llm",
        "completion": "llm",
        "response": "llm",
        "responses": "llm",
        "llm_call": "llm",
        "embeddings": "llm",
        "execute_tool": "tool",
        "tool_call": "tool",
        "invoke_agent": "agent",
        "create_agent": "agent",
        "agent_call": "agent",
        "invoke_workflow": "agent",
        "agent_step": "agent",
        "execute_event_loop_cycle": "agent",
        "plan": "agent",
        "chain": "agent",
    },
)

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
TOTAL_TOKENS: Final[Keys] = ("gen_ai.usage.total_tokens", "llm.usage.total_tokens", "llm.token_count.total")
COST: Final[Keys] = ("gen_ai.cost.total_cost", "operation.cost", "llm.cost.total", "gen_ai.usage.cost")
FINISH: Final[Keys] = (
    "gen_ai.response.finish_reasons",
    "gen_ai.response.finish_reason",
    "anthropic.message.stop_reason",
)
PROVIDER: Final[Keys] = ("gen_ai.provider.name", "gen_ai.system")
RESPONSE_MODEL: Final[Keys] = ("gen_ai.response.model",)
REQUEST_MODEL: Final[Keys] = ("gen_ai.request.model",)
TOOL_NAME: Final[Keys] = ("gen_ai.tool.name",)
TOOL_ARGUMENTS: Final[Keys] = ("gen_ai.tool.call.arguments",)
TOOL_RESULT: Final[Keys] = ("gen_ai.tool.call.result",)
TOOL_EVENTS: Final[tuple[Keys, Keys]] = (
    (EventKey("gen_ai.tool.message", "content"),),
    (EventKey("gen_ai.choice", "message"), EventKey("gen_ai.tool.message", "result")),
)
"""Arguments and result in span events."""

SECOND: Final = 1_000_000_000
MILLISECOND: Final = 1_000_000

TTFT: Final = (("gen_ai.response.time_to_first_chunk", SECOND), ("gen_ai.client.operation.time_to_first_chunk", SECOND))


class AgentSpan(NamedTuple):
    """Which spans are an agent's own, and so name it."""

    attribute: str
    value: str
    keys: Keys = ()
    """Where the name is; else it is the span's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirks:
    """Where a dialect means other than what the conventions mean by the same."""

    input_excludes_cache: bool = False
    """Tokens from and to the cache are not among the input tokens."""
    reasoning_twice: str = ""
    """Reasoning tokens were added to output tokens that hold them already, where the model asked for is like this regular
    expression."""
    left_out: tuple[str, ...] = ()
    """Results that stand for content which is not recorded: of the arguments beside them neither."""
    made_up_session: bool = False
    """`gen_ai.conversation.id` is made up where the user gave none: what an ancestor says of the session is surer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A span dialect. Keys, and sources of messages, are tried in order; the first that has a value wins."""

    name: str
    """Its name, for counters and for people."""

    scopes: tuple[str, ...] = ()
    """Instrumentation scopes whose spans speak it, the surest sign; one that ends with `*` is a beginning."""
    attributes: tuple[str | tuple[str, str], ...] = ()
    """Attributes, or attributes and a value, that only its own spans have: none that is copied from parent to child, as
    baggage and session ids are. They tell spans of scopes that no dialect names."""
    overrides: tuple[str, ...] = ()
    """Attributes that tell its spans even if another dialect names their scope: those were translated."""
    span_names: tuple[str, ...] = ()
    """Beginnings of span names that tell its spans where nothing else does."""

    roles: tuple[Roles, ...] = (OPERATIONS,)
    """The first whose attribute has a value that is listed decides."""
    default_role: Role | None = None
    """Of spans with none of these attributes. Default: `tool` if a tool is named, `llm` for a client span with a model."""

    answered: frozenset[str] = frozenset()
    """Attributes of which a model call that went well has one. Without any its span is but the beginning of a stream, of whose
    answer another span tells. Empty: a span is a call whatever it has."""

    input: tuple[Source, ...] = INPUT
    """Sources of the input messages of a model call."""
    output: tuple[Source, ...] = OUTPUT
    """Sources of its output messages."""

    operation: Keys = ("gen_ai.operation.name",)
    agent: Keys = AGENT
    """Session, user and team have keys that hold for all dialects: `identity`."""
    agent_span: AgentSpan | None = None
    """Whose name is the agent's where `agent` has none."""
    provider: Keys = PROVIDER
    response_model: Keys = RESPONSE_MODEL
    request_model: Keys = REQUEST_MODEL
    response_id: Keys = ("gen_ai.response.id",)
    input_tokens: Keys = INPUT_TOKENS
    output_tokens: Keys = OUTPUT_TOKENS
    cache_read: Keys = CACHE_READ
    cache_write: Keys = CACHE_WRITE
    reasoning: Keys = REASONING
    total_tokens: Keys = TOTAL_TOKENS
    """Input and output tokens together: they tell what the others hold."""
    cost: Keys = COST
    """Cost of the call, USD."""
    finish: Keys = FINISH
    ttft: tuple[tuple[str, int], ...] = TTFT
    """Attribute with the time to the first token, and its unit in nanoseconds."""
    first_token_at: Keys = ()
    """Else the time of the first token, in ISO 8601."""
    ttft_events: tuple[str, ...] = ("gen_ai.content.completion.chunk",)
    """Else the first event of one of these names."""
    tool_name: Keys = TOOL_NAME
    """Name of a tool that was executed; else it is the span's, without `tool_span`."""
    tool_span: tuple[str, ...] = ("execute_tool ",)
    """What the names of tool spans begin, or end, with beside the name of the tool."""
    tool_arguments: Keys = (*TOOL_ARGUMENTS, *TOOL_EVENTS[0])
    tool_result: Keys = (*TOOL_RESULT, *TOOL_EVENTS[1])
    tool_call_id: Keys = ("gen_ai.tool.call.id", EventKey("gen_ai.tool.message", "id"))
    quirks: Quirks = field(default_factory=Quirks)
