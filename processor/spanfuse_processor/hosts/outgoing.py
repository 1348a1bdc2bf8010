"""What a host tells people and backends: alerts, and detections as telemetry. They follow it as anybody does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from spanfuse_processor.config.exporters import Exporters
from spanfuse_processor.exporters.alerts.service import AlertService
from spanfuse_processor.exporters.alerts.source import Source
from spanfuse_processor.exporters.alerts.store import AlertStore

if TYPE_CHECKING:
    from spanfuse_processor.exporters.otlp.exporter import DetectionExporter


class Outgoing:
    """The exporters of a host.

    Args:
        config: which.
        source: the host.
        store: keeps the alerts.
    """

    def __init__(self, config: Exporters, source: Source, store: AlertStore) -> None:
        self.alerts = AlertService(source, config.alerts, store) if config.alerts is not None else None
        """For the API; none: they are not configured."""
        self._otlp = _otlp(config, source)

    async def start(self) -> None:
        """Follow the host, which is ready."""
        if self.alerts is not None:
            await self.alerts.start()
        if self._otlp is not None:
            await self._otlp.start()

    async def stop(self) -> None:
        """Send what waits, within a second or so."""
        work = [exporter.stop() for exporter in (self.alerts, self._otlp) if exporter is not None]
        await asyncio.gather(*work)

    @property
    def live(self) -> bool:
        """Whether all of them go on."""
        return all(exporter.live for exporter in (self.alerts, self._otlp) if exporter is not None)

    def status(self) -> dict[str, Any]:
        """What became of what was to be told, by exporter."""
        named = {"alerts": self.alerts, "otlp": self._otlp}
        return {name: exporter.status() for name, exporter in named.items() if exporter is not None}


def _otlp(config: Exporters, source: Source) -> DetectionExporter | None:
    """Its libraries take a while to load: only where it is wanted."""
    if config.otlp is None:
        return None
    from spanfuse_processor.exporters.otlp.exporter import DetectionExporter

    return DetectionExporter(source, config.otlp)
