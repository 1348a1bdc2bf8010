"""The clients that OpenAI and Anthropic generate with the same tool: all that they send goes through one method, `request`,
which tries again by itself. It is guarded there, above its retries, so that nothing a client offers is a way around."""

from __future__ import annotations

import copy
import inspect
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from spanfuse.calls.model_call import ModelCall
from spanfuse.integrations._bound import Bound, DropIn, over, read, with_nudge_of
from spanfuse.integrations._tapped import tap
from spanfuse.reading.asked import Kind

C = TypeVar("C")

_WRAPPED: Final = "_spanfuse"
_PLAIN: Final = "_spanfuse_plain"
"""What stood in place of what is guarded."""


class Guarded:
    """A client whose model calls ask first.

    Args:
        bound: what they ask, and in whose name.
        provider: whose API it speaks, under its OpenTelemetry name.
        paths: what calls a model, by the end of its path.
    """

    def __init__(self, bound: Bound, provider: str, paths: Mapping[str, Kind]) -> None:
        self._bound, self._provider, self._paths = bound, provider, paths

    def over(self, client: C) -> C:
        """Guard a client, in place, and all copies that it makes of itself (`with_options`)."""
        target: Any = client
        request, duplicate = getattr(target, _PLAIN, None) or (target.request, target.copy)
        setattr(target, _PLAIN, (request, duplicate))
        guarded = self._asynchronous if inspect.iscoroutinefunction(request) else self._synchronous

        def copied(*args: Any, **kwargs: Any) -> Any:
            if isinstance(target, DropIn):  # it is made anew, and should not look for a Guard of its own
                kwargs["_extra_kwargs"] = {"guard": self._bound.guard, **kwargs.get("_extra_kwargs", {})}
            return self.over(duplicate(*args, **kwargs))

        target.request, target.copy, target.with_options = guarded(request), copied, copied
        setattr(target, _WRAPPED, self)
        return client

    def _synchronous(self, request: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(cast_to: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
            call = self._call(options)
            if call is None:
                return request(cast_to, options, *args, **kwargs)
            call.begin()
            try:
                with call.part():
                    response = request(cast_to, self._nudged(options, call), *args, **kwargs)
            except BaseException as error:
                call.end(error)
                raise
            if not self._tapped(call, options, response):
                call.end()
                self._over(call, options, response)
            return response

        return guarded

    def _asynchronous(self, request: Callable[..., Any]) -> Callable[..., Any]:
        async def guarded(cast_to: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
            call = self._call(options)
            if call is None:
                return await request(cast_to, options, *args, **kwargs)
            await call.abegin()
            try:
                with call.part():
                    response = await request(cast_to, self._nudged(options, call), *args, **kwargs)
            except BaseException as error:
                await call.aend(error)
                raise
            if not self._tapped(call, options, response):
                await call.aend()
                self._over(call, options, response)
            return response

        return guarded

    def _kind(self, options: Any) -> Kind | None:
        path = str(options.url).partition("?")[0].rstrip("/")
        if options.method.lower() != "post":
            return None
        return next((kind for end, kind in self._paths.items() if path.endswith(end)), None)

    def _call(self, options: Any) -> ModelCall | None:
        """The call that a request makes; None: it calls no model. What cannot be read is guarded all the same."""
        try:
            kind = self._kind(options)
            if kind is None:
                return None
            body = _body(options)
            shown = read(kind, body) if body is not None else {}
        except Exception:
            self._bound.guard.failed()
            shown = {}
        return self._bound.call({"provider": self._provider, **shown})

    def _nudged(self, options: Any, call: ModelCall) -> Any:
        kind, body = self._kind(options), _body(options)
        if not call.nudge or kind is None or body is None:
            return options
        changed = copy.copy(options)
        changed.json_data, changed.extra_json = with_nudge_of(call, kind, body), None
        return changed

    def _tapped(self, call: ModelCall, options: Any, response: Any) -> bool:
        """Whether the call goes on while its response is read; else it has learned from the whole."""
        if not call.counted:  # it is part of another call, or the Guard is off
            return False
        try:
            raw = getattr(response, "http_response", None)  # of with_raw_response and with_streaming_response
            http: Any = getattr(response, "response", None) if raw is None else raw  # of a stream
            if not hasattr(http, "iter_bytes"):
                call.answered(response)
                return False
            if http.is_closed:
                call.answered(http.json())
                return False
            held = weakref.ref(response)
            tap(call, http, lambda: self._over(call, options, held()))
        except Exception:
            self._bound.guard.failed()
            return False
        return True

    def _over(self, call: ModelCall, options: Any, response: Any) -> None:
        over(self._bound, call, self._kind(options), _body(options), response)


def _body(options: Any) -> Mapping[str, Any] | None:
    """What is sent as JSON, `extra_body` included; None: something else is."""
    body, extra = options.json_data, getattr(options, "extra_json", None)
    if isinstance(extra, Mapping) and (body is None or isinstance(body, Mapping)):
        return {**(body or {}), **extra}
    return body if isinstance(body, Mapping) else None


def is_guarded(client: Any) -> bool:
    """Whether a client is guarded already."""
    return hasattr(client, _WRAPPED)
