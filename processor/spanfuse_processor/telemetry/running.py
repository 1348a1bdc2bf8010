"""The telemetry of one host, from its start to its end."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.resources import OTELResourceDetector, Resource

from spanfuse_processor.config.telemetry import Telemetry as Settings
from spanfuse_processor.errors import SpanfuseError
from spanfuse_processor.serving import HttpServer
from spanfuse_processor.telemetry.catalogue import EXPORTS, INFO, LIVE, READY, UPTIME, HostKind
from spanfuse_processor.telemetry.endpoint import Endpoint, Health
from spanfuse_processor.telemetry.export import MetricsExport
from spanfuse_processor.telemetry.meters import Meters, Observe, Observed
from spanfuse_processor.telemetry.prometheus import Exposition, exposition
from spanfuse_processor.telemetry.tallies import Tallies
from spanfuse_processor.telemetry.traces import Traces

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger(__name__)

GRACE_S: Final = 1.0
"""How long the last exports may take when the host stops, seconds, each."""


class Telemetry:
    """Measures a host, for the running event loop.

    Args:
        settings: section `service.telemetry`.
        host: what runs.
        health: how it is.
        observe: what it can say of itself at a look.
        tallies: what it adds up.
        default_endpoint: where `/metrics` is served unless the settings say so, HOST:PORT, if nobody else has that port; empty:
            nowhere.
    """

    def __init__(
        self,
        settings: Settings,
        host: HostKind,
        health: Health,
        observe: Observe,
        tallies: Tallies | None = None,
        default_endpoint: str = "",
    ) -> None:
        self._host, self._health, self._observe = host, health, observe
        self._started = time.monotonic()
        resource = resource_of(host, settings.resource)
        self.tallies = tallies or Tallies()
        self.traces = Traces(settings.traces, resource)
        """Spans of its work."""
        self._meters = Meters(host, resource, self.tallies, self._observed)
        otlp = settings.metrics.otlp
        self._export = MetricsExport(otlp, otlp.interval_s, self._meters.look) if otlp is not None else None
        self._by_default = settings.metrics.endpoint is None
        where = default_endpoint if settings.metrics.endpoint is None else settings.metrics.endpoint
        self._server = _server(where, Endpoint(health, self.scrape)) if where else None
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self.port = 0
        """Port of `/metrics` once started; 0: it is not served."""

    async def start(self) -> None:
        """Serve, and send.

        Raises:
            SpanfuseError: the address cannot be bound.
        """
        if self._server is not None:
            await self._serve(self._server)
        if self._export is not None:
            self._task = asyncio.create_task(self._export.run(), name="telemetry")

    async def _serve(self, server: HttpServer) -> None:
        try:
            self.port = await server.start()
        except SpanfuseError as error:
            if not self._by_default:
                raise
            log.warning("%s; set service.telemetry.metrics.endpoint to another address, or to none", error)

    async def stop(self) -> None:
        """Send a last time, and serve no more; within some 2 s, whatever has started, and once only."""
        if self._stopped:
            return
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        sent = [self.traces.close(GRACE_S)]
        if self._export is not None:
            sent.append(self._export.close(GRACE_S))
        await asyncio.gather(*sent)
        if self._server is not None:
            await self._server.stop(GRACE_S)
        self._meters.close()

    async def scrape(self, accept: str = "") -> Exposition:
        """All that is measured, as Prometheus reads it.

        Args:
            accept: header of the scrape.
        """
        data = await self._meters.look()
        return await asyncio.to_thread(exposition, data, accept)

    async def _observed(self) -> Observed:
        health = self._health
        exports = {"metrics": self._export.outcomes if self._export else None, "traces": self.traces.outcomes}
        return {
            READY: {(): float(health.ready)},
            LIVE: {(): float(health.live)},
            UPTIME: {(): time.monotonic() - self._started},
            INFO: {(version("spanfuse"), self._host, health.mode): 1.0},
            EXPORTS: {
                (signal, outcome): float(n)
                for signal, outcomes in exports.items()
                if outcomes is not None
                for outcome, n in outcomes.counts.items()
            },
            **await self._observe(),
        }


def resource_of(host: HostKind, configured: Mapping[str, str]) -> Resource:
    """What telemetry is of: what is configured wins over the environment (`OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SERVICE_NAME`)."""
    own = {
        "service.name": "spanfuse",
        "service.version": version("spanfuse"),
        "service.instance.id": str(uuid.uuid4()),
        "spanfuse.host": host,
    }
    return Resource.create({**own, **OTELResourceDetector().detect().attributes, **configured})


def _server(endpoint: str, app: Endpoint) -> HttpServer:
    host, _, port = endpoint.rpartition(":")
    return HttpServer("the metrics", app, host.strip("[]"), int(port))
