"""What may be spent, what was, and more of it."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final, Literal
from uuid import uuid4

from fastapi import APIRouter, HTTPException, Query, Request
from pydantic import ValidationError
from starlette.responses import Response

from spanfuse_processor.api.asked import Host, Operator, Reader
from spanfuse_processor.api.console import Console
from spanfuse_processor.errors import QueryError
from spanfuse_processor.page.formats import address
from spanfuse_processor.page.shell import PageRoute, done, form, key_of, page
from spanfuse_schemas import BudgetOrder
from spanfuse_schemas.budget import NANO

router: Final = APIRouter(route_class=PageRoute, include_in_schema=False)

ROWS: Final = 200
"""Accounts listed, those most used."""
_HOURS: Final = {"1": 1, "24": 24}


@router.get("/ui/budgets")
async def budgets(
    request: Request,
    host: Host,
    reader: Reader,
    query: Annotated[str, Query(max_length=4096)] = "",
    status: Literal["", "ok", "warning", "exhausted"] = "",
) -> Response:
    """Accounts, those most used first. A query that is a key is asked for as it is: its account may not be listed."""
    rows = await _accounts(host, query.strip())
    found = sorted((row for row in rows if status in ("", row["status"])), key=lambda row: -row["used"])
    asked = {"query": query, "status": status}
    return page(request, reader, "budgets.html", rows=found[:ROWS], total=len(found), asked=asked)


async def _accounts(host: Console, query: str) -> list[dict[str, Any]]:
    text = query.lower()
    found = [row for row in await host.budgets() if text in row["scope"].lower() or text in row["budget"].lower()]
    return found or (await host.budgets(key_of(query)) if ":" in query.strip(":") else [])


@router.get("/ui/extend")
async def ask(
    request: Request,
    host: Host,
    operator: Operator,
    scope: Annotated[str, Query(max_length=4096)],
    budget: Annotated[str, Query(max_length=256)],
) -> Response:
    """By how much is it to be extended?"""
    row = await _account(host, key_of(scope), budget)
    return page(request, operator, "extend.html", row=row, id=uuid4().hex)


@router.post("/ui/extend")
async def extend(request: Request, host: Host, operator: Operator) -> Response:
    """Give so much more."""
    fields = await form(request)
    row = await _account(host, key_of(fields.get("scope", "")), fields.get("budget", ""))
    ordered = await host.order(_order(fields, row, operator.actor(fields.get("actor", "").strip()[:64])))
    if not ordered.done:
        raise HTTPException(409, ordered.why)
    then = address("/ui/budgets", query=row["scope"])
    return done(request, f"{row['budget']} of {row['scope']} is extended.", then)


async def _account(host: Console, scope: str, budget: str) -> dict[str, Any]:
    row = next((row for row in await host.budgets(scope) if row["budget"] == budget), None)
    if row is None:
        raise HTTPException(404, "no such budget holds for it")
    return row


def _order(fields: dict[str, str], row: dict[str, Any], actor: str) -> BudgetOrder:
    now_ns, hours = time.time_ns(), _HOURS.get(fields.get("until", ""))
    try:
        return BudgetOrder(
            id=fields.get("id", "") or uuid4().hex,
            scope=row["scope"],
            budget=row["budget"],
            action="extend",
            amount=_amount(fields.get("amount", ""), row["unit"]),
            expires_at_ns=now_ns + hours * 3600 * NANO if hours else None,
            reason=fields.get("reason", "").strip(),
            actor=actor[:200],
            at_ns=now_ns,
        )
    except ValidationError:
        raise QueryError("the amount or the reason is too large") from None


def _amount(text: str, unit: str) -> int:
    try:
        amount = round(float(text.strip().lstrip("$").replace(",", "")) * (NANO if unit == "usd" else 1))
    except (ValueError, OverflowError):
        raise QueryError("the amount has to be a number") from None
    if amount <= 0:
        raise QueryError("the amount has to be more than nothing")
    return amount
