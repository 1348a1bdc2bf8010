"""What a proxy measures of itself. Blocks count where the Guard reports to, not here again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spanfuse_processor.config.telemetry import Metrics
from spanfuse_processor.config.telemetry import Telemetry as Settings
from spanfuse_processor.telemetry.catalogue import PROXY_REQUESTS, PROXY_TIME, PROXY_UNDER_WAY
from spanfuse_processor.telemetry.running import Telemetry

if TYPE_CHECKING:
    from spanfuse_processor.proxy.handler import Proxy
    from spanfuse_processor.proxy.wire import Client
    from spanfuse_processor.telemetry.meters import Observed


class Measured:
    """Measures a proxy, and serves that.

    Args:
        app: the proxy.
        mode: of its Guard; empty: as each decision says.
        endpoint: where `/metrics` is served, HOST:PORT.
    """

    live = True

    def __init__(self, app: Proxy, mode: str, endpoint: str) -> None:
        self._app, self.mode = app, mode
        settings = Settings(metrics=Metrics(endpoint=endpoint))
        self.telemetry = Telemetry(settings, "proxy", self, self._observe)
        self._times = self.telemetry.tallies.histogram(PROXY_TIME)

    @property
    def ready(self) -> bool:
        """It wants requests."""
        return self._app.ready

    def answered(self, client: Client, began_s: float) -> None:
        """A request is over.

        Args:
            began_s: when it came, by `time.perf_counter`.
        """
        if client.provider and client.begun:
            self._times.record((client.provider, f"{client.status // 100}xx"), (client.begun_s - began_s,))

    async def _observe(self) -> Observed:
        counts = {"refused_4xx": 0, "refused_5xx": 0}
        for name, n in self._app.counts.items():
            kind = f"{name[:9]}xx" if name.startswith("refused_") else name
            counts[kind] = counts.get(kind, 0) + n
        return {
            PROXY_REQUESTS: {(kind,): n for kind, n in counts.items()},
            PROXY_UNDER_WAY: {(): self._app.under_way},
        }
