"""Reads an answer along while it passes: what the model did and took, for the Guard. What it cannot read it lets be."""

from __future__ import annotations

import zlib
from typing import Any, Final, Protocol

import orjson

from spanfuse_processor.otlp.inflate import Inflater

MAX_BYTES: Final = 32 * 1024 * 1024
"""The largest answer, or event of a stream, that is read, bytes."""

_ENDS: Final = frozenset({"message_stop", "response.completed", "response.failed", "response.incomplete"})
"""Events after which a client has its whole answer, of Anthropic and OpenAI's Responses."""


class Learning(Protocol):
    """What learns from an answer: a `ModelCall`."""

    def answered(self, response: Any) -> None:
        """A whole response."""

    def chunk(self, piece: Any) -> None:
        """A piece of a stream."""


class Stream:
    """An event stream, read as it passes.

    Args:
        call: learns from it.
        encoding: in which it is transferred; empty: none.
    """

    def __init__(self, call: Learning, encoding: str = "") -> None:
        self._call = call
        self._rest = bytearray()
        self._inflate = zlib.decompressobj(32 + zlib.MAX_WBITS) if encoding else None
        self._lost = False

    def feed(self, data: bytes) -> bool:
        """Take the next piece; whether the client has its whole answer with it."""
        if self._lost:
            return False
        try:
            return self._feed(data)
        except Exception:  # whatever a provider sends, it passes
            self._lost = True
            return False

    def _feed(self, data: bytes) -> bool:
        self._rest += self._inflate.decompress(data, MAX_BYTES) if self._inflate is not None else data
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        self._lost = len(rest) > MAX_BYTES
        # All of them, whichever is the last that matters.
        return any([self._line(line) for line in lines if line.startswith(b"data:")])  # noqa: C419

    def _line(self, line: bytes) -> bool:
        """A line of data, which is a whole event with all that we know."""
        data = line[5:].strip()
        if data == b"[DONE]":
            return True
        piece = orjson.loads(data)
        self._call.chunk(piece)
        return isinstance(piece, dict) and piece.get("type") in _ENDS


def whole(call: Learning, data: bytes, encoding: str = "") -> None:
    """Read a whole answer.

    Args:
        call: learns from it.
        data: its body.
        encoding: in which it is transferred; empty: none.
    """
    try:
        if encoding:
            inflater = Inflater(MAX_BYTES)
            inflater.feed(data)
            data = inflater.finish()
        call.answered(orjson.loads(data))
    except Exception:  # whatever a provider sends, it passes
        return
