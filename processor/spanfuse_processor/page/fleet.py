"""Agents and models side by side."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal

from fastapi import APIRouter, Request
from starlette.responses import Response

from spanfuse_processor.api.asked import Host, Reader
from spanfuse_processor.api.console import Console
from spanfuse_processor.exporters.readmodel.model import MinuteRow
from spanfuse_processor.page.shell import PageRoute, page

router: Final = APIRouter(route_class=PageRoute, include_in_schema=False)

ROWS: Final = 100
DRAWN: Final = 50
"""Of them, those with a line of their last hour."""
MINUTES: Final = 60


@router.get("/ui/agents")
async def agents(request: Request, host: Host, reader: Reader) -> Response:
    """What each agent came to, dearest first."""
    return await _board(request, host, reader, "agent", await host.agents())


@router.get("/ui/models")
async def models(request: Request, host: Host, reader: Reader) -> Response:
    """What each model came to, dearest first."""
    return await _board(request, host, reader, "model", await host.models())


async def _board(
    request: Request, host: Console, reader: Reader, kind: Literal["agent", "model"], rows: list[dict[str, Any]]
) -> Response:
    shown = rows[:ROWS]
    minutes = await asyncio.gather(*(host.series(kind, row[kind], MINUTES) for row in shown[:DRAWN]))
    lines = [_line(found) for found in minutes]
    top = max((row["cost_nano_usd"] for row in shown), default=0) or 1
    return page(request, reader, "fleet.html", kind=kind, rows=shown, lines=lines, top=top, total=len(rows))


def _line(minutes: list[MinuteRow]) -> list[int]:
    return [row.calls for row in minutes]
