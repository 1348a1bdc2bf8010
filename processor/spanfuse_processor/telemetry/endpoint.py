"""What a scraper and a supervisor ask of a host that has no API: `/metrics`, `/healthz`, `/readyz`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from spanfuse_processor.telemetry.prometheus import Exposition

log = logging.getLogger(__name__)

_METHODS: Final = ("GET", "HEAD")


class Health(Protocol):
    """How a host is."""

    @property
    def ready(self) -> bool:
        """It takes what is for it."""

    @property
    def live(self) -> bool:
        """It makes progress, or has nothing to do."""

    @property
    def mode(self) -> str:
        """`observe` or `enforce`."""


class Endpoint:
    """An ASGI application.

    Args:
        health: the host.
        scrape: what is measured, for a header `Accept`.
    """

    def __init__(self, health: Health, scrape: Callable[[str], Awaitable[Exposition]]) -> None:
        self._health, self._scrape = health, scrape
        self._failed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await (await self._answer(scope))(scope, receive, send)

    async def _answer(self, scope: Scope) -> Response:
        if scope["method"] not in _METHODS:
            return PlainTextResponse("only GET\n", 405, {"Allow": "GET, HEAD"})
        match scope["path"]:
            case "/metrics":
                return await self._metrics(Headers(scope=scope).get("accept", ""))
            case "/healthz":
                return _told(self._health.live, "live")
            case "/readyz":
                return _told(self._health.ready, "ready")
        return PlainTextResponse("there are /metrics, /healthz and /readyz\n", 404)

    async def _metrics(self, accept: str) -> Response:
        try:
            found = await self._scrape(accept)
        except Exception:  # whatever is the matter with one look, the host goes on
            if not self._failed:
                log.exception("the metrics cannot be gathered; this is logged once")
            self._failed = True
            return PlainTextResponse("the metrics cannot be gathered\n", 500)
        return Response(found.body, media_type=found.content_type)


def _told(good: bool, name: str) -> Response:
    return PlainTextResponse(f"{name if good else f'not {name}'}\n", 200 if good else 503)
