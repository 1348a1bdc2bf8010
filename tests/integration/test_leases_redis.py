"""R113, R114: however many threads of many processes ask at once, a half-open breaker lets its probes through and no more."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from spanfuse import Blocked, Guard
from spanfuse.ledger import RedisLedger
from spanfuse.testing import MemorySubscriber, block, is_blocked
from spanfuse_schemas import Decision
from tests.client.waiting import wait_until
from tests.services.redis_server import RedisService
from tests.support.budgets import defined, strict

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

PROCESSES, THREADS = 4, 100


@pytest.fixture
def address(redis_service: RedisService) -> str:
    """Leases of a test of its own, of a fleet that has time on a busy machine."""
    return f"{redis_service.url}?tenant=leases-{time.time_ns()}&timeout_ms=30000"


def expired(key: str, probes: int = 1) -> Decision:
    return block(key, expires_at_ns=0, epoch=7).model_copy(update={"probes": probes})


def guard_of(address: str, *decisions: Decision, lease_s: float = 600) -> Guard:
    guard = Guard(MemorySubscriber(*decisions), mode="enforce", leases=address, probe_lease_s=lease_s)
    guard.start()
    return guard


def forked(child: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            child()
            os._exit(0)
        finally:
            os._exit(1)
    return pid


def stampede(guard: Guard, ready: int, go: int, out: int) -> None:
    """All threads of a process ask at the same moment, three times each."""
    start = threading.Barrier(THREADS)

    def ask() -> None:
        start.wait()
        for _ in range(3):
            if is_blocked(guard, session="s") is None:
                os.write(out, b"!")

    threads = [threading.Thread(target=ask) for _ in range(THREADS - 1)]
    for thread in threads:
        thread.start()
    os.write(ready, b".")
    os.read(go, 1)
    ask()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("probes", [1, 3])
def test_a_hundred_threads_in_each_of_four_processes_get_exactly_as_many_probes(
    address: str, tmp_path: Path, probes: int
) -> None:
    guard = guard_of(address, expired("session:s", probes))
    log = tmp_path / "log"
    out = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    (told, ready), (go, start) = os.pipe(), os.pipe()
    pids = [forked(partial(stampede, guard, ready, go, out)) for _ in range(PROCESSES)]
    for _ in pids:
        os.read(told, 1)
    os.write(start, b"!" * PROCESSES)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    for end in (told, ready, go, start, out):
        os.close(end)
    assert codes == [0] * PROCESSES
    assert log.read_text() == "!" * probes


def test_the_lease_of_a_killed_probe_ends_and_a_new_probe_passes(address: str) -> None:
    """R114: the process is killed while its probe is under way; nothing is stuck, and nothing passes early."""
    told, tell = os.pipe()
    guard, lease_s = guard_of(address, expired("session:s"), lease_s=3), 3

    def probe() -> None:
        if is_blocked(guard, session="s") is None:
            os.write(tell, b"!")
            signal.pause()

    pid = forked(probe)
    os.read(told, 1)
    began = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert is_blocked(guard, session="s")
    wait_until(lambda: is_blocked(guard, session="s") is None, what="the lease has ended")
    assert lease_s - 0.5 < time.monotonic() - began < lease_s + 3
    assert is_blocked(guard, session="s"), "one again"
    for end in (told, tell):
        os.close(end)


def test_a_probe_that_a_budget_refuses_is_given_back_to_the_fleet(address: str, redis_service: RedisService) -> None:
    """By default the leases are beside the books of the ledger."""
    ledger = RedisLedger(redis_service.url, f"leases-{time.time_ns()}", timeout_s=30)
    defined(ledger, strict(limit_usd=0.01))
    poor, other = (Guard(MemorySubscriber(expired("agent:a")), mode="enforce", ledger=ledger) for _ in range(2))
    with pytest.raises(Blocked) as refused, poor.call(agent="a", user="u", cost_usd=5):
        raise AssertionError("it is not made")
    assert refused.value.rule.startswith("budget")
    wait_until(lambda: is_blocked(other, agent="a") is None, what="the probe is given back")
    assert is_blocked(poor, agent="a")


def test_leases_leave_nothing_behind(redis_service: RedisService, address: str) -> None:
    """A key for each breaker and epoch, which ends with its last lease."""
    redis = pytest.importorskip("redis").Redis.from_url(redis_service.url)
    guard = guard_of(address, expired("session:s"), expired("agent:a"), lease_s=2)
    assert is_blocked(guard, session="s", agent="a") is None
    tenant = address.partition("tenant=")[2].partition("&")[0]
    found = sorted(key.decode() for key in redis.scan_iter(f"spanfuse:{{{tenant}}}:*"))
    assert found == [f"spanfuse:{{{tenant}}}:lease:7:agent:a", f"spanfuse:{{{tenant}}}:lease:7:session:s"]
    wait_until(lambda: not list(redis.scan_iter(f"spanfuse:{{{tenant}}}:*")))


def test_a_closed_guard_leaves_no_connection_behind(redis_service: RedisService, address: str) -> None:
    redis = pytest.importorskip("redis").Redis.from_url(redis_service.url)

    def connections() -> int:
        return len(redis.client_list())

    before = connections()
    for n in range(20):
        with guard_of(address, expired(f"session:{n}")) as guard:
            assert is_blocked(guard, session=str(n)) is None
    wait_until(lambda: connections() <= before)
    assert is_blocked(guard, session="19"), "what was known holds"


def test_redis_may_go_away_and_come_back(redis_service: RedisService) -> None:
    """Without it each process lets one probe through; with it the fleet does again."""
    address = f"{redis_service.url}?tenant=leases-{time.time_ns()}&timeout_ms=500"
    decision = expired("session:s", probes=2)
    first, second = (guard_of(address, decision) for _ in range(2))
    redis_service.kill()
    try:
        assert [is_blocked(first, session="s") is None for _ in range(3)] == [True, False, False]
        assert is_blocked(second, session="s") is None
    finally:
        redis_service.start()
    third = guard_of(address, decision)
    wait_until(lambda: is_blocked(third, session="s") is None)
    assert is_blocked(third, session="s") is None
    assert is_blocked(third, session="s")
    assert [g.counters.errors for g in (first, second, third)] == [0, 0, 0]
