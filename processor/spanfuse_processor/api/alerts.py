"""What the API needs of the alerts: which there are, who has taken them on, and whether they arrive."""

from __future__ import annotations

from typing import Protocol

from spanfuse_processor.exporters.alerts.model import Alert, AlertPage, AlertQuery, Delivery

__all__ = ["Alert", "AlertPage", "AlertQuery", "Alerts", "Delivery"]


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
