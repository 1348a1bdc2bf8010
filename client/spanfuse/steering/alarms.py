"""Calls at a given time, all from one thread, which exists while any is to come."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from typing import Final

ROOM: Final = 256
"""Alarms that are kept, whether cancelled or not, before those that are cancelled are thrown out."""
IDLE_S: Final = 1.0
"""How long the thread waits for another alarm before it ends, seconds: sessions come one after the other."""
LOOK_S: Final = 3600.0
"""How long it waits at most before it looks at the clock again, seconds: no lock waits for centuries."""


class Alarm:
    """A call that is to come."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Do not call."""
        self.call = None


class Alarms:
    """Makes the calls, at most some milliseconds late; they have to be quick.

    Args:
        monotonic: clock that never goes back, seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._numbers = itertools.count()
        self.failures = 0
        """Calls that failed."""
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._heap: list[tuple[float, int, Alarm]] = []
        self._room = ROOM
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None

    after_fork = _begin_anew
    """What is to come in the parent is the parent's."""

    def __len__(self) -> int:
        """Alarms that are kept."""
        return len(self._heap)

    def at(self, when_s: float, call: Callable[[], None]) -> Alarm:
        """Call at a time of the clock; at once, if it has passed."""
        alarm = Alarm(call)
        with self._news:
            if len(self._heap) >= self._room:
                self._heap = [entry for entry in self._heap if entry[2].call is not None]
                heapq.heapify(self._heap)
                self._room = max(ROOM, 2 * len(self._heap))
            heapq.heappush(self._heap, (when_s, next(self._numbers), alarm))
            self._run_thread()
            self._news.notify()
        return alarm

    def _run_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="spanfuse-alarms", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._news:
                self._drop_cancelled()
                left = self._heap[0][0] - self._monotonic() if self._heap else None
                if left is None or left > 0:
                    told = self._news.wait(IDLE_S if left is None else min(left, LOOK_S))
                    if left is None and not told and not self._heap:
                        self._thread = None
                        return
                    continue
                call = heapq.heappop(self._heap)[2].call
            try:
                if call is not None:
                    call()
            except Exception:  # the next one is made all the same
                self.failures += 1

    def _drop_cancelled(self) -> None:
        while self._heap and self._heap[0][2].call is None:
            heapq.heappop(self._heap)
