"""Sessions, and what rules found on them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Query, Request
from starlette.responses import Response

from spanfuse_processor.api.asked import READER, Host, SessionId
from spanfuse_processor.api.console import SessionDetail
from spanfuse_processor.api.shapes import Answer, listed, told, whole
from spanfuse_processor.exporters.readmodel.model import (
    MAX_STEPS,
    DetectionQuery,
    SessionPage,
    SessionQuery,
    StepRow,
)
from spanfuse_schemas import Decision, Detection
from spanfuse_schemas.names import normal_name

router: Final = APIRouter(tags=["sessions"], dependencies=[READER])

BESIDE: Final = 100
"""Detections and decisions told beside the steps of a session."""


class Timeline(Answer):
    """What a session did, and what was found and decided about it."""

    session: str
    """Its id."""
    steps: list[StepRow]
    """Its last steps, oldest first."""
    detections: list[Detection]
    """What rules found on it, newest first, at most 100."""
    decisions: list[Decision]
    """What was decided about it, newest first, at most 100."""


class Detections(Answer):
    """A page of detections, newest first."""

    detections: list[Detection]
    """Its rows."""
    next: str
    """Cursor of the page after it; empty: there is none."""


@router.get("/v1/sessions", response_model=SessionPage)
async def sessions(host: Host, query: Annotated[SessionQuery, Query()]) -> Response:
    """Sessions, page by page."""
    return whole(await host.sessions(query))


@router.get("/v1/sessions/{session:id}/timeline", response_model=Timeline)
async def timeline(
    request: Request, host: Host, session: SessionId, limit: Annotated[int, Query(ge=1, le=MAX_STEPS)] = MAX_STEPS
) -> Response:
    """The last steps of a session, with what was found and decided; 404: it is not known."""
    if not request.scope.get("raw_path", b"/timeline").endswith(b"/timeline"):  # %2Ftimeline: it is part of the id
        return await detail(host, f"{session}/timeline")
    session = normal_name(session)
    row, steps, found, decided = await asyncio.gather(
        host.session(session),
        host.timeline(session, limit),
        host.detections(DetectionQuery(session=session, limit=BESIDE)),
        host.history(f"session:{session}", BESIDE),
    )
    if row is None:
        raise HTTPException(404, "no such session")
    beside = {"detections": [told(one) for one in found.detections], "decisions": [told(one) for one in decided]}
    return whole({"session": session, "steps": [step.model_dump(mode="json") for step in steps], **beside})


@router.get("/v1/sessions/{session:id}", response_model=SessionDetail)
async def detail(host: Host, session: SessionId) -> Response:
    """What is known of a session: calls, money, its breaker, its budgets; 404: nothing is."""
    found = await host.session(normal_name(session))
    if found is None:
        raise HTTPException(404, "no such session")
    return whole(found.model_dump(mode="json", exclude={"decision"}) | {"decision": told(found.decision)})


@router.get("/v1/detections", response_model=Detections)
async def detections(host: Host, query: Annotated[DetectionQuery, Query()]) -> Response:
    """What rules found, newest first, page by page."""
    page = await host.detections(query)
    return listed("detections", (found.to_json() for found in page.detections), next=page.next)
