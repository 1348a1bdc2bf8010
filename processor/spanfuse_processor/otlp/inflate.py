"""Decompression that stops at a limit, so that a small request cannot fill the memory."""

from __future__ import annotations

import zlib
from typing import Final

from spanfuse_processor.errors import DecodeError

_ANY_HEADER: Final = 32 + zlib.MAX_WBITS
"""gzip or zlib, told by the header."""


class TooLargeError(Exception):
    """The data is, or would be, larger than the limit."""


class Inflater:
    """Decompresses gzip (one or more members) or zlib as it arrives.

    Args:
        limit: largest result, bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._out = bytearray()
        self._stream = zlib.decompressobj(_ANY_HEADER)

    def __len__(self) -> int:
        """Bytes of the result so far."""
        return len(self._out)

    def feed(self, data: bytes) -> None:
        """Take the next piece.

        Raises:
            DecodeError: not compressed data.
            TooLargeError: the limit is exceeded.
        """
        while data:
            if self._stream.eof:
                self._stream = zlib.decompressobj(_ANY_HEADER)
            try:
                self._out += self._stream.decompress(data, self._limit - len(self._out) + 1)
            except zlib.error as error:
                raise DecodeError(f"not gzip: {error}") from error
            if len(self._out) > self._limit:
                raise TooLargeError
            data = self._stream.unused_data or self._stream.unconsumed_tail

    def finish(self) -> bytes:
        """The result.

        Raises:
            DecodeError: the data ended early.
        """
        if not self._stream.eof:
            raise DecodeError("not gzip: it ends early")
        return bytes(self._out)


def inflate(data: bytes, limit: int) -> bytes:
    """Decompress gzip or zlib data; raises as `Inflater` does."""
    inflater = Inflater(limit)
    inflater.feed(data)
    return inflater.finish()
