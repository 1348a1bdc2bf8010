"""An HTTP response that is read as it comes: its call learns from the bytes that pass, and ends when they do, or when the
response is closed. Whichever way the user reads it: a stream's events, bytes, lines, or the whole."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from spanfuse.calls.model_call import ModelCall
from spanfuse.reading.wire import EventStream, WholeBody


class Tap:
    """Between a response and who reads it.

    Args:
        call: begun, and ended here.
        response: of httpx, its body not yet read.
        ended: called once the call has ended.
    """

    def __init__(self, call: ModelCall, response: Any, ended: Callable[[], None]) -> None:
        of_events = str(response.headers.get("content-type", "")).startswith("text/event-stream")
        self._call, self._ended = call, ended
        self._body = EventStream(call) if of_events else WholeBody(call)
        self._reading = False
        """Bytes are waited for: whoever waits hears how it went."""
        self._over = False

    def _close(self) -> bool:
        """Whether the call ends now."""
        first, self._over = not self._over, True
        if first:
            self._body.finish()
        return first

    def end(self, error: BaseException | None = None) -> None:
        """End the call, once."""
        if self._close():
            self._call.end(error or self._body.error)
            self._ended()

    async def aend(self, error: BaseException | None = None) -> None:
        """The same, without blocking the event loop."""
        if self._close():
            await self._call.aend(error or self._body.error)
            self._ended()

    def pieces(self, source: Iterator[bytes]) -> Iterator[bytes]:
        """The bytes, as they pass."""
        error: BaseException | None = None
        try:
            while True:
                self._reading = True
                try:
                    piece = next(source)
                except StopIteration:
                    return
                except BaseException as failure:
                    error = failure
                    raise
                finally:
                    self._reading = False
                self._body.feed(piece)
                yield piece
        finally:
            self.end(error)

    async def apieces(self, source: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The same of an asynchronous response."""
        error: BaseException | None = None
        try:
            while True:
                self._reading = True
                try:
                    piece = await anext(source)
                except StopAsyncIteration:
                    return
                except BaseException as failure:
                    error = failure
                    raise
                finally:
                    self._reading = False
                self._body.feed(piece)
                yield piece
        finally:
            await self.aend(error)

    def closed(self) -> None:
        """The response was closed."""
        if not self._reading:
            self.end()

    async def aclosed(self) -> None:
        """The same of an asynchronous response."""
        if not self._reading:
            await self.aend()


def tap(call: ModelCall, response: Any, ended: Callable[[], None]) -> None:
    """Read along with whoever reads a response of httpx, synchronous or not. What is never read nor closed ends with it."""
    tapped = Tap(call, response, ended)
    iterate, close, aiterate, aclose = response.iter_bytes, response.close, response.aiter_bytes, response.aclose

    def iter_bytes(chunk_size: int | None = None) -> Iterator[bytes]:
        return tapped.pieces(iterate(chunk_size))

    def aiter_bytes(chunk_size: int | None = None) -> AsyncIterator[bytes]:
        return tapped.apieces(aiterate(chunk_size))

    def close_it() -> None:
        try:
            close()
        finally:
            tapped.closed()

    async def aclose_it() -> None:
        try:
            await aclose()
        finally:
            await tapped.aclosed()

    response.iter_bytes, response.aiter_bytes = iter_bytes, aiter_bytes
    response.close, response.aclose = close_it, aclose_it
    weakref.finalize(response, tapped.end).atexit = False
