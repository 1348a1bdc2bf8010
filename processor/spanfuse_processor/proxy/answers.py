"""Reads an answer along while it passes, whatever it is encoded in. What it cannot read it lets be."""

from __future__ import annotations

import zlib

from spanfuse.reading.wire import MAX_BYTES, EventStream, Learning, ProviderError, WholeBody

_ANY_HEADER = 32 + zlib.MAX_WBITS
"""gzip or zlib, told by the header."""


class Reader:
    """Of one answer.

    Args:
        call: learns from it.
        events: whether it is a stream of events, else one JSON document.
        encoding: in which it is transferred, `gzip` or `deflate`; empty: none.
    """

    def __init__(self, call: Learning, *, events: bool, encoding: str) -> None:
        self._body = EventStream(call) if events else WholeBody(call)
        self._inflate = zlib.decompressobj(_ANY_HEADER) if encoding else None
        self._lost = False

    def feed(self, data: bytes) -> bool:
        """Take the next bytes; whether the client has its whole answer with them, though the stream may go on."""
        if not self._lost:
            self._body.feed(self._plain(data) if self._inflate is not None else data)
        return self._body.done

    def finish(self) -> None:
        """It is over."""
        self._body.finish()

    @property
    def error(self) -> ProviderError | None:
        """The failure that the stream tells of; None: none so far."""
        return self._body.error

    def _plain(self, data: bytes) -> bytes:
        assert self._inflate is not None
        try:
            plain = self._inflate.decompress(data, MAX_BYTES)
        except zlib.error:
            self._lost = True
            return b""
        self._lost = bool(self._inflate.unconsumed_tail)
        return plain
