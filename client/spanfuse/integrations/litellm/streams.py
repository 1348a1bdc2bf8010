"""Streams of LiteLLM, read along: each piece is learned from, and the call ends with the stream, or when it is closed or left.

A stream stays what it is, since LiteLLM and its users ask for its type: it gets a class of its own, derived from that type."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any

from spanfuse.reading.wire import EventStream

if TYPE_CHECKING:
    from spanfuse.calls.model_call import ModelCall

Ended = Callable[[Any], None]


def is_stream(answer: Any) -> bool:
    """Whether an answer comes piece by piece."""
    return hasattr(answer, "__next__") or hasattr(answer, "__anext__")


def watched(call: ModelCall, stream: Any, ended: Ended) -> Any:
    """The stream, which is read along.

    Args:
        call: begun, and ended here.
        stream: of LiteLLM.
        ended: called with the stream once the call has ended.
    """
    reading = _Reading(call, ended)
    if isinstance(stream, GeneratorType):
        return _pieces(reading, stream)
    if isinstance(stream, AsyncGeneratorType):
        return _apieces(reading, stream)
    try:
        kind: Any = type(stream)
        stream.__class__ = _watching(kind)
        stream._spanfuse = reading
    except (TypeError, AttributeError):  # of a class that allows neither: it is charged its estimate
        call.end()
        return stream
    weakref.finalize(stream, call.end).atexit = False
    return stream


class _Reading:
    """What is done as a stream is read."""

    def __init__(self, call: ModelCall, ended: Ended) -> None:
        self._call, self._ended = call, ended
        self._events = EventStream(call)
        self._waiting = False
        """A piece is waited for: whoever waits hears how it went, and not who closes the stream for that reason."""

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around the wait for the next piece."""
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False

    def take(self, piece: Any) -> Any:
        """Learn from a piece, and give it on. Those of Anthropic's API are bytes."""
        if isinstance(piece, bytes):
            self._events.feed(piece)
        else:
            self._call.chunk(piece)
        return piece

    def end(self, stream: Any, error: BaseException | None = None) -> None:
        """The stream is over."""
        if not self._waiting and not self._call.ended_ns:
            self._call.end(error or self._events.error)
            self._ended(stream)

    async def aend(self, stream: Any, error: BaseException | None = None) -> None:
        """The same, without blocking the event loop."""
        if not self._waiting and not self._call.ended_ns:
            await self._call.aend(error or self._events.error)
            self._ended(stream)


def _pieces(reading: _Reading, stream: Iterator[Any]) -> Iterator[Any]:
    error: BaseException | None = None
    try:
        for piece in stream:
            yield reading.take(piece)
    except GeneratorExit:
        raise
    except BaseException as failure:
        error = failure
        raise
    finally:
        reading.end(stream, error)


async def _apieces(reading: _Reading, stream: AsyncIterator[Any]) -> AsyncIterator[Any]:
    error: BaseException | None = None
    try:
        async for piece in stream:
            yield reading.take(piece)
    except GeneratorExit:
        raise
    except BaseException as failure:
        error = failure
        raise
    finally:
        await reading.aend(stream, error)


class _Watched:
    """Before the type of a stream."""

    _spanfuse: _Reading

    def __next__(self) -> Any:
        try:
            with self._spanfuse.waiting():
                piece = super().__next__()  # type: ignore[misc]
        except StopIteration:
            self._spanfuse.end(self)
            raise
        except BaseException as error:
            self._spanfuse.end(self, error)
            raise
        return self._spanfuse.take(piece)

    async def __anext__(self) -> Any:
        try:
            with self._spanfuse.waiting():
                piece = await super().__anext__()  # type: ignore[misc]
        except StopAsyncIteration:
            await self._spanfuse.aend(self)
            raise
        except BaseException as error:
            await self._spanfuse.aend(self, error)
            raise
        return self._spanfuse.take(piece)

    def close(self) -> Any:
        self._spanfuse.end(self)
        close = getattr(super(), "close", None)
        return close() if close is not None else None

    async def aclose(self) -> None:
        await self._spanfuse.aend(self)
        close = getattr(super(), "aclose", None)
        if close is not None:
            await close()


@cache
def _watching(kind: Any) -> type:
    """The type of a stream that is read along."""
    return type(kind.__name__, (_Watched, kind), {"__module__": kind.__module__})
