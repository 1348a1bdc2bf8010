"""The memory that requests under way may take together, on all protocols."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from spanfuse_processor.errors import UnavailableError

MAX_BYTES: Final = 256 * 1024 * 1024
"""Bytes of all requests under way, after decompression: twelve of the largest."""


class Room:
    """Counts the bytes of requests under way."""

    def __init__(self) -> None:
        self.limit = MAX_BYTES
        self.taken = 0

    def share(self) -> Share:
        """What one request takes, given back at the end of a `with`."""
        return Share(self)


class Share:
    """The bytes of one request."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._taken = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._room.taken -= self._taken

    def take(self, size: int) -> None:
        """Take so many bytes in all, be it more than before or less.

        Raises:
            UnavailableError: there is no room at present.
        """
        more = size - self._taken
        if more > 0 and self._room.taken + more > self._room.limit:
            raise UnavailableError("too many bytes under way")
        self._room.taken += more
        self._taken = size
