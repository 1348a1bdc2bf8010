"""What a process holds against its own sessions is read without a lock, while others change it."""

from __future__ import annotations

import threading

from spanfuse import Guard
from spanfuse.testing import MemorySubscriber


def test_checks_do_not_disturb_who_lists_the_decisions() -> None:
    guard = Guard(MemorySubscriber(), local=True)
    for number in range(200):
        guard.cancel(f"s-{number}")
    order = list(guard.cancels.held)
    checkers = [threading.Thread(target=lambda: guard.tool("t", session="s-0")._stopped()) for _ in range(4)]
    for checker in checkers:
        checker.start()
    for checker in checkers:
        checker.join()
    assert list(guard.cancels.held) == order
