"""A proxy in a thread of the test, in front of a fake provider."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any, Self

from spanfuse import Guard
from spanfuse.subscribers.memory import MemorySubscriber
from spanfuse_processor.proxy.server import ProxyServer
from spanfuse_processor.proxy.settings import ProxySettings
from tests.support.fake_provider import FakeProvider

WAIT_S = 30.0


def guard(*decisions: Any, local: Any = False, **options: Any) -> Guard:
    """A Guard without a server that knows some decisions."""
    return Guard(MemorySubscriber(*decisions), local=local, **options)


class Proxied:
    """A proxy on a loopback port.

    Args:
        provider: what it stands before, or its URL.
        of: its Guard; default: one that knows nothing.
        settings: of `ProxySettings`.
    """

    def __init__(self, provider: FakeProvider | str, of: Guard | None = None, **settings: Any) -> None:
        url = provider if isinstance(provider, str) else provider.url
        urls = {"openai_url": f"{url}/v1", "anthropic_url": url}
        self.guard = of or guard()
        self.server = ProxyServer(ProxySettings(**{"listen": "127.0.0.1:0", **urls, **settings}), self.guard)
        self._started: Future[None] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="proxied", daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server.port}"

    async def _run(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        try:
            await self.server.start()
        except BaseException as error:
            self._started.set_exception(error)
            return
        self._started.set_result(None)
        await self._stopped.wait()
        await self.server.stop()

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.result(WAIT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop it, as its process does on SIGTERM."""
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
