"""Agents and models side by side, and sums by the minute."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, HTTPException, Query
from pydantic import Field
from starlette.responses import Response

from spanfuse_processor.api.asked import READER, Host
from spanfuse_processor.api.shapes import Answer, whole
from spanfuse_processor.exporters.readmodel.model import MAX_MINUTES, MinuteRow, SeriesKind
from spanfuse_schemas.names import normal_name

router: Final = APIRouter(tags=["fleet"], dependencies=[READER])

MAX_ROWS: Final = 500
"""Agents or models in one answer, as many as hosts list."""
EVERYBODY: Final = "*"
"""Name of the series of all together."""


class Sums(Answer):
    """What calls came to."""

    calls: int
    """Model calls."""
    sessions: int
    """Sessions, counted where their first call was made."""
    loops: int
    """Loops that a rule on repetition asked to block."""
    loops_per_1000_calls: float
    """The same per 1,000 calls."""
    failures: int
    """Calls that failed."""
    cost_nano_usd: int
    """What they have cost."""
    cost_nano_usd_per_call: int
    """The same per call."""
    input_tokens: int
    """Input tokens."""
    output_tokens: int
    """Output tokens."""
    last_ns: int
    """When it was last at work."""


class AgentSums(Sums):
    """What an agent came to."""

    agent: str
    """Its name."""
    trips: int = 0
    """Sessions that were stopped."""
    usual: dict[str, Any] = Field(default_factory=dict)
    """What a session of it comes to, and the limits recommended; see docs/api.md."""
    coverage: dict[str, Any] = Field(default_factory=dict)
    """Calls that Guards let through, of those seen."""


class ModelSums(Sums):
    """What a model came to."""

    model: str
    """Its name."""


class Agents(Answer):
    """Agents side by side."""

    agents: list[AgentSums]
    """Dearest first."""


class Models(Answer):
    """Models side by side."""

    models: list[ModelSums]
    """Dearest first."""


class Series(Answer):
    """Sums by the minute."""

    kind: str
    """Whose: `global`, `agent`, `model` or `team`."""
    name: str
    """Its name; `*` for `global`."""
    minutes: list[MinuteRow]
    """Oldest first, one row each, the running one last."""


Rows = Annotated[int, Query(ge=1, le=MAX_ROWS)]


@router.get("/v1/agents", response_model=Agents)
async def agents(host: Host, limit: Rows = MAX_ROWS) -> Response:
    """What each agent came to, dearest first, with the limits recommended for its sessions."""
    return whole({"agents": (await host.agents())[:limit]})


@router.get("/v1/models", response_model=Models)
async def models(host: Host, limit: Rows = MAX_ROWS) -> Response:
    """What each model came to, dearest first."""
    return whole({"models": (await host.models())[:limit]})


@router.get("/v1/series", response_model=Series)
async def series(
    host: Host,
    kind: SeriesKind = "global",
    name: Annotated[str, Query(max_length=1024)] = "",
    minutes: Annotated[int, Query(ge=1, le=MAX_MINUTES)] = 60,
) -> Response:
    """Calls, cost, tokens and blocks of the last minutes: of an agent, a model, a team, or all together."""
    name = EVERYBODY if kind == "global" else normal_name(name)
    if not name:
        raise HTTPException(400, f"name: whose, of kind {kind}")
    rows = [row.model_dump() for row in await host.series(kind, name, minutes)]
    return whole({"kind": kind, "name": name, "minutes": rows})
