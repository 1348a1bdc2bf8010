"""Reads the body of an answer along while it passes: what the model did and took, for the Guard. What it cannot read it lets
be."""

from __future__ import annotations

import json
from typing import Any, Final, Protocol

MAX_BYTES: Final = 32 * 1024 * 1024
"""The largest answer, or event of a stream, that is read, bytes."""
_LAST: Final = frozenset({"message_stop", "response.completed", "response.failed", "response.incomplete"})
"""Events after which a client has its whole answer, of Anthropic and OpenAI's Responses."""


class ProviderError(Exception):
    """The provider says in the midst of a stream that it failed."""


class Learning(Protocol):
    """What learns from an answer: a `ModelCall`."""

    def answered(self, response: Any) -> None:
        """A whole response."""

    def chunk(self, piece: Any) -> None:
        """A piece of a stream."""


class EventStream:
    """A stream of server-sent events.

    Args:
        call: learns from it.

    Attributes:
        error: the failure that it tells of; None: none so far.
        done: its reader has the whole answer.
    """

    def __init__(self, call: Learning) -> None:
        self._call = call
        self._rest = bytearray()
        self._lost = False
        self.error: ProviderError | None = None
        self.done = False

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._lost:
            return
        try:
            self._rest += data
            if b"\n" in data:
                *lines, rest = self._rest.split(b"\n")
                self._rest = rest
                for line in lines:
                    if line.startswith(b"data:"):
                        self._event(line[5:].strip())
            self._lost = len(self._rest) > MAX_BYTES
        except Exception:  # whatever a provider sends, it passes
            self._lost = True

    def finish(self) -> None:
        """It is over."""

    def _event(self, data: bytearray) -> None:
        """A line of data, which is a whole event with all that we know."""
        if data == b"[DONE]":
            self.done = True
            return
        piece = json.loads(data)
        self.done = self.done or (isinstance(piece, dict) and piece.get("type") in _LAST)
        if isinstance(piece, dict) and (piece.get("type") == "error" or piece.get("error")):
            self.error = ProviderError(json.dumps(piece.get("error") or piece)[:1_000])
        else:
            self._call.chunk(piece)


class WholeBody:
    """A body that is one JSON document; with the same methods.

    Args:
        call: learns from it.
    """

    error: ProviderError | None = None
    done = False

    def __init__(self, call: Learning) -> None:
        self._call = call
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if len(self._data) <= MAX_BYTES:
            self._data += data

    def finish(self) -> None:
        """It is over: learn from it."""
        try:
            self._call.answered(json.loads(self._data))
        except ValueError:  # it was cut, or none
            return
