"""Waiting for a condition, never for a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], timeout_s: float = 15.0, what: str = "") -> None:
    """Return once `condition()` holds; fail after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what or condition}"
        time.sleep(0.005)


def own_threads() -> set[threading.Thread]:
    """The threads of Guards in this process, those that other tests have left included."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("spanfuse")}
