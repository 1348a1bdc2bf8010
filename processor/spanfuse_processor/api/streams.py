"""What happens, as it happens."""

from __future__ import annotations

import time
from typing import Annotated, Final

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from spanfuse_processor.api.asked import Host, Reader
from spanfuse_processor.api.door import HEAD
from spanfuse_processor.api.events import EventStream
from spanfuse_processor.api.shapes import STREAM

router: Final = APIRouter(tags=["events"])

EventId = Annotated[str, Query(max_length=64, description="The same, for who cannot set headers.")]


@router.get("/v1/decisions/stream", status_code=200, response_class=EventStream, responses=STREAM)
async def decisions_stream(request: Request, host: Host, reader: Reader) -> Response:
    """What Guards hear: the policy, all that stands, `ready`, and then each change."""
    if request.scope.get(HEAD):
        return Response(media_type=EventStream.media_type)
    return EventStream(*host.follow(), lasts_s=_left(reader.expires_s))


@router.get("/v1/events", status_code=200, response_class=EventStream, responses=STREAM)
async def events(
    request: Request,
    host: Host,
    reader: Reader,
    last_event_id: Annotated[str, Header(max_length=64, description="Go on behind this event.")] = "",
    last_id: EventId = "",
) -> Response:
    """All that happens: decisions, detections, orders, the policy, sessions that changed. Each event has an id, and whoever was
    away goes on behind the last one heard."""
    if request.scope.get(HEAD):
        return Response(media_type=EventStream.media_type)
    return EventStream(*host.events(last_event_id or last_id), lasts_s=_left(reader.expires_s))


def _left(expires_s: float | None) -> float | None:
    return None if expires_s is None else expires_s - time.time()
