"""The fleet at a glance: what goes on, what it costs, what is stopped."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from spanfuse_processor.api.asked import Host, Reader
from spanfuse_processor.exporters.readmodel.model import DetectionQuery, MinuteRow, SessionQuery
from spanfuse_processor.page.shell import PageRoute, page
from spanfuse_schemas import Decision, Detection

router: Final = APIRouter(route_class=PageRoute, include_in_schema=False)

MINUTES: Final = 60
LISTED: Final = 8
"""Breakers listed, those decided last."""
EVENTS: Final = 12
"""Events listed, the last."""


@dataclass(frozen=True)
class Event:
    """Something that happened."""

    at_ns: int
    told: Detection | Decision
    key: str
    """Whom it is about."""


@router.get("/")
async def overview(request: Request, host: Host, reader: Reader) -> Response:
    """The fleet."""
    status, minutes, found, last = await asyncio.gather(
        host.status(),
        host.series("global", "*", MINUTES),
        host.detections(DetectionQuery(limit=EVENTS)),
        host.sessions(SessionQuery(limit=1)),
    )
    held = [d for d in host.decisions() if d.action == "block"]
    newest = heapq.nlargest(EVENTS, held, key=lambda d: d.issued_at_ns)
    return page(
        request,
        reader,
        "overview.html",
        status=status,
        sums=_sums(minutes),
        lines={name: [getattr(row, name) for row in minutes] for name in ("calls", "cost_nano_usd", "blocks")},
        held=newest[:LISTED],
        held_count=len(held),
        would=sum(d.mode == "observe" for d in held),
        last_ns=last.sessions[0].last_ns if last.sessions else 0,
        events=events(found.detections, newest)[:EVENTS],
    )


def _sums(minutes: Iterable[MinuteRow]) -> dict[str, Any]:
    rows = list(minutes)
    return {name: sum(getattr(row, name) for row in rows) for name in ("calls", "cost_nano_usd", "blocks")}


def events(found: Iterable[Detection], standing: Iterable[Decision]) -> list[Event]:
    """What was found and decided, newest first."""
    seen = [Event(d.at_ns, d, d.scope or f"session:{d.session}") for d in found]
    decided = [Event(d.issued_at_ns, d, d.key) for d in standing]
    return sorted(seen + decided, key=lambda event: -event.at_ns)
