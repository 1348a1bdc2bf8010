"""The REST and SSE surface of a host."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp

from spanfuse_processor.api import (
    alert_routes,
    breakers,
    budgets,
    fleet,
    health,
    login,
    metrics,
    policy,
    sessions,
    streams,
)
from spanfuse_processor.api.access import Access
from spanfuse_processor.api.alerts import Alerts
from spanfuse_processor.api.console import Console
from spanfuse_processor.api.door import Door
from spanfuse_processor.api.examples import EXAMPLES
from spanfuse_processor.api.failures import DOCUMENTED, HANDLERS
from spanfuse_processor.api.timed import Timed
from spanfuse_processor.telemetry.running import Telemetry

ROUTERS: Final[tuple[APIRouter, ...]] = (
    health.router,
    streams.router,
    breakers.router,
    sessions.router,
    fleet.router,
    budgets.router,
    policy.router,
    alert_routes.router,
    metrics.router,
    login.router,
)
"""All routes; the first that fits a path is taken."""

_SILENT: Final[Any] = dict.fromkeys(("tracing", "metrics", "logs", "operation_spans", "auto_configure"), False)
"""FastAPI tells nothing of itself: its spans could come back to the receiver beside it."""


class _Api(FastAPI):
    """FastAPI with examples of all answers in its document."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            document = super().openapi()
            for (method, path), example in EXAMPLES.items():
                answer = document["paths"][path][method]["responses"]["200"]
                answer["content"]["application/json"]["example"] = example
        return self.openapi_schema or {}


def create_app(
    console: Console,
    *,
    access: Access | None = None,
    alerts: Alerts | None = None,
    more: tuple[APIRouter, ...] = (),
    telemetry: Telemetry | None = None,
) -> ASGIApp:
    """The application.

    Args:
        console: the host.
        access: who may do what; default: everybody who reaches it may do everything.
        alerts: the alerts; none: they are not configured.
        more: routes beside these, such as those of the page.
        telemetry: of the host; none: it measures nothing.
    """
    access = access or Access()
    app = _Api(
        telemetry=_SILENT,
        title="spanfuse",
        version=version("spanfuse"),
        summary="What runs, what it costs, what is stopped and why; and how to release it.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
        exception_handlers=HANDLERS,
        responses=DOCUMENTED,
    )
    app.state.console, app.state.access, app.state.alerts = console, access, alerts
    app.state.telemetry = telemetry
    for router in (*ROUTERS, *more):
        app.include_router(router)
    return Door(Timed(app, telemetry) if telemetry is not None else app, access)
