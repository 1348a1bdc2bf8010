"""How long requests take, by the route that they come to; and spans of them."""

from __future__ import annotations

import time
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spanfuse_processor.telemetry.catalogue import API_TIME
from spanfuse_processor.telemetry.labels import OTHER
from spanfuse_processor.telemetry.running import Telemetry

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Methods that are told apart."""
_STREAM: Final = b"text/event-stream"


class Timed:
    """An application that measures another, whose routes it is shown in the scope.

    Args:
        app: the other.
        telemetry: of the host.
    """

    def __init__(self, app: ASGIApp, telemetry: Telemetry) -> None:
        self._app, self._traces = app, telemetry.traces
        self._times = telemetry.tallies.histogram(API_TIME)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s, answer = time.perf_counter(), _Answer(send)
        with self._traces.work("spanfuse.api", headers=Headers(scope=scope)) as work:
            try:
                await self._app(scope, receive, answer)
            finally:
                method, route, status = _named(scope, answer.status)
                work.tell(
                    f"{method} {route}", {"http.request.method": method, "http.route": route, "spanfuse.status": status}
                )
                self._times.record((route, method, status), ((answer.begun_s or time.perf_counter()) - began_s,))


class _Answer:
    """Passes an answer on, and notes its status; of a stream, when it began."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.begun_s = 0.0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if any(name.lower() == b"content-type" and value.startswith(_STREAM) for name, value in message["headers"]):
                self.begun_s = time.perf_counter()
        await self._send(message)


def _named(scope: Scope, status: int) -> tuple[str, str, str]:
    """Method, route and class of the status; without an answer, the application has failed."""
    method, route = scope["method"], scope.get("route")
    path = str(getattr(route, "path_format", "") or OTHER)
    return method if method in METHODS else OTHER, path, f"{(status or 500) // 100}xx"
