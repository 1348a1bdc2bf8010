"""What may be spent, what was, and orders about it."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final, Literal
from uuid import uuid4

from fastapi import APIRouter, HTTPException, Query
from pydantic import Field
from starlette.responses import Response

from spanfuse_processor.api.access import Principal
from spanfuse_processor.api.asked import READER, Admin, Host, Operator
from spanfuse_processor.api.console import Console
from spanfuse_processor.api.shapes import Actor, Answer, Asked, Moment, Name, Reason, listed, whole
from spanfuse_schemas import BudgetOrder
from spanfuse_schemas.budget import Audited, Unit
from spanfuse_schemas.names import normal_key

router: Final = APIRouter(tags=["budgets"])

MAX_ACCOUNTS: Final = 10_000
"""Accounts, or orders, in one answer."""
MAX_ACTOR: Final = 200
"""Of a `BudgetOrder`."""


class Account(Answer):
    """A budget of one identity in the period that runs."""

    account: str
    """Name of the account."""
    scope: str
    """Whose, such as `user:u-7`."""
    budget: str
    """Name of the budget."""
    unit: Unit
    """`usd` is counted in nano-dollars."""
    spent: int
    """What was spent."""
    limit: int
    """What may be spent."""
    remaining: int
    """What is left."""
    used: float
    """The share that is spent."""
    status: Literal["ok", "warning", "exhausted"]
    """`warning`: a threshold is reached."""
    period_start_ns: int | None = None
    """When the period began."""
    period_end_ns: int | None = None
    """When it ends; null: never."""
    projected_ns: int | None = None
    """When all will be spent as it goes; null: not within the period."""


class Budgets(Answer):
    """Accounts."""

    budgets: list[Account]
    """Of one scope, or of all."""


class Limit(Asked):
    """Another limit of a budget, from now on."""

    scope: Name
    """Whose, such as `user:u-7` or `global:*`."""
    budget: Annotated[str, Field(min_length=1, max_length=256)]
    """Name of the budget."""
    amount: Moment
    """The limit in the budget's unit (nano-dollars, tokens, calls); 0 gives back the configured one."""
    reason: Reason = ""
    """Why, for the audit."""
    actor: Actor = ""
    """Who orders it; with a token, its name is added."""
    id: Annotated[str, Field(max_length=256)] = ""
    """Identity under which it is carried out once. Default: a new one."""


class Extension(Limit):
    """So much more of a budget."""

    amount: Annotated[int, Field(gt=0, lt=2**63)]
    """How much more, in the budget's unit (nano-dollars, tokens, calls)."""
    expires_at_ns: Moment | None = None
    """Until when, nanoseconds since the Unix epoch. Default: to the end of the period."""


class Done(Answer):
    """What became of an order about a budget."""

    done: bool
    """Whether it was carried out."""
    why: str
    """If not: why."""
    account: dict[str, Any]
    """The account afterwards; see `/v1/budgets`."""


class Audit(Answer):
    """What became of orders about budgets."""

    audit: list[Audited]
    """Newest first."""


class Nothing(Asked):
    """An empty body."""


class Rebuilt(Answer):
    """The ledger's books were set."""

    accounts: int
    """How many accounts."""


@router.get("/v1/budgets", response_model=Budgets, dependencies=[READER])
async def budgets(
    host: Host,
    scope: Annotated[
        str, Query(max_length=4096, description="Whose, such as `user:u-7`, also one never seen. Default: all.")
    ] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_ACCOUNTS)] = MAX_ACCOUNTS,
) -> Response:
    """The accounts of the periods that run: of one scope, else those last at work of each kind."""
    return whole({"budgets": (await host.budgets(normal_key(scope)))[:limit]})


@router.put("/v1/budgets", response_model=Done)
async def put(host: Host, operator: Operator, order: Limit) -> Response:
    """Give a budget another limit, from now on; 404: no such budget holds for the scope."""
    return await _ordered(host, operator, _order("set", order))


@router.post("/v1/budgets/extend", response_model=Done)
async def extend(host: Host, operator: Operator, order: Extension) -> Response:
    """Give so much more, until a moment or the end of the period; 404: no such budget holds for the scope."""
    return await _ordered(host, operator, _order("extend", order, expires_at_ns=order.expires_at_ns))


@router.post("/v1/budgets/orders", response_model=Done)
async def order(host: Host, operator: Operator, order: BudgetOrder) -> Response:
    """Set, extend or reset a budget, once per `id`; 404: no such budget holds for the scope."""
    return await _ordered(host, operator, order)


@router.get("/v1/budgets/audit", response_model=Audit, dependencies=[READER])
async def audit(host: Host, limit: Annotated[int, Query(ge=1, le=MAX_ACCOUNTS)] = 100) -> Response:
    """What became of orders about budgets, newest first."""
    return listed("audit", await host.audit(limit))


@router.post("/v1/budgets/rebuild", response_model=Rebuilt)
async def rebuild(host: Host, admin: Admin, _: Nothing) -> Response:
    """Set the ledger's books to what the spans tell; 409: there is no ledger."""
    return whole({"accounts": await host.rebuild()})


def _order(action: Literal["set", "extend"], asked: Limit, **more: Any) -> BudgetOrder:
    kept = asked.model_dump(include={"scope", "budget", "amount", "reason", "actor"})
    return BudgetOrder(id=asked.id or uuid4().hex, action=action, at_ns=time.time_ns(), **kept, **more)


async def _ordered(host: Console, operator: Principal, order: BudgetOrder) -> Response:
    by = {"scope": normal_key(order.scope), "actor": operator.actor(order.actor)[:MAX_ACTOR]}
    done = await host.order(order.model_copy(update=by))
    if not done.done and not done.account:
        raise HTTPException(404, done.why)
    return whole({"done": done.done, "why": done.why, "account": done.account})
