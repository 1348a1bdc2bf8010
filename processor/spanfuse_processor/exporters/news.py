"""What a host tells of, for those within the process who pass it on. They listen as anybody does: nobody waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.exporters.hub import Listener

RETRY_S: Final = 1.0
"""How long is waited until it is tried again to listen, seconds."""


class News(NamedTuple):
    """One event."""

    event: str
    """`decision`, `detection`, `audit`, …; `anew`: some were missed."""
    data: bytes
    """JSON."""


class Teller(Protocol):
    """Who tells."""

    def events(self, last_id: str = "") -> tuple[Iterable[bytes], Listener]:
        """All that happens, from behind `last_id` on; see `exporters.events.EventLog`."""


class Follower:
    """Hears what happens. Who does not keep up goes on where it was, or is told `anew`.

    Args:
        teller: who tells.
    """

    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self._heard: tuple[Iterable[bytes], Listener] | None = None
        self._last_id = ""

    def listen(self) -> None:
        """From this moment on; what happens is kept until somebody asks for it.

        Raises:
            UnavailableError: it cannot be listened now.
        """
        self._heard = self._teller.events(self._last_id)

    async def groups(self, silence_s: float) -> AsyncIterator[list[News]]:
        """What happens, in groups as it came; an empty one after `silence_s` seconds without any."""
        while True:
            try:
                missed, listener = self._heard or self._teller.events(self._last_id)
            except UnavailableError:
                await asyncio.sleep(RETRY_S)
                continue
            self._heard = None
            try:
                frames: bytes | None = b"".join(missed)
                while frames is not None:
                    found = list(parsed(frames))
                    if found:
                        self._last_id = found[-1][0]
                    yield [one for _, one in found]
                    frames = await listener.take(silence_s)
            finally:
                listener.close()
            await asyncio.sleep(0)


def parsed(frames: bytes) -> Iterator[tuple[str, News]]:
    """Server-sent events, each with its id."""
    for frame in frames.split(b"\n\n"):
        fields = dict(line.split(b": ", 1) for line in frame.split(b"\n") if b": " in line)
        if b"event" in fields:
            yield fields.get(b"id", b"").decode(), News(fields[b"event"].decode(), fields.get(b"data", b"{}"))
