"""A Guard made before a fork works in the children: gunicorn with preload, multiprocessing (R091)."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from spanfuse import Guard
from spanfuse.testing import FakeClock, MemorySubscriber, block, is_blocked
from tests.client.sse_server import SseServer
from tests.client.waiting import wait_until

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


def forked(child: Callable[[], object]) -> int:
    """Run in a forked child, which succeeds if that returns something true."""
    pid = os.fork()
    if pid == 0:
        good = False
        try:
            good = bool(child())
        finally:
            os._exit(0 if good else 1)
    return pid


def succeeded(pid: int, timeout_s: float = 20) -> bool:
    deadline = time.monotonic() + timeout_s
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        if time.monotonic() > deadline:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            return False
        time.sleep(0.01)


@pytest.fixture
def server() -> Iterator[SseServer]:
    with SseServer(block("session:old")) as running:
        yield running


def test_a_block_reaches_all_preloaded_workers(server: SseServer) -> None:
    """Four workers forked from a parent whose Guard is connected each get a connection of their own."""
    guard = Guard(server.url, mode="enforce")
    assert guard.wait_ready(10)

    def worker() -> bool:
        assert guard.state == "new"
        assert is_blocked(guard, session="old"), "what the parent knew is known at once"
        assert guard.wait_ready(10)
        wait_until(lambda: is_blocked(guard, session="new"), 10)
        guard.close()
        return threading.active_count() == 1

    workers = [forked(worker) for _ in range(4)]
    wait_until(lambda: server.connections == 5)
    server.publish(block("session:new"))
    assert [succeeded(pid) for pid in workers] == [True] * 4
    wait_until(lambda: is_blocked(guard, session="new"), what="the parent's connection is unharmed")
    assert server.connections == 5
    guard.close()


def test_a_guard_that_was_never_started_starts_in_the_child(server: SseServer) -> None:
    guard = Guard(server.url, mode="enforce")

    def worker() -> bool:
        wait_until(lambda: is_blocked(guard, session="old"), 10)
        return True

    assert succeeded(forked(worker))
    assert guard.state == "new"


def test_a_closed_guard_stays_closed_in_the_child(server: SseServer) -> None:
    guard = Guard(server.url, mode="enforce")
    assert guard.wait_ready(10)
    guard.close()
    assert succeeded(forked(lambda: is_blocked(guard, session="old") and guard.state == "closed"))


def test_locks_held_by_other_threads_at_the_fork_do_not_hang_the_child() -> None:
    subscriber = MemorySubscriber(block("session:s"))
    guard = Guard(subscriber, mode="enforce")
    guard.start()
    locks = [guard._feed._lock, guard._counters._lock, guard._judge.probes._lock, guard._table._lock]
    for lock in locks:
        lock.acquire()

    def child() -> bool:
        blocked = is_blocked(guard, session="s")
        subscriber.publish(block("session:t"))
        return bool(blocked and is_blocked(guard, session="t") and guard.counters.checks == 2)

    try:
        assert succeeded(forked(child), 5)
    finally:
        for lock in locks:
            lock.release()


def test_counters_of_a_child_are_its_own() -> None:
    guard = Guard(MemorySubscriber())
    for _ in range(3):
        guard.check()
    assert succeeded(forked(lambda: guard.check() and guard.counters.checks == 1))
    assert guard.counters.checks == 3


def test_each_process_has_a_probe_of_its_own() -> None:
    clock = FakeClock()
    guard = Guard(MemorySubscriber(block("session:s", expires_at_ns=0)), mode="enforce", monotonic=clock.monotonic)
    guard.start()
    children = [forked(lambda: [is_blocked(guard, session="s") is None for _ in range(3)] == [True, False, False])]
    assert all(succeeded(pid) for pid in children)


def _ask(url: str) -> bool:
    with Guard(url, mode="enforce") as guard:
        return guard.wait_ready(15) and is_blocked(guard, session="old") is not None


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing_workers_have_guards(server: SseServer, method: str) -> None:
    guard = Guard(server.url)
    assert guard.wait_ready(10)
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map_async(_ask, [server.url] * 2).get(timeout=60) == [True, True]
    guard.close()
