"""Fingerprints in place of content: the agent's process says on a span what ingest would have made of the call's texts, so
that nothing has to capture them.

>>> with fingerprinted(messages) as call:  # around one model call, whose span an instrumentation makes
...     call.reply = client.chat.completions.create(model=model, messages=messages)

For a span of one's own there are `state_call` and `state_tool`. Nothing here raises: a call that cannot be read has no
fingerprints.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar, Token
from typing import Any, Final, Protocol

from spanfuse.reading.answers import replies
from spanfuse.reading.messages import FINGERPRINT_ATTRIBUTE, Prints
from spanfuse.reading.prints import call_prints, tool_prints
from spanfuse_schemas.wording import key_id, share_key

MAX_HELD: Final = 64
"""Spans kept back until the reply of a call is known; further ones leave without it."""
MAX_ERROR_CHARS: Final = 4_096
"""Of the message of a failure only so much tells one from another, characters; as ingest takes it."""

Attributes = Mapping[str, str]

log = logging.getLogger("spanfuse")

if _secret := os.environ.get("SPANFUSE_FINGERPRINT_KEY"):
    share_key(_secret)


class WritableSpan(Protocol):
    """Whatever takes attributes: a span of OpenTelemetry."""

    def set_attribute(self, key: str, value: str, /) -> object:
        """Set one."""


class fingerprinted:
    """Around one model call: the spans that start inside say what it is about; those that go the way of
    `spanfuse.instrument` also say what came back, for which they leave at the end of the block.

    Args:
        messages: the call's messages, the whole history, in any form that `Guard.check` takes; or its text.
        system: instructions of the system that are kept apart from the messages.
    """

    __slots__ = ("_held", "_input", "_lock", "_messages", "_system", "_token", "reply")

    def __init__(self, messages: Any, *, system: Any = None) -> None:
        self.reply: Any = None
        """What came back: a response of OpenAI or Anthropic, a message, messages, or a text; none: it failed."""
        self._messages = _kept(messages)
        self._system = system
        self._input: Attributes = {}
        self._held: list[Callable[[Attributes], None]] | None = None
        self._lock = threading.Lock()
        self._token: Token[fingerprinted | None] | None = None

    def __enter__(self) -> fingerprinted:
        self._input = of_call(self._messages, None, self._system)
        self._held = []
        self._token = AT_HAND.set(self)
        return self

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            held, self._held = self._held or [], None
        if self._token is not None:
            with suppress(ValueError):  # left in another context than it began in; there it says nothing any more
                AT_HAND.reset(self._token)
        whole = of_call(self._messages, self.reply, self._system) if held else {}
        for let_go in held:
            let_go(whole)

    @property
    def attributes(self) -> Attributes:
        """What the spans that start inside carry."""
        return self._input if self._held is not None else {}

    def hold(self, let_go: Callable[[Attributes], None]) -> bool:
        """Keep a finished span back until the reply is known.

        Args:
            let_go: called at the end of the block with the attributes to put on the span.

        Returns:
            Whether it is kept: not after the block, and no more than `MAX_HELD`.
        """
        with self._lock:
            if self._held is None or len(self._held) >= MAX_HELD:
                return False
            self._held.append(let_go)
            return True


AT_HAND: Final[ContextVar[fingerprinted | None]] = ContextVar("spanfuse_fingerprinted", default=None)
"""The call that is made here."""


def state_call(span: WritableSpan, messages: Any, reply: Any = None, *, system: Any = None) -> None:
    """Put the fingerprints of a model call on its span.

    Args:
        span: the call's span, not yet ended.
        messages: as of `fingerprinted`.
        reply: as of `fingerprinted`.
        system: as of `fingerprinted`.
    """
    for key, value in of_call(messages, reply, system).items():
        span.set_attribute(key, value)


def state_tool(
    span: WritableSpan,
    name: str,
    arguments: Any = None,
    result: Any = None,
    *,
    error: BaseException | str | None = None,
    call_id: str = "",
) -> None:
    """Put the fingerprints of a tool execution on its span.

    Args:
        span: the tool's span, not yet ended.
        name: name of the tool.
        arguments: what it was called with, an object or its JSON text; none: unknown.
        result: what it brought; none: unknown.
        error: how it failed, told where there is no result. The span itself has to say that it failed.
        call_id: id of the tool call, as the provider gave it.
    """
    told = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error
    for key, value in _stated(lambda: tool_prints(name, _plain(arguments), _brought(result, told), call_id)).items():
        span.set_attribute(key, value)


def of_call(messages: Any, reply: Any, system: Any = None) -> Attributes:
    """The attributes that state a model call; none where it cannot be read."""
    return _stated(lambda: call_prints(_asked(messages), replies(reply), system))


def _stated(make: Callable[[], Prints]) -> Attributes:
    try:
        return {FINGERPRINT_ATTRIBUTE: make().model_copy(update={"key": key_id()}).to_json().decode()}
    except Exception:
        log.debug("a call has no fingerprints", exc_info=True)
        return {}


def _kept(messages: Any) -> Any:
    """The messages as they are now: the agent goes on with its history. What cannot be gone through is left to be refused."""
    try:
        return messages if messages is None or isinstance(messages, str) else list(messages)
    except Exception:
        return messages


def _asked(messages: Any) -> Sequence[Any] | None:
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    return None if messages is None else list(messages)


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump() if callable(dump) else value


def _brought(result: Any, told: str | None) -> Any:
    nothing = result is None or (isinstance(result, str) and not result)
    return told[:MAX_ERROR_CHARS] if nothing and told else _plain(result)
