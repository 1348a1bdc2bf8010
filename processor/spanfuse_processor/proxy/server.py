"""Runs a proxy until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from spanfuse import Guard
from spanfuse_processor.errors import ConfigError
from spanfuse_processor.proxy.handler import MAX_UNDER_WAY, Proxy
from spanfuse_processor.proxy.routes import Provider
from spanfuse_processor.proxy.settings import ProxySettings
from spanfuse_processor.proxy.upstream import Upstream
from spanfuse_processor.serving import HttpServer

if TYPE_CHECKING:
    from spanfuse_processor.proxy.measured import Measured

READY_S: Final = 5.0
"""How long the start waits for the present decisions, seconds; then requests are taken all the same."""
GRACE_S: Final = 25.0
"""How long answers under way may take when the proxy stops, seconds: less than the 30 s that Kubernetes gives."""
KEEP_ALIVE_S: Final = 75
"""How long an idle connection of a client is kept, seconds: longer than clients keep theirs, so that they are who closes it."""


class ProxyServer:
    """A proxy, for the running event loop.

    Args:
        settings: what it does.
        guard: asked before each model call; it is closed with the proxy.
    """

    def __init__(self, settings: ProxySettings, guard: Guard) -> None:
        self.settings, self._guard = settings, guard
        self._upstreams: dict[Provider, Upstream] = {
            "openai": Upstream(
                settings.openai_url, "" if _has_path(settings.openai_url) else "/v1", settings.timeout_s, MAX_UNDER_WAY
            ),
            "anthropic": Upstream(
                settings.anthropic_url.rstrip("/").removesuffix("/v1"), "/v1", settings.timeout_s, MAX_UNDER_WAY
            ),
        }
        self.app = Proxy(
            guard,
            self._upstreams,
            token=settings.token.get_secret_value() if settings.token is not None else None,
            nudge=settings.nudge,
            max_body_bytes=settings.max_body_bytes,
            **({"join": _joiner()} if settings.otlp_url is not None else {}),
        )
        self._measured: Measured | None = None
        if settings.metrics is not None:
            from spanfuse_processor.proxy.measured import Measured

            self._measured = self.app.measured = Measured(self.app, settings.mode or "", settings.metrics)
        options = {"timeout_keep_alive": KEEP_ALIVE_S, "date_header": False, "proxy_headers": False}
        self._server = HttpServer("the proxy", self.app, *settings.address, options)
        self.port = 0
        """Port once started."""

    @property
    def metrics_port(self) -> int:
        """Port of `/metrics` once started; 0: it is not served."""
        return self._measured.telemetry.port if self._measured is not None else 0

    async def start(self) -> None:
        """Learn the present decisions, and listen.

        Raises:
            SpanfuseError: an address cannot be bound.
        """
        if self._measured is not None:
            await self._measured.telemetry.start()
        await asyncio.to_thread(self._guard.wait_ready, READY_S)
        for upstream in self._upstreams.values():
            await upstream.open()
        self.port = await self._server.start()
        self.app.ready = True

    async def stop(self) -> None:
        """Take no more requests, let those under way finish, close."""
        self.app.ready = False
        await self._server.stop(GRACE_S)
        for upstream in self._upstreams.values():
            await upstream.close()
        if self._measured is not None:
            await self._measured.telemetry.stop()
        await asyncio.to_thread(self._guard.close)


def _joiner() -> Callable[[Mapping[str, str]], object]:
    from opentelemetry.context import attach
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    read = TraceContextTextMapPropagator()
    # Never detached: it is in force to the end of the request's task.
    return lambda headers: attach(read.extract(headers))


def _has_path(url: str) -> bool:
    return bool(urlsplit(url).path.strip("/"))


def guard_of(settings: ProxySettings) -> Guard:
    """The Guard that a proxy asks: with the core in this process, and, if they are asked for, spans of its calls.

    Raises:
        ConfigError: an address cannot be used.
    """
    try:
        guard = Guard(
            settings.guard_url,
            mode=settings.mode,
            ledger=settings.ledger,
            local=True,
            spans=settings.otlp_url is not None,
        )
    except ValueError as error:
        raise ConfigError([str(error)]) from None
    if settings.otlp_url is not None:
        from spanfuse import instrument

        # Without a name of the service: ingest would take it for the agent of all calls.
        instrument(settings.otlp_url)
    return guard


async def run_proxy(settings: ProxySettings, *, ready: Callable[[ProxyServer], None]) -> None:
    """Run until SIGTERM or SIGINT.

    Args:
        settings: what it does.
        ready: called once requests are taken.

    Raises:
        SpanfuseError: in one line: the proxy cannot start.
    """
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):  # a loop that has no signals, as on Windows
            loop.add_signal_handler(number, stopped.set)
    server = ProxyServer(settings, guard_of(settings))
    try:
        await server.start()
        ready(server)
        await stopped.wait()
    finally:
        await server.stop()
