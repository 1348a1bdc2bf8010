"""All that happens, as numbered server-sent events. The last are kept: who was away for a moment goes on where it was."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final

from spanfuse_processor.exporters.hub import Hub, Listener, frame

KEPT: Final = 10_000
"""Events kept, some 1 KB each."""


class EventLog:
    """Hands each event to all who listen, and keeps the last.

    Args:
        hub: has the listeners.
        kept: events kept.
    """

    def __init__(self, hub: Hub | None = None, kept: int = KEPT) -> None:
        self.hub = Hub() if hub is None else hub  # one without listeners is false
        self._run = f"{time.time_ns():x}"
        self._last = 0
        self._kept: deque[bytes] = deque(maxlen=kept)

    def publish(self, event: str, data: bytes) -> None:
        """Tell of an event.

        Args:
            data: JSON on one line.
        """
        self._last += 1
        told = self._numbered(event, data)
        self._kept.append(told)
        self.hub.tell(told)

    def follow(self, last_id: str = "") -> tuple[Iterable[bytes], Listener]:
        """What came after an event, then `ready`, and a listener for what is to come.

        Args:
            last_id: id of that event; empty: nothing of the past is told. One that is not known any more gives `anew`.

        Raises:
            UnavailableError: if too many listen.
        """
        listener = self.hub.listen()
        missed = self._after(last_id) if last_id else 0
        before = (
            [self._numbered("anew", b"{}")]
            if missed is None
            else list(islice(self._kept, len(self._kept) - missed, None))
        )
        return [*before, self._numbered("ready", b"{}")], listener

    def _after(self, last_id: str) -> int | None:
        """How many events came after one; none if that cannot be told, or they are not kept."""
        run, _, number = last_id.partition("-")
        if run != self._run or not (number.isascii() and number.isdecimal()) or len(number) > 18:
            return None
        missed = self._last - int(number)
        return missed if 0 <= missed <= len(self._kept) else None

    def _numbered(self, event: str, data: bytes) -> bytes:
        return b"id: %s-%d\n" % (self._run.encode(), self._last) + frame(event, data)
