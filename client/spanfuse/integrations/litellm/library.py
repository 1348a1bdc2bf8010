"""LiteLLM's functions and its Router, guarded in place.

Its callbacks cannot refuse a call: what they raise is logged, and the call goes on. So the functions themselves ask, above
LiteLLM's retries and fallbacks, which must not take a refusal for a provider's failure and rest the deployment.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

try:
    import litellm
except ImportError as error:  # pragma: no cover  Proven in an interpreter without it.
    raise ImportError("this integration needs the extra litellm: pip install 'spanfuse[litellm]'") from error

from spanfuse.integrations._bound import Bound, over, read, with_nudge_of
from spanfuse.integrations._names import safely
from spanfuse.integrations.litellm.streams import is_stream, watched
from spanfuse.integrations.litellm.whose import names_of, provider_of
from spanfuse.reading.asked import CONVERSATION, Kind

if TYPE_CHECKING:
    from spanfuse.calls.model_call import ModelCall
    from spanfuse.guard import Guard


class _Form(NamedTuple):
    """How a function is called."""

    kind: Kind
    positional: tuple[str, ...]


_FUNCTIONS: Final = {
    "completion": _Form("chat", ("model", "messages")),
    "text_completion": _Form("completions", ("prompt", "model")),
    "embedding": _Form("embeddings", ("model", "input")),
    "responses": _Form("responses", ("input", "model")),
    "anthropic_messages": _Form("messages", ("max_tokens", "messages", "model")),
}
"""Each also with an `a` before its name."""
_METHODS: Final = {
    "completion": _FUNCTIONS["completion"],
    "text_completion": _Form("completions", ("model", "prompt")),
    "embedding": _FUNCTIONS["embedding"],
}
_OF_INSTANCES: Final = ("responses", "anthropic_messages")
"""The Router makes these for each instance."""

_bound: Bound | None = None


def wrap_litellm(guard: Guard | None = None) -> None:
    """Guard LiteLLM in this process: `completion`, `text_completion`, `embedding`, `responses`, `anthropic_messages`, their
    asynchronous forms, and all Routers; also where a module has imported them by name already. Sessions come from
    `spanfuse.session(...)` around the calls, else from their metadata (`session_id`).

    A second time it changes the Guard.

    Args:
        guard: whom to ask; None: one for the process, which needs no server.
    """
    global _bound
    first, _bound = _bound is None, Bound(guard)
    if first:
        replaced = {}
        for name, form in _both(_FUNCTIONS):
            function = getattr(litellm, name, None)
            if callable(function):
                replaced[id(function)] = _guarded(function, form)
                setattr(litellm, name, replaced[id(function)])
        _replace(replaced)
        _guard_routers()


def _both(forms: Mapping[str, _Form]) -> list[tuple[str, _Form]]:
    return [(prefix + name, form) for name, form in forms.items() for prefix in ("", "a")]


def _replace(replaced: Mapping[int, Any]) -> None:
    """Put guarded functions in place of those that modules imported by name."""
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if id(value) in replaced and value is not replaced[id(value)]:
                setattr(module, name, replaced[id(value)])


def _guard_routers() -> None:
    router = litellm.Router
    for name, form in _both(_METHODS):
        setattr(router, name, _guarded(getattr(router, name), form, bound_to=1))
    begin = router.__init__

    @functools.wraps(begin)
    def begun(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        for name, form in _both({name: _FUNCTIONS[name] for name in _OF_INSTANCES}):
            if callable(function := vars(self).get(name)):
                setattr(self, name, _guarded(function, form))

    router.__init__ = begun


def _guarded(function: Callable[..., Any], form: _Form, bound_to: int = 0) -> Callable[..., Any]:
    """The function, which asks first.

    Args:
        bound_to: arguments before those of the call: 1 for a method.
    """

    @functools.wraps(function)
    def synchronous(*args: Any, **kwargs: Any) -> Any:
        body = _body(form, args[bound_to:], kwargs)
        call, ended = _call(form, body)
        call.begin()
        try:
            with call.part():
                args, kwargs = _nudged(call, form, args, kwargs, bound_to)
                answer = function(*args, **kwargs)
        except BaseException as error:
            call.end(error)
            raise
        if call.counted and is_stream(answer):
            return watched(call, answer, ended)
        if not call.counted and inspect.iscoroutine(answer):  # of the asynchronous form, which is guarded above
            return answer
        call.answered(answer)
        call.end()
        ended(answer)
        return answer

    @functools.wraps(function)
    async def asynchronous(*args: Any, **kwargs: Any) -> Any:
        body = _body(form, args[bound_to:], kwargs)
        call, ended = _call(form, body)
        await call.abegin()
        try:
            with call.part():
                args, kwargs = _nudged(call, form, args, kwargs, bound_to)
                answer = await function(*args, **kwargs)
        except BaseException as error:
            await call.aend(error)
            raise
        if call.counted and is_stream(answer):
            return watched(call, answer, ended)
        call.answered(answer)
        await call.aend()
        ended(answer)
        return answer

    return asynchronous if inspect.iscoroutinefunction(function) else synchronous


def _body(form: _Form, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by name."""
    return {**dict(zip(form.positional, args, strict=False)), **kwargs}


def _call(form: _Form, body: Mapping[str, Any]) -> tuple[ModelCall, Callable[[Any], None]]:
    """The call, and what is done with its answer once it has ended."""
    bound = _bound or Bound()
    call = bound.guard.call(**(safely(bound.guard, lambda: _asked(form.kind, body)) or {}))
    return call, lambda answer: over(bound, call, form.kind, body, answer)


def _asked(kind: Kind, body: Mapping[str, Any]) -> dict[str, Any]:
    return {**read(kind, body), "provider": provider_of(body), **names_of(body)}


def _nudged(
    call: ModelCall, form: _Form, args: tuple[Any, ...], kwargs: dict[str, Any], bound_to: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with the nudge at the end of a copy of the messages."""
    place = CONVERSATION.get(form.kind, "")
    at = bound_to + form.positional.index(place) if place in form.positional else len(args)
    given = kwargs.get(place, args[at] if at < len(args) else None)
    if not call.nudge or given is None:
        return args, kwargs
    said = with_nudge_of(call, form.kind, {place: given})[place]
    if place in kwargs:
        return args, {**kwargs, place: said}
    return (*args[:at], said, *args[at + 1 :]), kwargs
