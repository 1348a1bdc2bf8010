"""The REST and SSE surface of the embedded host."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from spanfuse_processor.api.events import EventStream
from spanfuse_processor.core.budgets import Ordered
from spanfuse_processor.errors import SpanfuseError, UnavailableError
from spanfuse_processor.exporters.hub import Listener
from spanfuse_schemas import BudgetOrder, Decision, PolicyNotice
from spanfuse_schemas.names import normal_key

log = logging.getLogger(__name__)

Body = TypeVar("Body", bound=BaseModel)

MAX_BODY_BYTES: Final = 64 * 1024
DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 10_000
"""Detections in one answer."""


class Processor(Protocol):
    """What the API needs of the host. Any of these may raise `UnavailableError`: 503."""

    @property
    def ready(self) -> bool:
        """Whether spans are taken."""

    @property
    def policy(self) -> PolicyNotice:
        """The policy in force."""

    def status(self) -> dict[str, Any]:
        """Version, mode, ports and counts."""

    def decisions(self) -> list[Decision]:
        """What stands at present."""

    def follow(self) -> tuple[Iterable[bytes], Listener]:
        """What stands at present as events, and a listener for what changes from now on."""

    def session(self, session: str) -> dict[str, Any] | None:
        """What is known of a session."""

    def detections(self, limit: int) -> list[bytes]:
        """The last detections, newest first, as JSON."""

    async def agents(self) -> list[dict[str, Any]]:
        """What each agent came to, dearest first."""

    async def models(self) -> list[dict[str, Any]]:
        """What each model came to, dearest first."""

    def reset(self, key: str, actor: str) -> Decision | None:
        """Close a breaker; none if nothing is known of the key."""

    async def budgets(self, scope: str = "") -> list[dict[str, Any]]:
        """The accounts of one scope, or of all."""

    async def order(self, order: BudgetOrder) -> Ordered:
        """Do what an operator has ordered about a budget."""

    def audit(self, limit: int) -> list[bytes]:
        """What became of operators' last orders about budgets, newest first, as JSON."""

    async def rebuild(self) -> int:
        """Set the ledger's books to what the spans tell; how many accounts."""


class ResetOrder(BaseModel):
    """Body of POST /v1/reset."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    key: str = Field(min_length=1, max_length=4096)
    """Key of the breaker, such as `session:checkout-42`."""
    actor: str = Field(default="", max_length=256)
    """Who orders it."""


class Nothing(BaseModel):
    """An empty body."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


def create_app(processor: Processor) -> ASGIApp:
    """The application."""
    return Starlette(
        routes=Handlers(processor).routes(),
        exception_handlers={
            HTTPException: _refused,
            UnavailableError: _unavailable,
            SpanfuseError: _impossible,
            Exception: _failed,
        },
    )


class Handlers:
    """One method per route."""

    def __init__(self, processor: Processor) -> None:
        self._processor = processor

    def routes(self) -> list[Route]:
        """The table of routes."""
        return [
            Route("/v1/decisions", self.decisions),
            Route("/v1/decisions/stream", self.stream),
            Route("/v1/status", self.status),
            Route("/v1/policy", self.policy),
            Route("/v1/sessions/{session:path}", self.session),
            Route("/v1/detections", self.detections),
            Route("/v1/agents", self.agents),
            Route("/v1/models", self.models),
            Route("/v1/reset", self.reset, methods=["POST"]),
            Route("/v1/budgets", self.budgets),
            Route("/v1/budgets/audit", self.audit),
            Route("/v1/budgets/orders", self.order, methods=["POST"]),
            Route("/v1/budgets/rebuild", self.rebuild, methods=["POST"]),
            Route("/healthz", self.healthz),
            Route("/readyz", self.readyz),
        ]

    async def decisions(self, request: Request) -> Response:
        """The present: every decision that is not `allow`."""
        found = b",".join(decision.to_json() for decision in self._processor.decisions())
        return _json(b'{"decisions":[' + found + b"]}")

    async def stream(self, request: Request) -> Any:
        """The present and then every change, as server-sent events."""
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        return EventStream(*self._processor.follow())

    async def status(self, request: Request) -> Response:
        """Version, mode, ports and counts."""
        return JSONResponse(self._processor.status())

    async def policy(self, request: Request) -> Response:
        """The policy in force, as Guards are told it."""
        return _json(self._processor.policy.to_json())

    async def session(self, request: Request) -> Response:
        """What is known of one session."""
        found = self._processor.session(request.path_params["session"])
        if found is None:
            raise HTTPException(404, "no such session")
        return JSONResponse(found)

    async def detections(self, request: Request) -> Response:
        """The last detections, newest first."""
        return _json(b'{"detections":[' + b",".join(self._processor.detections(_limit(request))) + b"]}")

    async def agents(self, request: Request) -> Response:
        """Agents side by side."""
        return JSONResponse({"agents": await self._processor.agents()})

    async def models(self, request: Request) -> Response:
        """Models side by side."""
        return JSONResponse({"models": await self._processor.models()})

    async def reset(self, request: Request) -> Response:
        """Close a breaker."""
        order = await _body(request, ResetOrder)
        decision = self._processor.reset(normal_key(order.key), order.actor)
        if decision is None:
            raise HTTPException(404, "nothing is known of this key")
        return JSONResponse({"key": decision.key, "state": decision.state, "epoch": decision.epoch})

    async def budgets(self, request: Request) -> Response:
        """The accounts of the periods that run: of `?scope=user:u-7`, else of all."""
        scope = normal_key(request.query_params.get("scope", ""))
        return JSONResponse({"budgets": await self._processor.budgets(scope)})

    async def order(self, request: Request) -> Response:
        """Set, extend or reset a budget; 404: no such budget holds for the scope."""
        order = await _body(request, BudgetOrder)
        done = await self._processor.order(order.model_copy(update={"scope": normal_key(order.scope)}))
        if not done.done and not done.account:
            raise HTTPException(404, done.why)
        return JSONResponse({"done": done.done, "why": done.why, "account": done.account})

    async def audit(self, request: Request) -> Response:
        """What became of operators' orders about budgets, newest first."""
        return _json(b'{"audit":[' + b",".join(self._processor.audit(_limit(request))) + b"]}")

    async def rebuild(self, request: Request) -> Response:
        """Set the ledger's books to what the spans tell."""
        await _body(request, Nothing)
        return JSONResponse({"accounts": await self._processor.rebuild()})

    async def healthz(self, request: Request) -> Response:
        """The process answers."""
        return JSONResponse({"healthy": True})

    async def readyz(self, request: Request) -> Response:
        """Spans are taken."""
        ready = self._processor.ready
        return JSONResponse({"ready": ready}, 200 if ready else 503)


def _json(data: bytes) -> Response:
    return Response(data, media_type="application/json")


def _limit(request: Request) -> int:
    text = request.query_params.get("limit", str(DEFAULT_LIMIT))
    if not text.isascii() or not text.isdecimal() or len(text) > 5 or not 1 <= int(text) <= MAX_LIMIT:
        raise HTTPException(400, f"limit must be 1 to {MAX_LIMIT}")
    return int(text)


async def _body(request: Request, shape: type[Body]) -> Body:
    # A web page elsewhere can send a form or plain text to a loopback port, but not JSON.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "the content type must be application/json")
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > MAX_BODY_BYTES:
            raise HTTPException(413, f"larger than {MAX_BODY_BYTES} bytes")
    try:
        return shape.model_validate_json(bytes(data))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise HTTPException(400, f"{where}: {first['msg']}" if where else first["msg"]) from None


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _impossible(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 409)


async def _unavailable(request: Request, error: Exception) -> Response:
    # Closed, for a connection kept is a file descriptor, which may be what there is too little of.
    return JSONResponse({"error": str(error)}, 503, {"Retry-After": "1", "Connection": "close"})


async def _failed(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return JSONResponse({"error": f"unexpected: {type(error).__name__}"}, 500)
