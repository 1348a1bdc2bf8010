"""What stands, why, and its release."""

from __future__ import annotations

import heapq
from typing import Annotated, Final, Literal

from fastapi import APIRouter, HTTPException, Query, Request
from starlette.responses import Response

from spanfuse_processor.api.asked import Host, Operator, Reader
from spanfuse_processor.api.breakers import BreakerQuery
from spanfuse_processor.page.formats import address
from spanfuse_processor.page.shell import PageRoute, done, form, key_of, page

router: Final = APIRouter(route_class=PageRoute, include_in_schema=False)

ROWS: Final = 200
"""Breakers listed, those decided last."""
MAX_SAID: Final = 200
"""Longest name and reason together, characters: they are part of the decision's message."""
Scope = Literal["", "session", "trace", "agent", "user", "team", "global"]


@router.get("/ui/breakers")
async def breakers(
    request: Request,
    host: Host,
    reader: Reader,
    query: Annotated[str, Query(max_length=256)] = "",
    scope: Scope = "",
    state: Literal["", "closed", "open", "half_open"] = "",
    mode: Literal["", "observe", "enforce"] = "",
) -> Response:
    """What stands at present, newest first."""
    wanted = BreakerQuery(query=query, scope=scope, state=state, mode=mode)
    found = list(wanted.among(host.decisions()))
    rows = heapq.nlargest(ROWS, found, key=lambda d: (d.issued_at_ns, d.key))
    asked = {"query": query, "scope": scope, "state": state, "mode": mode}
    return page(request, reader, "breakers.html", rows=rows, total=len(found), asked=asked)


@router.get("/ui/reset")
async def ask(
    request: Request, host: Host, operator: Operator, key: Annotated[str, Query(max_length=4096)]
) -> Response:
    """Is it to be reset?"""
    name = key_of(key)
    stands = next((d for d in host.decisions() if d.key == name), None)
    return page(request, operator, "reset.html", key=name, decision=stands)


@router.post("/ui/reset")
async def reset(request: Request, host: Host, operator: Operator) -> Response:
    """Close a breaker, and forget what had led to it."""
    fields = await form(request)
    key = key_of(fields.get("key", ""))
    decision = await host.reset(key, operator.actor(said(fields)))
    if decision is None:
        raise HTTPException(404, f"nothing is known of {key}")
    return done(request, f"{key} is closed: its next call is let through.", address("/ui/breakers"))


@router.get("/ui/explain")
async def explain(
    request: Request, host: Host, reader: Reader, key: Annotated[str, Query(max_length=4096)] = ""
) -> Response:
    """What is counted about a key, and why its breaker did or did not trip."""
    if not key.strip():
        return page(request, reader, "explain.html", asked="", found=None, history=())
    name = key_of(key)
    found, history = await host.explain(name), await host.history(name, 20)
    return page(request, reader, "explain.html", asked=name, found=found, history=history)


def said(fields: dict[str, str]) -> str:
    """Who orders it and why, as the form says."""
    name, reason = " ".join(fields.get("actor", "").split()), " ".join(fields.get("reason", "").split())
    return ": ".join(part for part in (name[:64], reason) if part)[:MAX_SAID]
