"""Generators and streams whose code runs inside a call, while that of their readers does not."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from spanfuse.calls.model_call import ModelCall

T = TypeVar("T")


class Steps(Generator[Any, Any, Any]):
    """A generator, step by step, with all that it is sent, thrown and returns: for `yield from`.

    Args:
        inside: gives what each step runs inside of.
        inner: the generator.
        told: is told of each piece; None: nobody is.
    """

    def __init__(
        self,
        inside: Callable[[], AbstractContextManager[Any]],
        inner: Generator[Any, Any, Any],
        told: Callable[[Any], object] | None = None,
    ) -> None:
        self._inside, self._inner, self._told = inside, inner, told

    def send(self, value: Any, /) -> Any:
        return self._step(self._inner.send, value)

    def throw(self, kind: Any, value: Any = None, at: Any = None, /) -> Any:
        return self._step(self._inner.throw, kind if value is None else value)

    def close(self) -> None:
        with self._inside():
            self._inner.close()

    def _step(self, step: Callable[[Any], Any], what: Any) -> Any:
        with self._inside():
            piece = step(what)
        if self._told is not None:
            self._told(piece)
        return piece


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
