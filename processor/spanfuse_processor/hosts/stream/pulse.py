"""Ends the process where its event loops do not: the engine has loops and threads that may hang."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from typing import Final

from spanfuse_processor.hosts.stream.progress import STUCK_S

EXIT_CODE: Final = 1
"""Exit code of a worker that ends because something hangs."""
LEAVE_S: Final = 3.0
"""How long the threads of a worker that has stopped may take to end, seconds."""


class Pulse:
    """A thread that ends the process when the event loop has not run for `stuck_s` seconds."""

    def __init__(self, stuck_s: float = STUCK_S) -> None:
        self._stuck_s = stuck_s
        self._beat = time.monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="spanfuse-pulse", daemon=True)

    async def run(self) -> None:
        """Beat while the loop runs."""
        self._thread.start()
        try:
            while True:
                self._beat = time.monotonic()
                await asyncio.sleep(1)
        finally:
            self._stopped.set()

    def _watch(self) -> None:
        misses = 0  # two in a row: after a suspended machine wakes up, the loop gets its turn first
        while not self._stopped.wait(self._stuck_s / 3):
            misses = misses + 1 if time.monotonic() - self._beat > self._stuck_s else 0
            if misses == 2:
                _end(f"the event loop has hung for {self._stuck_s:g} s; ending", EXIT_CODE)


def leave_within(timeout_s: float, error: BaseException | None) -> None:
    """End the process in `timeout_s` seconds if it has not ended by then: the engine's thread, which Python waits for, may
    wait for a broker for ever.

    Args:
        error: why the worker ends; none: as it was asked to.
    """

    def leave() -> None:
        time.sleep(timeout_s)
        said = f"{error or 'stopped'}; the engine did not end by itself"
        _end(said, EXIT_CODE if error is not None else 0)

    threading.Thread(target=leave, name="spanfuse-leave", daemon=True).start()


def _end(said: str, code: int) -> None:
    print(f"spanfuse: {said}", file=sys.stderr, flush=True)
    os._exit(code)
