"""`spanfuse api`: the API, and the page, of a stream deployment."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Final

from spanfuse_processor.api.access import Access
from spanfuse_processor.api.app import create_app
from spanfuse_processor.config import Config
from spanfuse_processor.exporters.alerts.redis_store import RedisAlerts
from spanfuse_processor.hosts import observed
from spanfuse_processor.hosts.console_stream import StreamConsole
from spanfuse_processor.hosts.outgoing import Outgoing
from spanfuse_processor.page.routes import PAGE
from spanfuse_processor.serving import HttpServer
from spanfuse_processor.telemetry.meters import Observed
from spanfuse_processor.telemetry.running import Telemetry

GRACE_S: Final = 1.0
"""How long answers may take when it stops, seconds."""


class ApiHost:
    """The console and its server, for the running event loop.

    Args:
        config: that of the workers.

    Raises:
        ConfigError: it names no Kafka or no read model.
    """

    def __init__(self, config: Config) -> None:
        self.console = StreamConsole(config)
        self._outgoing = Outgoing(config.exporters, self.console, RedisAlerts(self.console.link))
        self._telemetry = Telemetry(config.service.telemetry, "api", self.console, self._observe)
        self.console.exporting = self._outgoing.status
        api = config.extensions.api
        host, _, port = api.endpoint.rpartition(":")
        app = create_app(
            self.console, access=Access(api), alerts=self._outgoing.alerts, more=PAGE, telemetry=self._telemetry
        )
        self._server = HttpServer("the API", app, host.strip("[]"), int(port))
        self.port = 0
        """Port once started."""

    async def start(self) -> None:
        """Follow the topics, and listen.

        Raises:
            SpanfuseError: Kafka does not answer, or the address cannot be bound; nothing is left open.
        """
        try:
            await self.console.start()
            await self._outgoing.start()
            await self._telemetry.start()
            self.port = await self._server.start()
        except BaseException:
            await self.stop()
            raise

    async def _observe(self) -> Observed:
        """What it adds to what workers say of themselves."""
        return {**await self.console.observed(), **observed.told(self._outgoing)}

    async def stop(self) -> None:
        """Answer what is under way, and let go of all."""
        await asyncio.gather(self._outgoing.stop(), self._telemetry.stop())
        await self.console.stop()
        await self._server.stop(GRACE_S)


async def serve_api(config: Config, ready: Callable[[ApiHost], None] | None = None) -> None:
    """Run until SIGTERM or SIGINT.

    Args:
        ready: called once it listens.

    Raises:
        SpanfuseError: in one line: it cannot start.
    """
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    host = ApiHost(config)
    await host.start()
    try:
        if ready is not None:
            ready(host)
        await stopped.wait()
    finally:
        await host.stop()
