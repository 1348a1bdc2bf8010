"""The Guard in LiteLLM's proxy: a callback that refuses calls with 429 before they leave, and learns from those that do not.

    litellm_settings:
      callbacks: spanfuse.integrations.litellm.proxy_handler

Whose a call is comes from the headers `X-Spanfuse-Session-ID`, `-Agent`, `-User`, `-Team` (or `X-Loopers-Session-ID`), else
from its metadata and from its key. `X-Spanfuse-Session-Budget` (USD) and `-Session-Max-Steps` cap its session in this process.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from litellm.integrations.custom_logger import CustomLogger

from spanfuse import headers
from spanfuse.blocked import Blocked
from spanfuse.bounded import Bounded
from spanfuse.integrations._bound import default_guard, read, remember, with_nudge_of
from spanfuse.integrations._names import safely
from spanfuse.integrations.litellm.whose import provider_of, told_of
from spanfuse.reading.asked import Kind
from spanfuse.reading.wire import EventStream

if TYPE_CHECKING:
    from spanfuse.calls.model_call import ModelCall
    from spanfuse.guard import Guard

MAX_UNDERWAY: Final = 10_000
"""Calls under way that are remembered; of older ones nothing is learned."""

_KINDS: Final[dict[str, Kind]] = {
    "completion": "chat",
    "acompletion": "chat",
    "text_completion": "completions",
    "atext_completion": "completions",
    "embedding": "embeddings",
    "embeddings": "embeddings",
    "aembedding": "embeddings",
    "responses": "responses",
    "aresponses": "responses",
    "anthropic_messages": "messages",
}
"""What the proxy calls the APIs of models, in its versions."""
_NAMES: Final = {"session": headers.SESSION, "agent": headers.AGENT, "user": headers.USER, "team": headers.TEAM}


class _Underway(NamedTuple):
    call: ModelCall
    kind: Kind
    data: dict[str, Any]


class GuardHandler(CustomLogger):
    """A callback of LiteLLM's proxy.

    Args:
        guard: whom to ask; None: one for the process, which follows the server that `SPANFUSE_API_URL` names.
    """

    def __init__(self, guard: Guard | None = None) -> None:
        super().__init__()
        self._own = guard
        self._underway: Bounded[str, _Underway] = Bounded(MAX_UNDERWAY)

    @property
    def _guard(self) -> Guard:
        return self._own or default_guard()  # not at import: the proxy's workers are forked after it

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> Any:
        """Refuse the call, or let it pass, with a nudge in its messages if there is one."""
        kind = _KINDS.get(call_type)
        if kind is None:
            return data
        call = self._guard.call(**(safely(self._guard, lambda: self._asked(kind, data)) or {}))
        try:
            await call.abegin()
        except Blocked as refusal:
            _refuse(refusal, call)
        if call.counted:
            self._underway[str(data.get("litellm_call_id"))] = _Underway(call, kind, data)
        return data if not call.nudge else {**with_nudge_of(call, kind, data)}

    async def async_post_call_success_hook(self, data: dict[str, Any], user_api_key_dict: Any, response: Any) -> Any:
        """The answer has come; of a stream, only its beginning."""
        if not hasattr(response, "__anext__"):
            await self._end(data.get("litellm_call_id"), response)
        return response

    async def async_post_call_failure_hook(
        self,
        request_data: dict[str, Any],
        original_exception: Exception,
        user_api_key_dict: Any,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """It failed, after all retries."""
        await self._end(request_data.get("litellm_call_id"), error=original_exception)

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """Read a stream along."""
        found = self._underway.get(str(request_data.get("litellm_call_id")))
        events = EventStream(found.call) if found is not None else None
        error: BaseException | None = None
        try:
            async for piece in response:
                if found is not None and events is not None:
                    (events.feed if isinstance(piece, bytes) else found.call.chunk)(piece)
                yield piece
        except GeneratorExit:
            raise
        except BaseException as failure:
            error = failure
            raise
        finally:
            await self._end(
                request_data.get("litellm_call_id"), error=error or (events.error if events is not None else None)
            )

    async def async_log_success_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """The same is told once more, in the background, of whatever API: for those that the hooks above do not see."""
        await self._end(kwargs.get("litellm_call_id"), response_obj)

    def _asked(self, kind: Kind, data: Mapping[str, Any]) -> dict[str, Any]:
        sent = _headers_of(data)
        names = {**told_of(data), **_named(sent)}
        self._cap(names.get("session"), sent)
        return {**read(kind, data), "provider": provider_of(data), **names}

    def _cap(self, session: str | None, sent: Mapping[str, str]) -> None:
        budget, steps = _first(sent, headers.BUDGET), _first(sent, headers.MAX_STEPS)
        if session and (budget or steps):
            with suppress(ValueError):  # no number: as if it had not been sent
                self._guard.session(
                    session, budget_usd=float(budget) if budget else None, max_steps=int(steps) if steps else None
                )

    async def _end(self, call_id: Any, response: Any = None, error: BaseException | None = None) -> None:
        found = self._underway.pop(str(call_id), None)
        if found is not None:
            if response is not None:
                found.call.answered(response)
            await found.call.aend(error)
            remember(found.kind, found.data, found.call)


def _headers_of(data: Mapping[str, Any]) -> dict[str, str]:
    """Headers of the request, names in small letters."""
    request = data.get("proxy_server_request")
    sent = request.get("headers") if isinstance(request, Mapping) else None
    return {str(name).lower(): str(value) for name, value in sent.items()} if isinstance(sent, Mapping) else {}


def _named(sent: Mapping[str, str]) -> dict[str, str]:
    found = {kind: _first(sent, names) for kind, names in _NAMES.items()}
    return {kind: name for kind, name in found.items() if name}


def _first(sent: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := sent.get(name, "").strip())), "")


class _Detail(dict[str, Any]):
    """What the proxy makes its answer of: newer versions show people the message and programs the whole, older ones show all of
    it as a text."""

    def __str__(self) -> str:
        return json.dumps(self)


def _refuse(refusal: Blocked, call: ModelCall) -> NoReturn:
    from fastapi import HTTPException

    body = refusal.body(session=call.who.session, agent=call.who.agent)
    raise HTTPException(
        429,
        _Detail(body | {"error": {"type": body["error"], "code": body["error"], "message": body["message"]}}),
        {
            "Retry-After": str(headers.retry_after_s(refusal)),
            "x-should-retry": "false",
        },  # OpenAI's clients try a 429 again, unless they are told not to
    ) from refusal


proxy_handler: Final = GuardHandler()
"""What the proxy's configuration names."""
