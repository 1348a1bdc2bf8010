"""What the API needs of the alerts: which there are, who has taken them on, and whether they arrive."""

from __future__ import annotations

from typing import Literal, Protocol

from pydantic import Field

from spanfuse_schemas.record import Record

AlertState = Literal["firing", "resolved"]
Severity = Literal["info", "warning", "critical"]


class Alert(Record):
    """Something that people are told of, once until it is over."""

    id: str
    """Its id, by which it is acknowledged and snoozed."""
    rule: str
    """What found it: a rule, or a check of the alerts' own, such as `source.silent`."""
    key: str = ""
    """What it is about, such as `session:checkout-42`; empty: the whole."""
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


class Alerts(Protocol):
    """The alerts of a host. Any method may raise `UnavailableError` (503) or `QueryError` (400)."""

    async def alerts(self, query: AlertQuery) -> AlertPage:
        """Alerts, newest first."""

    async def ack(self, id: str, actor: str) -> Alert | None:
        """Somebody has taken it on: nobody is reminded of it until it is over; none: there is no such alert."""

    async def snooze(self, id: str, until_ns: int, actor: str) -> Alert | None:
        """Nobody is told of it until then; a time that is past ends it. None: there is no such alert."""

    async def test(self, receiver: str, actor: str) -> list[Delivery]:
        """Send a message that says it is a test, and wait for the answers.

        Args:
            receiver: its name; empty: each.

        Raises:
            QueryError: there is no receiver of that name.
        """
