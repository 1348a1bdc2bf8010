"""An alert as it is listed and sent: names and numbers only, nothing of what a model was told or said."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import Field

from spanfuse_schemas import Evidence
from spanfuse_schemas.record import Record

AlertState = Literal["firing", "resolved"]
Severity = Literal["info", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")
"""From the least on."""
What = Literal["firing", "resolved", "acknowledged", "test"]
"""Why a receiver is told."""


class Alert(Record):
    """Something that people are told of, once until it is over."""

    id: str
    """Its id, by which it is acknowledged and snoozed."""
    rule: str
    """What found it: a rule, or a check of the alerts' own, such as `source.silent`."""
    key: str = ""
    """What it is about, such as `session:checkout-42`; `global:*`: the whole."""
    severity: Severity = "warning"
    """How much it matters."""
    state: AlertState = "firing"
    """`resolved`: it is over."""
    title: str = ""
    """One line, for people."""
    message: str = ""
    """Why, with the numbers."""
    agent: str = ""
    """Agent concerned."""
    user: str = ""
    """User concerned."""
    team: str = ""
    """Team concerned."""
    session: str = ""
    """Session concerned."""
    cost_nano_usd: int = 0
    """Money it is about, nano-dollars."""
    first_ns: int = 0
    """When it began, nanoseconds since the Unix epoch."""
    last_ns: int = 0
    """When it was last seen."""
    resolved_ns: int | None = None
    """When it was over; none: it is not."""
    expires_at_ns: int | None = None
    """Until when what was decided holds; none: not known, or nothing was decided."""
    count: int = 1
    """How often it was seen."""
    acknowledged_by: str = ""
    """Who has taken it on; empty: nobody."""
    snoozed_until_ns: int | None = None
    """Until when nobody is told of it; none: it is not snoozed."""
    receivers: tuple[str, ...] = ()
    """Who was told, by name of the receiver."""
    release: str = ""
    """The command that ends what was decided, such as `spanfuse reset session:checkout-42`."""
    action: Literal["", "warn", "nudge", "block"] = ""
    """What was decided; empty: nothing."""
    mode: Literal["", "observe", "enforce"] = ""
    """Whether Guards enforce it; empty: nothing was decided."""
    evidence: Evidence = Evidence()
    """The numbers."""
    limit: float = 0
    """Of a budget: its limit, in the unit of the evidence; 0: it is of none."""


class AlertQuery(Record):
    """Which alerts are asked for, newest first. Each field that is not empty narrows the list."""

    state: Literal["", "firing", "resolved"] = ""
    """Whether they are over."""
    severity: Literal["", "info", "warning", "critical"] = ""
    """How much they matter."""
    rule: str = Field(default="", max_length=256)
    """What found them, exactly."""
    key: str = Field(default="", max_length=4096)
    """What they are about, exactly."""
    limit: int = Field(default=100, ge=1, le=1_000)
    """Rows of a page."""
    cursor: str = Field(default="", max_length=4096)
    """`next` of the page before; empty: the first page."""


class AlertPage(Record):
    """A page of alerts, newest first."""

    alerts: tuple[Alert, ...] = ()
    """Its rows."""
    next: str = ""
    """Cursor of the page after it; empty: there is none."""


class Delivery(Record):
    """What became of a message to a receiver."""

    receiver: str
    """Its name."""
    kind: str = ""
    """`slack`, `pagerduty`, `webhook`, `smtp` or `log`."""
    delivered: bool
    """Whether it took the message."""
    why: str = ""
    """If not: why, without secrets."""


class Notice(NamedTuple):
    """Something that receivers are told."""

    what: What
    alert: Alert
