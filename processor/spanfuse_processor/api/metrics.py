"""What is measured, for Prometheus: all of `telemetry.catalogue` that the host at hand has."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, HTTPException, Request
from starlette.responses import Response

from spanfuse_processor.api.asked import READER
from spanfuse_processor.telemetry.running import Telemetry

router: Final = APIRouter(tags=["health"], dependencies=[READER])


@router.get(
    "/metrics", responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}, response_class=Response
)
async def metrics(request: Request) -> Response:
    """What is measured, in the text format of Prometheus, or OpenMetrics where that is asked for."""
    telemetry: Telemetry | None = request.app.state.telemetry
    if telemetry is None:
        raise HTTPException(404, "nothing is measured here")
    found = await telemetry.scrape(request.headers.get("accept", ""))
    return Response(found.body, media_type=found.content_type)
