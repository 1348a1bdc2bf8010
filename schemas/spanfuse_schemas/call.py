"""What ingest makes of one span: a finished model call or tool execution, without its content."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, Self

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from spanfuse_schemas.budget import BudgetOrder
from spanfuse_schemas.guard_report import GuardReport
from spanfuse_schemas.record import SCHEMA_VERSION, Record

Kind = Literal["llm", "tool"]
CostSource = Literal["reported", "computed", "fallback", "unknown"]
SessionSource = Literal["explicit", "inherited", "trace"]
ContentMode = Literal["content", "fingerprint", "structure"]
_HEX = r"^(?:[0-9a-f]{4})*$"
"""Whole bytes in pairs."""
ErrorClass = Literal["", "provider", "client", "tool"]


class Fingerprint(str):
    """What is kept of a text: enough to tell whether two are equal or alike, not what they say.

    On the wire it is one string, `<exact><canon><near>:<size>`: three 64-bit hashes of 16 hex digits each and a length;
    `near` is left out where the text is too short for it, all three where the text was truncated, since then it has no
    identity and equals nothing. As one string it costs a tenth of a nested record to parse, and calls carry many.
    """

    __slots__ = ()

    def __new__(
        cls, packed: str | None = None, /, *, exact: str = "", canon: str = "", near: str = "", size: int = 0
    ) -> Self:
        """From its wire form, or from its parts.

        Args:
            exact: hash of the raw text, 16 hex digits; empty: the identity is unknown.
            canon: hash of the canonical text (volatile ids, times and counters masked), 16 hex digits; empty as `exact`.
            near: SimHash of the canonical text, 16 hex digits; empty where the text is short.
            size: length of the raw text, characters.
        """
        return super().__new__(cls, f"{exact}{canon}{near}:{size}" if packed is None else packed)

    @property
    def exact(self) -> str:
        """Hash of the raw text, 16 hex digits; empty where the identity is unknown."""
        return self[:16] if len(self) > 32 else ""

    @property
    def canon(self) -> str:
        """Hash of the canonical text, 16 hex digits; empty where the identity is unknown."""
        return self[16:32] if len(self) > 32 else ""

    @property
    def near(self) -> str:
        """SimHash of the canonical text, 16 hex digits; empty where the text is short."""
        return self[32:48] if len(self) > 48 else ""

    @property
    def size(self) -> int:
        """Length of the raw text, characters."""
        return int(self.rpartition(":")[2])

    def rehashed(self, exact: str, canon: str) -> Self:
        """One of the same length and likeness with other hashes, where the identity is known."""
        return type(self)(f"{exact}{canon}{self[32:]}")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        text = core_schema.str_schema(pattern=r"^(?:[0-9a-f]{32}(?:[0-9a-f]{16})?)?:[0-9]{1,12}$")
        return core_schema.no_info_after_validator_function(partial(str.__new__, cls), text)


class Message(Record):
    """One message of the input that is new in this call, that is after the last assistant message."""

    role: str
    """`system`, `user`, `assistant` or `tool`."""
    print: Fingerprint
    """Fingerprint of the content."""
    tool: str = ""
    """For a tool result: name of the tool, where known."""
    call_id: str = ""
    """For a tool result: id of the tool call that it answers."""
    error: bool = False
    """For a tool result: the tool failed. So may an answer to the agent that comes as a message of the user."""
    restates: bool = False
    """The message begins as the first user message did: the framework states the task anew each turn, with what was
    observed somewhere inside, so that the observation cannot be told from the rest."""
    echoes: bool = False
    """All it says was said by the action that it answers, or by the message before that: it observes nothing."""


class Action(Record):
    """One thing the model did: a tool call, or a text addressed to the user."""

    tool: str = ""
    """Name of the tool called; empty for a text."""
    print: Fingerprint
    """Fingerprint of the arguments, or of the text."""
    wording: str = Field(default="", max_length=132, pattern=_HEX)
    """The words of the arguments (`spanfuse_schemas.wording.wording`); empty where they are no short prose. Where the agent's
    own process states its prints, they are hashed with that process's key: consistent while one process makes the session's
    spans."""
    meaning: str = Field(default="", max_length=8, pattern=_HEX)
    """What the call means (`spanfuse_schemas.wording.meaning`); empty unless ingest is asked for it."""
    fields: str = Field(default="", max_length=64, pattern=_HEX)
    """The fields of the arguments (`spanfuse_schemas.wording.fields_of`); empty where they are not told apart. Keyed as
    `wording` is."""
    call_id: str = ""
    """Id of the tool call, as the provider gave it."""


class Tokens(Record):
    """Tokens by class."""

    input: int = 0
    """Input tokens, those read from and written to a cache included."""
    output: int = 0
    """Output tokens, reasoning included."""
    cache_read: int = 0
    """Part of `input` that was read from the provider's cache."""
    cache_write: int = 0
    """Part of `input` that was written to the provider's cache."""
    reasoning: int = 0
    """Part of `output` spent on reasoning."""


class Drift(Record):
    """What the messages of one call say of drift, in numbers only. It is left out where there is nothing to say."""

    marks: int = Field(default=0, ge=0, lt=2**31)
    """Kinds of marks, of five, of a passage in a tool result that gives instructions to the model."""
    passage: int = Field(default=0, ge=0, lt=2**31)
    """Length of that passage, characters."""
    traced: int = Field(default=0, ge=0, lt=2**31)
    """Specific things (addresses, ids, amounts, names) in the arguments of this call's tool calls that stand in that passage
    and nowhere else."""
    turn: int = Field(default=0, ge=0, lt=2**31)
    """Number of the user turn that is new in this call, from 1; 0: none is."""
    chars: int = Field(default=0, ge=0, lt=2**31)
    """Its length as far as it is compared, characters."""
    anchor: int = Field(default=0, ge=0, le=1000)
    """How much of its trigrams is in the first user turn, thousandths."""
    recent: int = Field(default=0, ge=0, le=1000)
    """How much of its trigrams is in the user turn before it, thousandths."""


class Call(Record):
    """One finished model call or tool execution, normalised from whatever dialect its span spoke."""

    v: int = SCHEMA_VERSION
    """Schema version."""
    kind: Kind = "llm"
    """`llm` for a model call (the only kind that is billed), `tool` for a tool execution."""
    trace_id: str
    """Trace id, 32 lower-case hex digits."""
    span_id: str
    """Span id, 16 lower-case hex digits: the identity under which a call counts once."""
    parent_span_id: str = ""
    """Parent's span id, empty for a root."""
    start_ns: int
    """Start, nanoseconds since the Unix epoch."""
    end_ns: int
    """End, nanoseconds since the Unix epoch: the time that the core works with."""
    session: str
    """Session id; `trace:<trace id>` where the span and its ancestors name none."""
    session_source: SessionSource = "explicit"
    """Where the session id comes from."""
    agent: str = ""
    """Name of the agent."""
    user: str = ""
    """Id of the user on whose behalf the call was made."""
    team: str = ""
    """Team that pays for the call."""
    operation: str = ""
    """`gen_ai.operation.name`: chat, text_completion, embeddings, execute_tool, …"""
    provider: str = ""
    """Provider, lower case, under its OpenTelemetry name."""
    model: str = ""
    """Model that answered, else the one that was asked."""
    tokens: Tokens = Tokens()
    """Tokens by class; zeros where nothing was used, or nothing is known of it."""
    usage_estimated: bool = False
    """Some of the tokens were not reported and are an estimate from sizes, or a lower bound, since the call was broken off."""
    cost_nano_usd: int = Field(default=0, ge=0)
    """Cost, nano-dollars (1e-9 USD)."""
    cost_source: CostSource = "unknown"
    """`reported` by the instrumentation, `computed` from prices, `fallback` price of an unknown model, or `unknown`."""
    finish_reason: str = ""
    """Normalised finish reason: stop, tool_calls, length, content_filter, …"""
    error_type: str = ""
    """`error.type` or the exception's type; empty for a success."""
    error_class: ErrorClass = ""
    """Whose failure it was: `provider` (429, 5xx, time-out), `client` (other 4xx, and whatever nothing says is the provider's),
    `tool`; empty for a success."""
    ttft_ns: int = 0
    """Time to first token, nanoseconds; 0 where unknown."""
    response: str = Field(default="", max_length=16, pattern=_HEX)
    """Hash of the provider's response id: spans with the same one tell of the same call; empty where unknown."""
    repeats: str = Field(default="", max_length=16, pattern=_HEX)
    """Id of a model span inside or beside this one, which tells of the same call and came in an earlier request; empty: none
    did."""
    progress: int | None = Field(default=None, ge=0)
    """What the agent says it has achieved, as a count that only grows (`spanfuse.progress`); none: it does not say."""
    content: ContentMode = "structure"
    """What the fingerprints were made from: the `content`, `fingerprint` attributes, or neither (`structure`)."""
    history: int = 0
    """Number of input messages before the new ones, that is up to and including the last assistant message."""
    system: str = Field(default="", pattern=_HEX)
    """Hash of the system messages where there is no history; empty: there are none, or a history."""
    input: Fingerprint | None = None
    """Fingerprint of all new input messages together (see `spanfuse_schemas.fingerprint.input_print`)."""
    failed: bool = False
    """All that is new are results of tools that failed."""
    restates: bool = False
    """As `Message.restates`."""
    echoes: bool = False
    """As `Message.echoes`; for a tool execution, of its result."""
    spoken: bool = False
    """Beside results of tools, the new input holds a message of somebody."""
    answers: Fingerprint | None = None
    """Fingerprint of the action that the new input answers, which is what the last assistant message of the input did;
    none: the agent starts over (see `spanfuse_schemas.fingerprint.action_print`)."""
    answered: tuple[str, ...] = ()
    """Tools that this action called, one entry a call."""
    wording: str = Field(default="", pattern=_HEX)
    """As `Action.wording`, of the action that `answers` stands for, if it is a single tool call; for a tool execution, of its
    arguments."""
    fields: str = Field(default="", pattern=_HEX)
    """As `Action.fields`, likewise."""
    meaning: str = Field(default="", pattern=_HEX)
    """As `Action.meaning`, likewise."""
    asks: str = Field(default="", pattern=_HEX)
    """As `Action.wording`, of the single tool call that `action` stands for."""
    action: Fingerprint | None = None
    """Fingerprint of what this call did: its tool calls together, else its text. For a tool execution, of its arguments."""
    called: tuple[str, ...] = ()
    """Tools that it called, one entry a call. For a tool execution, the tool."""
    output: Fingerprint | None = None
    """For a tool execution: its result."""
    drift: Drift | None = None
    """What its messages say of drift; none: nothing, or unknown."""


class Reset(Record):
    """An operator's order to close the breaker of a key and to forget what its detectors counted."""

    key: str
    """Key of the breaker, such as `session:checkout-42`."""
    at_ns: int
    """When it was ordered, nanoseconds since the Unix epoch."""
    actor: str = ""
    """Who ordered it."""


class Alias(Record):
    """What the span of an ancestor says of calls that were counted before it came: whose they are."""

    id: str = Field(max_length=16, pattern=_HEX)
    """The identity under which it counts once: a hash of the span that says so and of the calls."""
    trace_id: str
    """Their trace."""
    session: str
    """Session under which they were counted."""
    into: str = ""
    """Session to which all belong that were counted under the trace alone; empty: they stay."""
    from_ns: int = 0
    """Calls that began from then on, …"""
    to_ns: int = 0
    """… until then, nanoseconds since the Unix epoch."""
    user: str = ""
    """User to whom `calls` are charged; empty: they were, or nobody is known."""
    team: str = ""
    """Team to which they are charged; likewise."""
    calls: int = Field(default=0, ge=0)
    """Model calls that had no user or team so far."""
    cost_nano_usd: int = Field(default=0, ge=0)
    """Their cost, nano-dollars."""
    input_tokens: int = Field(default=0, ge=0)
    """Their input tokens."""
    output_tokens: int = Field(default=0, ge=0)
    """Their output tokens."""


class Moved(Record):
    """What was counted under a trace, on its way to the session to which it belongs."""

    session: str
    """Where it goes."""
    origin: str
    """Where it was counted, such as `trace:5b8e…`."""
    at_ns: int
    """End of its last call, nanoseconds since the Unix epoch."""
    state: str
    """The session's state as this build keeps it, in base64."""


class CallBatch(Record):
    """One message of the topic `spanfuse.calls`: all that one incoming batch holds for one partition."""

    v: int = SCHEMA_VERSION
    """Schema version."""
    calls: tuple[Call, ...] = ()
    """The calls, in the order of their ends as far as the batch knows it."""
    resets: tuple[Reset, ...] = ()
    """Orders to reset, applied before the calls."""
    orders: tuple[BudgetOrder, ...] = ()
    """Orders about budgets of sessions, carried out after the resets and before the calls."""
    aliases: tuple[Alias, ...] = ()
    """What is known by now of calls that were counted before, applied after the calls."""
    moved: tuple[Moved, ...] = ()
    """What comes from elsewhere, applied before the calls."""
    reports: tuple[GuardReport, ...] = ()
    """What Guards have told of themselves."""
