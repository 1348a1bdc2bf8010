"""How the host is."""

from __future__ import annotations

from typing import Any, Final, Literal

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import JSONResponse, Response

from spanfuse_processor.api.asked import READER, Host
from spanfuse_processor.api.shapes import Answer, whole

router: Final = APIRouter(tags=["health"])


class Health(Answer):
    """Whether the host makes progress."""

    healthy: bool
    """If not, it should be started anew."""


class Readiness(Answer):
    """Whether the host does what it is there for."""

    ready: bool
    """If not, send it nothing."""


class Status(Answer):
    """How the host is."""

    version: str
    """Version of spanfuse."""
    host: Literal["embedded", "stream"] = "embedded"
    """`embedded`: `spanfuse up`; `stream`: workers over Kafka."""
    mode: Literal["observe", "enforce"]
    """Whether what is decided is enforced."""
    policy_epoch: int = 0
    """Epoch of the policy in force."""
    uptime_s: float = 0
    """Since the start, seconds."""
    sessions: int | None = None
    """Sessions known."""
    open_breakers: int = 0
    """Breakers that are open."""
    half_open_breakers: int = 0
    """Breakers whose cooldown is over."""
    counts: dict[str, Any] = Field(default_factory=dict)
    """Everything that is counted; see `/metrics`."""


@router.get("/healthz", response_model=Health, responses={503: {"model": Health}})
async def healthz(host: Host) -> Response:
    """Whether the host makes progress; 503: it does not, and should be started anew."""
    return JSONResponse({"healthy": host.live}, 200 if host.live else 503)


@router.get("/readyz", response_model=Readiness, responses={503: {"model": Readiness}})
async def readyz(host: Host) -> Response:
    """Whether the host does what it is there for; 503: not yet, or no more."""
    return JSONResponse({"ready": host.ready}, 200 if host.ready else 503)


@router.get("/v1/status", response_model=Status, dependencies=[READER])
async def status(host: Host) -> Response:
    """Version, mode, ports, and all that is counted."""
    return whole(await host.status())
