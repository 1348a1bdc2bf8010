"""What a Guard tells of itself, every few seconds: the OTLP log event `spanfuse.guard.report`, whose attributes are these
fields after `spanfuse.guard.`."""

from __future__ import annotations

from pydantic import Field

from spanfuse_schemas.record import SCHEMA_VERSION, Record

MOST = 2**53
"""No count is larger: as an integer of JSON it is exact in every language."""


class CallsMade(Record):
    """Calls of one agent, for one team, that were let through and have ended."""

    agent: str = ""
    """Name of the agent; empty: not known, or one of more than are named."""
    team: str = ""
    """Team that pays; empty likewise."""
    calls: int = Field(ge=0, lt=MOST)
    """How many."""


class Refused(Record):
    """Calls that one decision has stopped, however often the agent tried."""

    key: str = Field(min_length=1)
    """What is blocked, such as `session:run-1`; `*`: of more keys than are named."""
    rule: str = ""
    """The rule that decided; `unavailable` where nothing was known."""
    blocked: int = Field(default=0, ge=0, lt=MOST)
    """Calls refused."""
    would_block: int = Field(default=0, ge=0, lt=MOST)
    """Calls that were let through only because the decision is not enforced."""


class GuardReport(Record):
    """What has changed since the report before it, of one Guard in one process."""

    v: int = SCHEMA_VERSION
    """Schema version."""
    source: str = Field(min_length=1, max_length=64)
    """The Guard and its process; new with each start, and in a forked child."""
    seq: int = Field(ge=1, lt=MOST)
    """Number of the report, from 1 without gaps: one that comes twice has the same, that of a lost one is missing."""
    since_ns: int = Field(ge=0)
    """From when on it tells, nanoseconds since the Unix epoch, by the clock that the spans of its process have."""
    until_ns: int = Field(ge=0)
    """Until when."""
    calls: tuple[CallsMade, ...] = ()
    """Model calls that have ended."""
    checks: int = Field(default=0, ge=0, lt=MOST)
    """Bare checks that were let through, of a process that names no model calls: each is taken for one."""
    refusals: tuple[Refused, ...] = ()
    """What was refused, by key and rule."""
    nudged: int = Field(default=0, ge=0, lt=MOST)
    """Checks answered with a nudge."""
    probes: int = Field(default=0, ge=0, lt=MOST)
    """Calls let through a half-open breaker."""
    denied: int = Field(default=0, ge=0, lt=MOST)
    """Executions of tools refused."""
    errors: int = Field(default=0, ge=0, lt=MOST)
    """Failures inside the Guard; such a call passes."""
    unsigned: int = Field(default=0, ge=0, lt=MOST)
    """Records of the control topic that were ignored, since nobody whom the Guard trusts has signed them."""
    spans_dropped: int = Field(default=0, ge=0, lt=MOST)
    """Spans of the process that could not be sent."""
    state: str = ""
    """`connecting`, `ready`, `stale`, … as `Guard.state`."""
    age_s: float = Field(default=0, ge=0)
    """Seconds since the Guard last heard from where decisions come from."""
