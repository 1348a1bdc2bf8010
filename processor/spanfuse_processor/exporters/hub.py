"""Tells those who listen within this process, or over its event streams, what has changed."""

from __future__ import annotations

import asyncio
import resource
from collections import deque
from contextlib import suppress
from typing import Final

from spanfuse_processor.errors import UnavailableError
from spanfuse_schemas.signing import Keyring

MAX_WAITING: Final = 10_000
"""Events that may wait for one listener; one that is further behind is dropped and has to begin again."""
MAX_LISTENERS: Final = 1_000
"""Listeners at once, if the process may have twice as many files open."""
SIGNED: Final = ("decision", "policy")
"""Events that Guards obey."""


class Listener:
    """What one listener has still to be told. Made by `Hub.listen`."""

    def __init__(self, hub: Hub, max_waiting: int) -> None:
        self._hub = hub
        self._max_waiting = max_waiting
        self._waiting: deque[bytes] = deque()
        self._news = asyncio.Event()
        self.closed = False
        """Nothing more will come."""

    def put(self, frame: bytes) -> None:
        """Tell it; a listener that is too far behind is closed, never waited for."""
        if len(self._waiting) >= self._max_waiting:
            self._hub.dropped += 1
            self.close()
            return
        self._waiting.append(frame)
        self._news.set()

    async def take(self, timeout_s: float) -> bytes | None:
        """All that waits, together; empty after `timeout_s` seconds of silence, none once closed."""
        if not self._waiting and not self.closed:
            self._news.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._news.wait()
            except TimeoutError:
                return b""
        if self.closed:
            return None
        found = b"".join(self._waiting)
        self._waiting.clear()
        return found

    def close(self) -> None:
        """Listen no more."""
        self.closed = True
        self._waiting.clear()
        self._news.set()
        self._hub.forget(self)


class Hub:
    """Hands each event to every listener, in order, without waiting for any.

    Args:
        max_waiting: events that may wait for one listener.
        max_listeners: listeners at once; default: `room`.
        keys: sign what Guards obey.
    """

    def __init__(
        self, max_waiting: int = MAX_WAITING, max_listeners: int | None = None, keys: Keyring | None = None
    ) -> None:
        self._keys = keys or Keyring()
        self._max_waiting = max_waiting
        self._max_listeners = room() if max_listeners is None else max_listeners
        self._listeners: set[Listener] = set()
        self.dropped = 0
        """Listeners closed because they did not keep up."""

    def __len__(self) -> int:
        return len(self._listeners)

    def listen(self) -> Listener:
        """Begin to listen.

        Raises:
            UnavailableError: if too many listen.
        """
        if len(self._listeners) >= self._max_listeners:
            raise UnavailableError(f"{self._max_listeners} clients are connected; no more are served")
        listener = Listener(self, self._max_waiting)
        self._listeners.add(listener)
        return listener

    def publish(self, event: str, data: bytes) -> None:
        """Tell all listeners.

        Args:
            event: `decision` or `detection`.
            data: JSON on one line.
        """
        self.tell(self.frame(event, data))

    def frame(self, event: str, data: bytes) -> bytes:
        """A server-sent event, signed if Guards obey it."""
        return frame(event, self._keys.signed(data) if event in SIGNED else data)

    def tell(self, told: bytes) -> None:
        """Tell all listeners of an event that is framed already."""
        for listener in tuple(self._listeners):
            listener.put(told)

    def forget(self, listener: Listener) -> None:
        """It listens no more."""
        self._listeners.discard(listener)

    def close(self) -> None:
        """End all listeners."""
        for listener in tuple(self._listeners):
            listener.close()


def room() -> int:
    """How many listeners the process has room for: each is a file descriptor, and half of them are for everything else."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_LISTENERS if soft == resource.RLIM_INFINITY else min(MAX_LISTENERS, soft // 2)


def make_room() -> None:
    """Let the process have as many files open as it may: shells and service managers give 1,024 unless asked."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems call it unlimited and refuse that
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def frame(event: str, data: bytes) -> bytes:
    """A server-sent event."""
    return b"event: %s\ndata: %s\n\n" % (event.encode(), data)
