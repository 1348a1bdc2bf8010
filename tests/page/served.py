"""The API with the page, over a host in memory, on a port of this machine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from spanfuse_processor.api.access import Access
from spanfuse_processor.api.app import create_app
from spanfuse_processor.config.api import Api as Settings
from spanfuse_processor.page.formats import address
from spanfuse_processor.page.routes import PAGE
from spanfuse_processor.serving import HttpServer
from tests.page.document import Document
from tests.support.api import FakeAlerts
from tests.support.console import FakeConsole


@dataclass
class Served:
    """What is served."""

    url: str
    host: FakeConsole
    loop: asyncio.AbstractEventLoop

    def do(self, what: Callable[[], Any]) -> None:
        """Do something to the host, where it lives."""
        self.loop.call_soon_threadsafe(what)


@contextmanager
def served(host: FakeConsole, settings: Settings | None = None, alerts: FakeAlerts | None = None) -> Iterator[Served]:
    """Serve it until the end of the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = HttpServer("the page", create_app(host, access=Access(settings), alerts=alerts, more=PAGE), "127.0.0.1", 0)
    port = asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
    try:
        yield Served(f"http://127.0.0.1:{port}", host, loop)
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(0.1), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


class Pages:
    """The pages over a host in memory, without a socket.

    Args:
        host: default: one with some sessions.
        settings: section `extensions.api`; none: without tokens.
    """

    def __init__(
        self, host: FakeConsole | None = None, settings: Settings | None = None, alerts: FakeAlerts | None = None
    ) -> None:
        self.host = host or FakeConsole(40)
        self._app = create_app(self.host, access=Access(settings), alerts=alerts, more=PAGE)

    async def send(self, method: str, address: str, **request: Any) -> httpx.Response:
        """What is answered."""
        transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, address, **request)

    async def get(self, address: str, **request: Any) -> Document:
        """A page that is there."""
        response = await self.send("GET", address, **request)
        assert response.status_code == 200, (address, response.status_code)
        return Document(response.text)


def addresses(host: FakeConsole) -> list[str]:
    """Every page, over what a host has."""
    session = next(iter(host.rows), "")
    key = address("/ui/explain", key=f"session:{session}") if session else "/ui/explain?key=agent:research"
    found = ["/", *(f"/ui/{name}" for name in LISTS), "/ui/explain", key, "/ui/reset?key=agent:research"]
    return found + ([address("/ui/session", id=session)] if session else [])


LISTS = ("sessions", "breakers", "detections", "budgets", "agents", "models", "alerts")
