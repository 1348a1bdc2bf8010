"""What stands against whom, why, and its release."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Annotated, Final, Literal

from fastapi import APIRouter, HTTPException, Query
from pydantic import Field
from starlette.responses import Response

from spanfuse_processor.api.asked import READER, Host, Key, Operator
from spanfuse_processor.api.console import Explanation
from spanfuse_processor.api.cursor import cursor_at, position
from spanfuse_processor.api.shapes import Actor, Answer, Asked, Name, listed, told, whole
from spanfuse_schemas import Decision
from spanfuse_schemas.decision import State
from spanfuse_schemas.names import normal_key
from spanfuse_schemas.record import Record

router: Final = APIRouter(tags=["breakers"])

MAX_DECISIONS: Final = 100_000
"""As many as a host keeps open."""
MAX_HISTORY: Final = 100


class Decisions(Answer):
    """What stands."""

    decisions: list[Decision]
    """Every decision that is not `allow`."""


class Breakers(Answer):
    """A page of what stands, newest first."""

    breakers: list[Decision]
    """Its rows."""
    next: str
    """Cursor of the page after it; empty: there is none."""


class Breaker(Answer):
    """A breaker by itself."""

    key: str
    """Its key."""
    decision: Decision | None
    """What stands against it; null: nothing."""
    history: list[Decision]
    """What was decided about it, newest first."""


class ResetOrder(Asked):
    """Which breaker to close."""

    key: Name
    """Key of the breaker, such as `session:checkout-42`."""
    actor: Actor = ""
    """Who orders it; with a token, its name is added."""


class WasReset(Answer):
    """What became of a breaker."""

    key: str
    """Its key."""
    state: State
    """Its state: `closed`."""
    epoch: int
    """Its epoch."""


class BreakerQuery(Record):
    """Which are asked for, newest first. Each field that is not empty narrows the list."""

    query: str = Field(default="", max_length=256)
    """Part of the key, in either case."""
    scope: Literal["", "session", "trace", "agent", "user", "team", "global"] = ""
    """Kind of the key."""
    state: Literal["", "closed", "open", "half_open"] = ""
    """State; `closed`: a nudge stands."""
    action: Literal["", "nudge", "block"] = ""
    """What a Guard does with the next call."""
    mode: Literal["", "observe", "enforce"] = ""
    """Whether it is enforced."""
    rule: str = Field(default="", max_length=256)
    """The rule that decided, exactly."""
    limit: int = Field(default=100, ge=1, le=1_000)
    """Rows of a page."""
    cursor: str = Field(default="", max_length=8192)
    """`next` of the page before; empty: the first page."""

    def among(self, decisions: Iterable[Decision]) -> Iterator[Decision]:
        """Those of some decisions that are asked for."""
        exact = [(k, v) for k in ("state", "action", "mode", "rule") if (v := getattr(self, k))]
        start, part = f"{self.scope}:" if self.scope else "", self.query.lower()
        for one in decisions:
            if one.key.startswith(start) and part in one.key.lower() and all(getattr(one, k) == v for k, v in exact):
                yield one


@router.get("/v1/decisions", response_model=Decisions, dependencies=[READER])
async def decisions(host: Host, limit: Annotated[int, Query(ge=1, le=MAX_DECISIONS)] = MAX_DECISIONS) -> Response:
    """All that stands at present: every breaker that is open or half-open, and every nudge."""
    return listed("decisions", (decision.to_json() for decision in host.decisions()[:limit]))


@router.get("/v1/breakers", response_model=Breakers, dependencies=[READER])
async def breakers(host: Host, query: Annotated[BreakerQuery, Query()]) -> Response:
    """What stands at present, newest first, page by page."""
    after = position(query.cursor, int, str)
    found = query.among(host.decisions())
    if after is not None:
        found = (one for one in found if _place(one) < after)
    page = heapq.nlargest(query.limit + 1, found, key=_place)
    rest = cursor_at(*_place(page[query.limit - 1])) if len(page) > query.limit else ""
    return listed("breakers", (decision.to_json() for decision in page[: query.limit]), next=rest)


def _place(decision: Decision) -> tuple[int, str]:
    return decision.issued_at_ns, decision.key


@router.get("/v1/breakers/{key:id}", response_model=Breaker, dependencies=[READER])
async def breaker(host: Host, key: Key, limit: Annotated[int, Query(ge=1, le=MAX_HISTORY)] = MAX_HISTORY) -> Response:
    """What stands against a key, and what was decided about it; 404: nothing ever was."""
    key = normal_key(key)
    stands, history = next((d for d in host.decisions() if d.key == key), None), await host.history(key, limit)
    if stands is None and not history:
        raise HTTPException(404, "nothing was ever decided about this key")
    return whole({"key": key, "decision": told(stands), "history": [told(d) for d in history]})


@router.get("/v1/explain/{key:id}", response_model=Explanation, dependencies=[READER])
async def explain(host: Host, key: Key) -> Response:
    """What is counted about a key, and why its breaker did or did not trip."""
    found = await host.explain(normal_key(key))
    stands = {"decision": told(found.decision), "others": [told(d) for d in found.others]}
    return whole(found.model_dump(mode="json", exclude={"decision", "others"}) | stands)


@router.post("/v1/reset", response_model=WasReset)
async def reset(host: Host, operator: Operator, order: ResetOrder) -> Response:
    """Close a breaker, and forget what had led to it; 404: nothing is known of the key."""
    decision = await host.reset(normal_key(order.key), operator.actor(order.actor))
    if decision is None:
        raise HTTPException(404, "nothing is known of this key")
    return whole({"key": decision.key, "state": decision.state, "epoch": decision.epoch})
