"""What a rule found."""

from __future__ import annotations

from typing import Literal

from spanfuse_schemas.record import SCHEMA_VERSION, Record

Mode = Literal["off", "shadow", "warn", "nudge", "block"]
DetectionAction = Literal["warn", "nudge", "block"]


class Evidence(Record):
    """The numbers behind a finding. Those that a rule does not have are left at their default."""

    count: int = 0
    """How often: repeats, failures, steps, calls in the window."""
    threshold: float = 0
    """The limit that was reached, in the unit of `unit`."""
    value: float = 0
    """The value that reached it, in the unit of `unit`."""
    unit: str = ""
    """Unit of `threshold` and `value`: repeats, rounds, calls, calls/min, tokens, s, USD, USD/min, USD/call."""
    period: int = 0
    """For a cycle: its length, steps."""
    tool: str = ""
    """Tool concerned, where there is one."""
    first_span_id: str = ""
    """First span of what was found."""
    last_span_id: str = ""
    """Span on which the rule fired."""
    trace_id: str = ""
    """Trace of `last_span_id`."""
    since_ns: int = 0
    """When it began, nanoseconds since the Unix epoch."""
    cost_nano_usd: int = 0
    """Money spent since it began, nano-dollars."""


class Detection(Record):
    """One rule, firing once on one session."""

    v: int = SCHEMA_VERSION
    """Schema version."""
    id: str
    """Deterministic id: the same call under the same policy gives the same id."""
    rule: str
    """Name of the rule, such as `repeat.no_progress`."""
    action: DetectionAction
    """What the rule asks for."""
    mode: Mode
    """Mode of the rule; in `shadow` the action is recorded and not carried out."""
    session: str
    """Session concerned; empty where the rule judges a scope that many share."""
    scope: str = ""
    """For such a rule: the scope, such as `agent:research`; empty for the others."""
    agent: str = ""
    """Agent of the call on which the rule fired."""
    user: str = ""
    """User of that call."""
    team: str = ""
    """Team of that call."""
    model: str = ""
    """Model of that call."""
    call: int
    """0-based index, within the session, of the model call on which (or after which) the rule fired; of a scope, how many calls
    of it had been counted before."""
    at_ns: int
    """Event time, nanoseconds since the Unix epoch."""
    message: str
    """One sentence for people: what was seen, and what to do."""
    evidence: Evidence = Evidence()
    """The numbers."""
    conditional: bool = False
    """The loop completes only if the next call repeats it; see `Decision.conditional`."""
