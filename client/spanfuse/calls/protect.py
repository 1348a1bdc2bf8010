"""The decorator behind `Guard.protect`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import TYPE_CHECKING, Any

from spanfuse.calls.generators import Steps
from spanfuse.calls.wrapped import of_its_kind
from spanfuse.context import IDENTITY, call
from spanfuse.context import session as _session

if TYPE_CHECKING:
    from spanfuse.guard import Guard


def protected(guard: Guard, function: Callable[..., Any], names: dict[str, object]) -> Any:
    """The function with a check before it, of the same kind: plain, coroutine, generator or async generator."""
    shown = _shown_by(function)

    def named() -> call:
        with _session(**names):
            return call(IDENTITY.get() if names else None)

    def enter(args: tuple[Any, ...], kwargs: dict[str, Any]) -> call:
        """Check, and give the call in which the function then runs."""
        scope = named()
        with scope:
            guard.check(**shown(args, kwargs))
        return scope

    async def aenter(args: tuple[Any, ...], kwargs: dict[str, Any]) -> call:
        """The same, without blocking the event loop."""
        scope = named()
        with scope:
            await guard.acheck(**shown(args, kwargs))
        return scope

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        with enter(args, kwargs):
            return function(*args, **kwargs)

    @functools.wraps(function)
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        with await aenter(args, kwargs):
            return await function(*args, **kwargs)

    @functools.wraps(function)
    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        scope = enter(args, kwargs)
        return (yield from Steps(lambda: scope, function(*args, **kwargs)))

    @functools.wraps(function)
    async def async_generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        scope, inner = await aenter(args, kwargs), function(*args, **kwargs)
        step: Callable[[], Any] = functools.partial(inner.asend, None)
        try:
            while True:
                try:
                    with scope:
                        item = await step()
                except StopAsyncIteration:
                    return
                try:
                    step = functools.partial(inner.asend, (yield item))
                except GeneratorExit:
                    raise
                except BaseException as error:
                    step = functools.partial(inner.athrow, error)
        finally:
            with scope:
                await inner.aclose()

    return of_its_kind(function, plain, coroutine, generator, async_generator)


def _shown_by(function: Callable[..., Any]) -> Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]:
    """How to find `messages` and `prompt` among the arguments of a function."""
    order = _positions(function)
    places = [(name, order.index(name) if name in order else None) for name in ("messages", "prompt")]

    def shown(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        found = {}
        for name, place in places:
            if name in kwargs:
                found[name] = kwargs[name]
            elif place is not None and place < len(args):
                found[name] = args[place]
        return found

    return shown


def _positions(function: Callable[..., Any]) -> list[str]:
    """Names of the parameters that take arguments by their place."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
