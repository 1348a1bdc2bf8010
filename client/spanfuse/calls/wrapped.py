"""Functions as calls: the decorators behind `Guard.wrap_call` and `Guard.wrap_tool`, for whatever no integration knows."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import TYPE_CHECKING, Any, Final

from spanfuse.calls.generators import Steps, within

if TYPE_CHECKING:
    from spanfuse.calls.model_call import ModelCall
    from spanfuse.calls.tool_call import ToolCall
    from spanfuse.guard import Guard

_ASKED: Final = ("model", "messages", "prompt", "system", "tools")
"""Parameters of a function that are shown to the Guard."""


def wrapped_call(guard: Guard, function: Callable[..., Any], given: dict[str, Any]) -> Any:
    """The function as a model call, of the same kind: plain, coroutine, generator or async generator.

    Args:
        given: arguments of `Guard.call`; the function's own of these names come on top.
    """
    arguments_of = _binder(function)

    def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> ModelCall:
        shown = arguments_of(args, kwargs)
        return guard.call(**given | {name: shown[name] for name in _ASKED if shown.get(name) is not None})

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        with call(args, kwargs) as made:
            result = function(*args, **kwargs)
            made.answered(result)
        return result

    @functools.wraps(function)
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        async with call(args, kwargs) as made:
            result = await function(*args, **kwargs)
            made.answered(result)
        return result

    @functools.wraps(function)
    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        made, error = call(args, kwargs), None
        made.begin()
        try:
            return (yield from Steps(made.part, function(*args, **kwargs), made.chunk))
        except GeneratorExit:  # its reader has had enough
            raise
        except BaseException as failure:
            error = failure
            raise
        finally:
            made.end(error)

    @functools.wraps(function)
    async def async_generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        made, error = call(args, kwargs), None
        await made.abegin()
        try:
            async for piece in within(made, function(*args, **kwargs)):
                made.chunk(piece)
                yield piece
        except GeneratorExit:  # its reader has had enough
            raise
        except BaseException as failure:
            error = failure
            raise
        finally:
            await made.aend(error)

    return of_its_kind(function, plain, coroutine, generator, async_generator)


def wrapped_tool(guard: Guard, function: Callable[..., Any], name: str, names: dict[str, Any]) -> Any:
    """The function as a tool, its arguments as those of the tool; a plain or a coroutine function.

    Args:
        name: name of the tool.
        names: session, agent, user and team.

    Raises:
        TypeError: it is a generator function.
    """
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{name} gives its result in pieces; use `with guard.tool(…)` around its use")
    arguments_of = _binder(function)

    def tool(args: tuple[Any, ...], kwargs: dict[str, Any]) -> ToolCall:
        return guard.tool(name, arguments_of(args, kwargs), **names)

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        with tool(args, kwargs) as used:
            return used.result(function(*args, **kwargs))

    @functools.wraps(function)
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        async with tool(args, kwargs) as used:
            return used.result(await function(*args, **kwargs))

    return coroutine if inspect.iscoroutinefunction(function) else plain


def of_its_kind(function: Callable[..., Any], plain: Any, coroutine: Any, generator: Any, async_generator: Any) -> Any:
    """The one of four that is of the kind of a function."""
    if inspect.isasyncgenfunction(function):
        return async_generator
    if inspect.iscoroutinefunction(function):
        return coroutine
    return generator if inspect.isgeneratorfunction(function) else plain


def _binder(function: Callable[..., Any]) -> Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]:
    """From the arguments of a call to parameter → argument, without `self`; what does not fit is the function's to refuse."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return lambda args, kwargs: dict(kwargs)

    def bound(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            found = signature.bind(*args, **kwargs)
        except TypeError:
            return dict(kwargs)
        flat: dict[str, Any] = {}
        for name, value in found.arguments.items():
            if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                flat |= value
            elif name not in ("self", "cls"):
                flat[name] = value
        return flat

    return bound
