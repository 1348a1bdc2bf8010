"""The API over a host in memory, on a loopback port, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from spanfuse_processor.api.access import Access
from spanfuse_processor.api.alerts import Alerts
from spanfuse_processor.api.app import create_app
from spanfuse_processor.api.console import Console
from spanfuse_processor.config.api import Api as Settings
from tests.support.hosts import free_port


@contextmanager
def served(
    console: Console, settings: Settings | None = None, *, alerts: Alerts | None = None, port: int = 0
) -> Iterator[str]:
    """The base URL, while it is served.

    Args:
        settings: section `extensions.api`; none: without tokens.
        port: to listen on; 0: a free one.
    """
    port = port or free_port()
    app = create_app(console, access=Access(settings), alerts=alerts)
    config = uvicorn.Config(app, "127.0.0.1", port, log_level="critical", timeout_graceful_shutdown=1, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the API has not started"
            thread.join(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)
