"""Alerts: which there are, and who has taken them on."""

from __future__ import annotations

import time
from typing import Annotated, Final, Literal

from fastapi import APIRouter, HTTPException, Query, Request
from starlette.responses import Response

from spanfuse_processor.api.alerts import AlertQuery, Alerts
from spanfuse_processor.api.asked import Operator, Reader
from spanfuse_processor.errors import QueryError, SpanfuseError
from spanfuse_processor.page.shell import PageRoute, done, form, page

router: Final = APIRouter(route_class=PageRoute, include_in_schema=False)

ROWS: Final = 100
_SNOOZES_S: Final = {"1h": 3600, "8h": 8 * 3600, "24h": 86_400, "end": 0}


@router.get("/ui/alerts")
async def alerts(
    request: Request,
    reader: Reader,
    state: Literal["", "firing", "resolved"] = "",
    severity: Literal["", "info", "warning", "critical"] = "",
    cursor: Annotated[str, Query(max_length=4096)] = "",
) -> Response:
    """Alerts, newest first."""
    watch: Alerts | None = request.app.state.alerts
    asked = {"state": state, "severity": severity}
    now_ns = time.time_ns()
    if watch is None:
        return page(request, reader, "alerts.html", rows=None, next="", asked=asked, cursor="", now_ns=now_ns)
    found = await watch.alerts(AlertQuery(state=state, severity=severity, limit=ROWS, cursor=cursor))
    return page(
        request, reader, "alerts.html", rows=found.alerts, next=found.next, asked=asked, cursor=cursor, now_ns=now_ns
    )


@router.post("/ui/alerts")
async def answer(request: Request, operator: Operator) -> Response:
    """Take an alert on, or have nobody told of it for a while."""
    watch: Alerts | None = request.app.state.alerts
    if watch is None:
        raise SpanfuseError("exporters.alerts is not set")
    fields = await form(request)
    id, what, actor = fields.get("id", ""), fields.get("do", ""), operator.actor("the page")
    if what == "ack":
        found = await watch.ack(id, actor)
    elif what in _SNOOZES_S:
        found = await watch.snooze(id, time.time_ns() + _SNOOZES_S[what] * 10**9, actor)
    else:
        raise QueryError("an alert is acknowledged or snoozed")
    if found is None:
        raise HTTPException(404, "no such alert")
    return done(request, "Acknowledged." if what == "ack" else "Done.", "/ui/alerts")
