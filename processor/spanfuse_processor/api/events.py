"""An event stream: what stands at present, then each change as it comes, and a comment when there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from spanfuse_processor.exporters.hub import Listener

KEEPALIVE_S: Final = 5.0
"""Longest silence, seconds; a client that hears nothing for three times as long may take the connection for lost."""
SEND_TIMEOUT_S: Final = 10.0
"""How long a client may take nothing from a full connection, seconds; it is then dropped."""
CHUNK_BYTES: Final = 64 * 1024

_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_KEEPALIVE: Final = b": keep-alive\n\n"


class EventStream(Response):
    """The response. Each chunk is sent at once, and nothing is kept back for a client that does not read.

    Args:
        present: events to begin with.
        listener: what comes after them; closed at the end.
        lasts_s: when it ends by itself, seconds, as the token expires then; none: never.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        present: Iterable[bytes],
        listener: Listener,
        keepalive_s: float = KEEPALIVE_S,
        send_timeout_s: float = SEND_TIMEOUT_S,
        lasts_s: float | None = None,
    ) -> None:
        super().__init__()
        self._present = present
        self._listener = listener
        self._keepalive_s = keepalive_s
        self._send_timeout_s = send_timeout_s
        self._lasts_s = lasts_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watch = asyncio.create_task(self._until_gone(receive))
        end = (
            asyncio.get_running_loop().call_later(self._lasts_s, self._listener.close)
            if self._lasts_s is not None
            else None
        )
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await self._stream(send)
            await self._send(send, b"", more=False)
        except TimeoutError:
            return
        finally:
            self._listener.close()
            watch.cancel()
            if end is not None:
                end.cancel()

    async def _stream(self, send: Send) -> None:
        for chunk in _chunks(self._present):
            await self._send(send, chunk)
        while (found := await self._listener.take(self._keepalive_s)) is not None:
            await self._send(send, found or _KEEPALIVE)

    async def _send(self, send: Send, data: bytes, *, more: bool = True) -> None:
        async with asyncio.timeout(self._send_timeout_s):
            await send({"type": "http.response.body", "body": data, "more_body": more})

    async def _until_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._listener.close()


def _chunks(events: Iterable[bytes]) -> Iterator[bytes]:
    """Events joined to chunks, so that a large snapshot is neither one piece nor one packet an event."""
    chunk = bytearray()
    for event in events:
        chunk += event
        if len(chunk) >= CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    if chunk:
        yield bytes(chunk)
