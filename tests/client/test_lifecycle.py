"""The life of a Guard beside its agent's: it starts and ends at any moment, leaves nothing behind, and holds nothing up,
whatever is dead."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time

import pytest

from spanfuse import Guard
from spanfuse.subscribers import base
from spanfuse.testing import FakeClock, MemorySubscriber, block, is_blocked
from tests.client.dead import WAYS, dead
from tests.client.sse_server import SseServer
from tests.client.test_fork import forked, succeeded
from tests.client.waiting import own_threads, wait_until


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


class TestCycles:
    """A thousand of them leave no thread and no descriptor."""

    def test_following_a_server(self) -> None:
        with SseServer(block("session:s")) as server:
            guard = Guard(server.url, mode="enforce")
            before, others = descriptors(), own_threads()
            for _ in range(1000):
                guard.start()
                assert guard.wait_ready(10)
                guard.close()
            assert server.connections == 1000
            assert own_threads() <= others
            wait_until(lambda: descriptors() <= before)
            assert is_blocked(guard, session="s"), "what is known stays"

    def test_closed_while_they_connect(self) -> None:
        with SseServer(block("session:s")) as server:
            guard = Guard(server.url)
            before, others = descriptors(), own_threads()
            for _ in range(1000):
                guard.start()
                guard.close()
            assert own_threads() <= others
            wait_until(lambda: descriptors() <= before)

    @pytest.mark.parametrize(("scheme", "cycles"), [("http", 1000), ("kafka", 200)])
    @pytest.mark.parametrize("way", WAYS)
    def test_where_all_is_dead(self, way: str, scheme: str, cycles: int) -> None:
        with dead(way) as address:
            guard = Guard(f"{scheme}://{address}")
            before, others = descriptors(), own_threads()
            for n in range(cycles if way == "refused" else cycles // 10):
                guard.start()
                assert is_blocked(guard, session=f"s{n}") is None
                guard.close()
            assert own_threads() <= others
            wait_until(lambda: descriptors() <= before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("scheme", ["http", "kafka"])
@pytest.mark.parametrize("way", WAYS)
def test_a_child_that_is_forked_while_its_guard_connects_has_one_of_its_own(way: str, scheme: str) -> None:
    """Whatever the parent's thread was waiting for, and whatever locks it held; closing it is the child's own affair."""
    with dead(way) as address:
        guard = Guard(f"{scheme}://{address}")
        for _ in range(5):
            guard.start()

            def child() -> bool:
                assert guard.state == "new"
                assert is_blocked(guard, session="s") is None
                own = len(own_threads())
                guard.close()
                return own == 1 and not own_threads()

            assert succeeded(forked(child))
            assert guard.state == "connecting"
            guard.close()


ENDING = """
import atexit, socket, sys, time
atexit.register(lambda: print(time.monotonic() - over))  # the first to be registered is the last to run
url, closes, named = sys.argv[1], sys.argv[2] == "closed", sys.argv[3] == "named"
if named:
    socket.getaddrinfo = lambda *_, **__: time.sleep(60)
import spanfuse
from opentelemetry import trace
guard = spanfuse.Guard(url)
spanfuse.instrument()
with trace.get_tracer("t").start_as_current_span("chat"):
    guard.check(session="s")
guard.wait_ready(0.5)
began = time.monotonic()
if closes:
    guard.close()
over = time.monotonic()
print(over - began)
"""


class TestTheEndOfTheProcess:
    """It takes less than 3 s, as closing does, whatever is dead: of decisions, spans and reports alike."""

    @pytest.mark.parametrize("scheme", ["http", "https", "kafka"])
    @pytest.mark.parametrize("way", WAYS)
    def test_with_dead_servers(self, scheme: str, way: str) -> None:
        with dead(way) as address:
            assert max(found := ends(f"{scheme}://{address}")) < 3, found

    @pytest.mark.parametrize("scheme", ["http", "kafka"])
    def test_with_dead_name_servers(self, scheme: str) -> None:
        assert max(*ends(f"{scheme}://spanfuse.internal:9", named=True)) < 3


def ends(url: str, *, named: bool = False) -> list[float]:
    """Seconds that closing takes, and then the end of the process; and the end of one that does not close its Guard."""
    environment = {**os.environ, "SPANFUSE_REPORT_URL": url, "OTEL_EXPORTER_OTLP_ENDPOINT": url}
    found: list[float] = []
    for how in ("closed", "left open"):
        command = [sys.executable, "-c", ENDING, url, how, "named" if named else "numbered"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
        found += map(float, done.stdout.split())
    assert len(found) == 4
    return found


@pytest.mark.parametrize("scheme", ["http", "kafka"])
@pytest.mark.parametrize("way", WAYS)
def test_no_event_loop_notices_that_its_guard_looks_for_a_source(
    way: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the least of several rounds that counts: on a busy machine any loop is held up at times."""
    monkeypatch.setattr(base, "BACKOFF_S", 0.01)
    monkeypatch.setattr(base, "MAX_BACKOFF_S", 0.01)

    async def longest_wait(guard: Guard) -> float:
        worst = 0.0
        for n in range(100):
            began = time.perf_counter()
            guard.check(session=f"s{n}")
            await asyncio.sleep(0.001)
            worst = max(worst, time.perf_counter() - began)
        return worst

    async def rounds() -> float:
        guard = Guard(f"{scheme}://{address}")
        found = [await longest_wait(guard) for _ in range(6)]
        guard.close()
        return min(found)

    with dead(way) as address:
        assert asyncio.run(rounds()) < 0.05


def test_a_process_that_can_start_no_thread_now_starts_it_with_a_later_check(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with SseServer(block("session:s")) as server:
        guard = Guard(server.url, mode="enforce")
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            assert is_blocked(guard, session="s") is None
        assert is_blocked(guard, session="other") is None
        assert guard.wait_ready(10)
        assert is_blocked(guard, session="s")
        guard.close()


def test_what_is_stale_after_a_function_was_frozen_is_waited_for() -> None:
    """R092: `wait_ready` before the first call of an invocation is enough, be it the first or a later one."""
    clock = FakeClock()
    source = MemorySubscriber(silent=False)
    guard = Guard(source, monotonic=clock.monotonic)
    assert guard.wait_ready(1)
    clock.advance(600)
    assert not guard.wait_ready(0.05)
    threading.Timer(0.05, source.alive).start()
    assert guard.wait_ready(10)


@pytest.mark.parametrize("away", [True, False], ids=["away", "connected"])
def test_a_guard_that_nobody_has_any_more_leaves_no_thread(away: bool) -> None:
    """As of code that makes one for each request, and closes none."""
    with SseServer() as server:
        guard = Guard("http://127.0.0.1:9" if away else server.url)
        guard.check(session="s")
        assert away or guard.wait_ready()
        thread = guard._feed.subscriber._thread  # type: ignore[attr-defined]
        assert thread.is_alive()
        del guard
        gc.collect()
        wait_until(lambda: not thread.is_alive())
