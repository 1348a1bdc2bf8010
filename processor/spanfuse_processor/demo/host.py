"""The embedded host on a thread of the demo's process, on free ports, with its storage in a folder that goes away."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote
from urllib.request import ProxyHandler, build_opener

from spanfuse_processor.config import load_config
from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.hosts.embedded import EmbeddedHost

START_TIMEOUT_S: Final = 20
STOP_TIMEOUT_S: Final = 10
API_TIMEOUT_S: Final = 1

CONFIG: Final = """\
receivers:
  otlp:
    protocols:
      http: {endpoint: "127.0.0.1:0"}
      grpc: {endpoint: "127.0.0.1:0"}
detectors:
  velocity: {mode: block, ceiling_per_min: 40}
budgets:
  session: {limit_usd: 0.05}
extensions:
  api: {endpoint: "127.0.0.1:0"}
  storage: {path: "${env:DEMO_FOLDER}/spanfuse.db"}
service:
  mode: enforce
"""
"""The demo's configuration."""

_direct = build_opener(ProxyHandler({}))
"""Opens loopback URLs, whatever proxy the environment names."""


class DemoHost:
    """The host, while the context lasts.

    Args:
        folder: for its configuration and its storage.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / "spanfuse.yaml"
        path.write_text(CONFIG, encoding="utf-8")
        self._host = EmbeddedHost(load_config(path, {"DEMO_FOLDER": str(folder)}))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="demo-host", daemon=True)

    @property
    def otlp_url(self) -> str:
        """Base URL of the OTLP/HTTP receiver."""
        return f"http://127.0.0.1:{self._host.http_port}"

    @property
    def api_url(self) -> str:
        """Base URL of the API."""
        return f"http://127.0.0.1:{self._host.api_port}"

    def cost_nano_usd(self, session: str) -> int:
        """Money a session has spent by the host's count, nano-dollars; 0 while nothing is known of it."""
        try:
            url = f"{self.api_url}/v1/sessions/{quote(session, safe='')}"
            with _direct.open(url, timeout=API_TIMEOUT_S) as response:
                return int(json.load(response)["cost_nano_usd"])
        except (OSError, ValueError, KeyError):
            return 0

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._host.start(), self._loop).result(START_TIMEOUT_S)
        except TimeoutError:
            self._end()
            raise UnavailableError(f"the host did not start within {START_TIMEOUT_S} s") from None
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self._host.stop(), self._loop).result(STOP_TIMEOUT_S)
        finally:
            self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=STOP_TIMEOUT_S)
