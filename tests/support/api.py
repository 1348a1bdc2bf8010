"""The API over a host in memory, without a socket."""

from __future__ import annotations

from typing import Any

import httpx
from starlette.types import ASGIApp

from spanfuse_processor.api.access import Access
from spanfuse_processor.api.alerts import Alert, AlertPage, AlertQuery, Delivery
from spanfuse_processor.api.app import create_app
from spanfuse_processor.config.api import Api as Settings
from spanfuse_processor.config.telemetry import Telemetry as TelemetrySettings
from spanfuse_processor.errors import QueryError
from spanfuse_processor.telemetry.running import Telemetry
from tests.support.console import NOW_NS, FakeConsole
from tests.support.measured import Host

READ, OPERATE, ADMIN, EXPIRED = ("read-" + "r" * 16, "operate-" + "o" * 16, "admin-" + "a" * 16, "expired-" + "e" * 16)
SETTINGS = Settings.model_validate(
    {
        "tokens": [
            {"name": "guard", "token": READ},
            {"name": "oncall", "token": OPERATE, "role": "operate", "expires": "2100-01-01"},
            {"name": "root", "token": ADMIN, "role": "admin"},
            {"name": "old", "token": EXPIRED, "role": "admin", "expires": "2020-01-01"},
        ]
    }
)


def bearer(token: str) -> dict[str, str]:
    """The header of a token."""
    return {"Authorization": f"Bearer {token}"}


class FakeAlerts:
    """Some alerts in memory; see `api.alerts.Alerts`."""

    def __init__(self, count: int = 5) -> None:
        self.known = {
            f"a{n}": Alert(
                id=f"a{n}",
                rule="cycle" if n % 2 else "budget.session",
                key=f"session:run-{n:05d}",
                severity="critical" if n % 2 else "warning",
                state="resolved" if n == 3 else "firing",
                title="A session was stopped",
                first_ns=NOW_NS - n * 10**9,
                last_ns=NOW_NS,
                release=f"spanfuse reset session:run-{n:05d}",
            )
            for n in range(count)
        }
        self.tested: list[tuple[str, str]] = []

    async def alerts(self, query: AlertQuery) -> AlertPage:
        if query.cursor and not query.cursor.isdecimal():
            raise QueryError("the cursor is none of this list")
        exact = {name: getattr(query, name) for name in ("state", "severity", "rule", "key")}
        found = [a for a in self.known.values() if all(v in ("", getattr(a, k)) for k, v in exact.items())]
        start = int(query.cursor or 0)
        end = start + query.limit
        return AlertPage(alerts=tuple(found[start:end]), next=str(end) if end < len(found) else "")

    async def ack(self, id: str, actor: str) -> Alert | None:
        return self._changed(id, acknowledged_by=actor)

    async def snooze(self, id: str, until_ns: int, actor: str) -> Alert | None:
        return self._changed(id, snoozed_until_ns=until_ns)

    async def test(self, receiver: str, actor: str) -> list[Delivery]:
        if receiver not in ("", "on-call"):
            raise QueryError(f"there is no receiver {receiver}")
        self.tested.append((receiver, actor))
        return [Delivery(receiver="on-call", kind="slack", delivered=True)]

    def _changed(self, id: str, **update: Any) -> Alert | None:
        if id in self.known:
            self.known[id] = self.known[id].model_copy(update=update)
        return self.known.get(id)


class Api:
    """The application with its host.

    Args:
        settings: section `extensions.api`; none: without tokens.
    """

    def __init__(self, settings: Settings | None = None, *, alerts: bool = True) -> None:
        self.host = FakeConsole()
        self.access = Access(settings)
        self.alerts = FakeAlerts() if alerts else None
        measured = Host()
        self.telemetry = Telemetry(TelemetrySettings(), "embedded", measured, measured.observe)
        self.app: ASGIApp = create_app(self.host, access=self.access, alerts=self.alerts, telemetry=self.telemetry)

    async def send(self, method: str, path: str, base: str = "http://localhost", **request: Any) -> httpx.Response:
        """What is answered."""
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=base) as client:
            return await client.request(method, path, **request)

    async def __call__(self, method: str, path: str, **request: Any) -> tuple[int, Any]:
        response = await self.send(method, path, **request)
        return response.status_code, response.json()
