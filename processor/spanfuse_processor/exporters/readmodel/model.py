"""The rows that people look at, and the questions that a store of them answers.

Rows hold names and numbers only, nothing of what a model was told or said. Money is in nano-dollars, times are nanoseconds
since the Unix epoch.
"""

from __future__ import annotations

from typing import Final, Literal, Protocol

from pydantic import Field

from spanfuse_schemas import Decision, Detection
from spanfuse_schemas.call import Kind
from spanfuse_schemas.decision import State
from spanfuse_schemas.record import Record

MAX_STEPS: Final = 200
"""Steps kept of a session, its last."""
MAX_DETECTIONS: Final = 10_000
"""Detections kept, the last."""
MAX_HISTORY: Final = 100
"""Decisions kept of a key, its last."""
MAX_MINUTES: Final = 24 * 60
"""Minutes of which sums are kept: a day."""
MAX_PAGE: Final = 1_000
"""Rows of one page."""

Sort = Literal["last", "cost", "calls", "tokens", "detections"]
"""What a list of sessions is sorted by; the highest come first."""
SeriesKind = Literal["global", "agent", "model", "team"]
"""Whose sums; the name of `global` is `*`. Not of users: there may be a million."""


class SessionRow(Record):
    """A session as it is listed."""

    session: str
    """Its id."""
    agent: str = ""
    """Agent of its last model call."""
    user: str = ""
    """User of its last call that names one."""
    team: str = ""
    """Team, likewise."""
    model: str = ""
    """Model that answered last."""
    calls: int = 0
    """Model calls counted."""
    tools: int = 0
    """Tool executions counted."""
    tokens: int = 0
    """Input and output tokens."""
    cost_nano_usd: int = 0
    """What it has cost."""
    first_ns: int = 0
    """Start of its first call."""
    last_ns: int = 0
    """End of its newest call."""
    state: State = "closed"
    """State of its breaker."""
    action: Literal["allow", "nudge", "block"] = "allow"
    """What a Guard does with its next call."""
    mode: Literal["observe", "enforce"] = "observe"
    """Mode of what stands; `observe` as well where nothing does."""
    rule: str = ""
    """The rule that decided; empty: nothing stands."""
    message: str = ""
    """Why, for people."""
    expires_at_ns: int | None = None
    """When an open breaker becomes half-open; none: not by itself."""
    lapses: bool = False
    """From `expires_at_ns` on nothing stands: the period of a budget is over."""
    epoch: int = 0
    """Epoch of its breaker."""
    would_block: int = 0
    """Detections that asked for a block which nobody enforces: in shadow, or all is in `observe`."""
    detections: int = 0
    """Times that a rule fired."""


class StepRow(Record):
    """A call of a session: one step of its timeline."""

    at_ns: int
    """Its end."""
    lasted_ns: int = 0
    """How long it took."""
    span_id: str = ""
    """Its span, 16 hex digits."""
    trace_id: str = ""
    """Its trace, 32 hex digits."""
    kind: Kind = "llm"
    """`llm`: a model call, `tool`: a tool execution."""
    agent: str = ""
    """Who made it."""
    model: str = ""
    """Model that answered; empty for a tool."""
    tools: tuple[str, ...] = ()
    """Tools that it called; for a tool execution, the tool."""
    tokens: int = 0
    """Input and output tokens."""
    cost_nano_usd: int = 0
    """What it has cost."""
    error: str = ""
    """Type of its failure; empty for a success."""
    loop: int = 0
    """Steps with the same number are equal (the same deed with the same outcome, or the same prompt); 0: like no other here, or
    unknown. Numbers count from 1 in the order in which they first come up."""
    rules: tuple[str, ...] = ()
    """Rules that fired on it."""
    decision: Literal["", "allow", "nudge", "block"] = ""
    """What was decided on it; empty: nothing new."""


class MinuteRow(Record):
    """What came together within a minute."""

    minute: int
    """Its number: minutes since the Unix epoch."""
    calls: int = 0
    """Model calls."""
    cost_nano_usd: int = 0
    """What they have cost."""
    tokens: int = 0
    """Input and output tokens."""
    blocks: int = 0
    """Breakers that opened, those that nobody enforces included."""


class SessionQuery(Record):
    """Which sessions are asked for. Each field that is not empty narrows the list."""

    query: str = Field(default="", max_length=256)
    """Part of the id, agent, user, team or model, in either case."""
    state: Literal["", "closed", "open", "half_open"] = ""
    """State of the breaker."""
    agent: str = Field(default="", max_length=1024)
    """Agent, exactly."""
    user: str = Field(default="", max_length=1024)
    """User, exactly."""
    team: str = Field(default="", max_length=1024)
    """Team, exactly."""
    since_ns: int = Field(default=0, ge=0, lt=2**63)
    """With a call at or after this moment."""
    sort: Sort = "last"
    """What comes first."""
    limit: int = Field(default=50, ge=1, le=MAX_PAGE)
    """Rows of a page."""
    cursor: str = Field(default="", max_length=4096)
    """`next` of the page before; empty: the first page."""


class SessionPage(Record):
    """A page of sessions."""

    sessions: tuple[SessionRow, ...] = ()
    """Its rows."""
    next: str = ""
    """Cursor of the page after it; empty: there is none."""


class DetectionQuery(Record):
    """Which detections are asked for, newest first. Each field that is not empty narrows the list."""

    rule: str = Field(default="", max_length=256)
    """Rule, exactly."""
    session: str = Field(default="", max_length=4096)
    """Session, exactly."""
    agent: str = Field(default="", max_length=1024)
    """Agent, exactly."""
    user: str = Field(default="", max_length=1024)
    """User, exactly."""
    action: Literal["", "warn", "nudge", "block"] = ""
    """What the rule asked for."""
    since_ns: int = Field(default=0, ge=0, lt=2**63)
    """At or after this moment."""
    limit: int = Field(default=100, ge=1, le=MAX_DETECTIONS)
    """Rows of a page."""
    cursor: str = Field(default="", max_length=4096)
    """`next` of the page before; empty: the first page."""


class DetectionPage(Record):
    """A page of detections, newest first."""

    detections: tuple[Detection, ...] = ()
    """Its rows."""
    next: str = ""
    """Cursor of the page after it; empty: there is none."""


class ReadModel(Protocol):
    """A store of these rows.

    Any question may raise `UnavailableError`: the store is away. A cursor that is none of its own raises `QueryError`.
    """

    async def sessions(self, query: SessionQuery) -> SessionPage:
        """Sessions as they are listed."""

    async def session(self, session: str) -> SessionRow | None:
        """One session; none if it is not known."""

    async def timeline(self, session: str, limit: int = MAX_STEPS) -> list[StepRow]:
        """The last steps of a session, oldest first; empty if it is not known."""

    async def detections(self, query: DetectionQuery) -> DetectionPage:
        """Detections, newest first."""

    async def history(self, key: str, limit: int = MAX_HISTORY) -> list[Decision]:
        """What was decided about a key, newest first."""

    async def series(self, kind: SeriesKind, name: str, minutes: int) -> list[MinuteRow]:
        """The last minutes, oldest first, one row each, the running one last.

        Args:
            minutes: 1 to `MAX_MINUTES`.
        """
