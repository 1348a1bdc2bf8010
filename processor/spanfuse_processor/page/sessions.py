"""Sessions, one of them with its timeline, and what rules found."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, HTTPException, Query, Request
from starlette.responses import RedirectResponse, Response

from spanfuse_processor.api.asked import Host, Reader
from spanfuse_processor.exporters.readmodel.model import MAX_STEPS, DetectionQuery, SessionQuery, Sort
from spanfuse_processor.page.drawing import strip
from spanfuse_processor.page.formats import address
from spanfuse_processor.page.shell import PageRoute, page
from spanfuse_schemas.names import normal_name

router: Final = APIRouter(route_class=PageRoute, include_in_schema=False)

ROWS: Final = 50
BESIDE: Final = 50
"""Detections and decisions shown beside a session's steps."""
Since = Literal["", "15m", "1h", "24h"]
_SINCE_S: Final[dict[Since, int]] = {"15m": 900, "1h": 3600, "24h": 86_400}

Text = Annotated[str, Query(max_length=1024)]
Cursor = Annotated[str, Query(max_length=4096)]


@router.get("/ui/sessions")
async def sessions(
    request: Request,
    host: Host,
    reader: Reader,
    query: Annotated[str, Query(max_length=256)] = "",
    state: Literal["", "closed", "open", "half_open"] = "",
    agent: Text = "",
    user: Text = "",
    team: Text = "",
    since: Since = "",
    sort: Sort = "last",
    cursor: Cursor = "",
) -> Response:
    """Sessions, page by page."""
    named = {"query": query, "state": state, "agent": agent, "user": user, "team": team}
    narrowed: dict[str, Any] = {**named, "since_ns": _since_ns(since)}
    found = await host.sessions(SessionQuery(**narrowed, sort=sort, limit=ROWS, cursor=cursor))
    asked = {**named, "since": since, "sort": "" if sort == "last" else sort}
    return page(
        request, reader, "sessions.html", rows=found.sessions, next=found.next, asked=asked, sort=sort, cursor=cursor
    )


@router.get("/ui/sessions/{id:id}")
async def linked(id: str) -> Response:
    """Where messages elsewhere lead that write the id into the path."""
    return RedirectResponse(address("/ui/session", id=id), 303)


@router.get("/ui/session")
async def session(request: Request, host: Host, reader: Reader, id: Annotated[str, Query(max_length=4096)]) -> Response:
    """One session: what it did, and what came of it."""
    name = normal_name(id)
    row, steps, found, history = await asyncio.gather(
        host.session(name),
        host.timeline(name, MAX_STEPS),
        host.detections(DetectionQuery(session=name, limit=BESIDE)),
        host.history(f"session:{name}", BESIDE),
    )
    if row is None:
        raise HTTPException(404, "nothing is known of this session")
    return page(
        request, reader, "session.html", row=row, strip=strip(steps), detections=found.detections, history=history
    )


@router.get("/ui/detections")
async def detections(
    request: Request,
    host: Host,
    reader: Reader,
    rule: Annotated[str, Query(max_length=256)] = "",
    session: Cursor = "",
    agent: Text = "",
    action: Literal["", "warn", "nudge", "block"] = "",
    since: Since = "",
    cursor: Cursor = "",
) -> Response:
    """What rules found, newest first, page by page."""
    asked = {"rule": rule, "session": session, "agent": agent, "action": action}
    narrowed: dict[str, Any] = {**asked, "since_ns": _since_ns(since)}
    found = await host.detections(DetectionQuery(**narrowed, limit=ROWS, cursor=cursor))
    return page(
        request,
        reader,
        "detections.html",
        rows=found.detections,
        next=found.next,
        asked=asked | {"since": since},
        cursor=cursor,
    )


def _since_ns(since: Since) -> int:
    return time.time_ns() - _SINCE_S[since] * 10**9 if since else 0
