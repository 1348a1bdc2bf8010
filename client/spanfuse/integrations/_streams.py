"""Streams of other libraries, read as parts of a model call."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from spanfuse.calls.model_call import ModelCall

T = TypeVar("T")


async def within(call: ModelCall, stream: AsyncIterable[T]) -> AsyncIterator[T]:
    """The pieces of a stream. What makes them is part of the call, such as a client that is guarded as well; what their reader
    does meanwhile is not."""
    iterator = aiter(stream)
    while True:
        call.inside()
        try:
            piece = await anext(iterator)
        except StopAsyncIteration:
            return
        finally:
            call.outside()
        yield piece
