"""The probes of a half-open breaker are shared by the fleet, which is asked only then, and never waited for long."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from spanfuse import Blocked, Guard
from spanfuse.decisions.leases import Breaker, Denied
from spanfuse.decisions.probes import ASK_AGAIN_S, AWAY_S
from spanfuse.testing import FakeClock, MemorySubscriber, block, is_blocked
from spanfuse_schemas import Decision
from tests.client.waiting import wait_until


class Fleet:
    """Leases that are kept here; they end by hand."""

    def __init__(self) -> None:
        self.held: dict[Breaker, set[str]] = {}
        self.asked = 0
        self.away = False

    def take(self, lease: str, breakers: Sequence[Breaker], lease_s: float) -> Denied | None:
        self.asked += 1
        if self.away:
            raise ConnectionError("nobody answers")
        for nth, breaker in enumerate(breakers):
            if len(self.held.get(breaker, ())) >= breaker.probes:
                return Denied(nth, lease_s)
        for breaker in breakers:
            self.held.setdefault(breaker, set()).add(lease)
        return None

    def give_back(self, lease: str, breakers: Sequence[Breaker]) -> None:
        for breaker in breakers:
            self.held[breaker].discard(lease)

    def close(self) -> None:
        self.closed = True


def expired(key: str, probes: int = 1, **settings: Any) -> Decision:
    return block(key, expires_at_ns=0, **settings).model_copy(update={"probes": probes})


class World:
    """Processes of one fleet that know the same decisions."""

    def __init__(self, *decisions: Decision, processes: int = 2) -> None:
        self.clock, self.fleet = FakeClock(), Fleet()
        self.guards = [self.guard(decisions) for _ in range(processes)]

    def guard(self, decisions: Sequence[Decision], **settings: Any) -> Guard:
        return Guard(
            MemorySubscriber(*decisions),
            leases=self.fleet,
            now_ns=self.clock.now_ns,
            monotonic=self.clock.monotonic,
            **{"mode": "enforce", **settings},
        )

    def passes(self, nth: int = 0, **names: Any) -> bool:
        return is_blocked(self.guards[nth], **{"session": "s", **names}) is None


def test_one_process_of_the_fleet_gets_the_probe() -> None:
    world = World(expired("session:s"))
    assert [world.passes(n) for n in (0, 1, 0, 1)] == [True, False, False, False]


def test_as_many_probes_as_the_decision_says_whoever_asks() -> None:
    world = World(expired("session:s", probes=3), processes=3)
    assert [world.passes(n) for n in (0, 0, 1, 2, 1, 0)] == [True, True, True, False, False, False]


def test_without_leases_each_process_has_as_many_probes() -> None:
    guard = Guard(MemorySubscriber(expired("session:s", probes=3)), mode="enforce")
    assert [is_blocked(guard, session="s") is None for _ in range(5)] == [True] * 3 + [False] * 2


def test_the_fleet_is_asked_only_where_an_enforced_breaker_is_half_open() -> None:
    world = World(block("session:open"), expired("session:seen", mode="observe"), expired("user:u", lapses=True))
    observing = world.guard([expired("session:s")], mode=None)
    assert world.passes(session="free")
    assert not world.passes(session="open")
    assert world.guard([expired("session:s")], mode="observe").check(session="s")
    assert observing.check(session="s", user="u")
    assert world.fleet.asked == 1, "by the one whose decision is enforced"


def test_a_process_that_was_denied_asks_again_once_a_second() -> None:
    world = World(expired("session:s"))
    assert world.passes(0)
    assert not any(world.passes(1) for _ in range(100))
    assert world.fleet.asked == 2
    world.clock.advance(ASK_AGAIN_S)
    assert not any(world.passes(1) for _ in range(100))
    assert world.fleet.asked == 3


def test_a_lease_is_of_one_epoch() -> None:
    world = World(expired("session:s", epoch=1))
    assert world.passes()
    again = world.guard([expired("session:s", epoch=2)])
    assert is_blocked(again, session="s") is None


def test_a_lease_ends_where_its_probe_is_never_heard_of_again() -> None:
    """R114: in the fleet by itself, in the process that had it by its own clock."""
    world = World(expired("session:s"))
    assert world.passes()
    world.clock.advance(30)
    world.fleet.held.clear()
    assert world.passes()


def test_two_breakers_are_probed_together_or_not_at_all() -> None:
    world = World(expired("session:s", epoch=1), expired("agent:a", epoch=1))
    assert world.passes(0, session="other", agent="a")
    assert not world.passes(1, agent="a")
    assert world.passes(1, agent="b"), "the session's probe was not spent"


def test_a_call_that_is_refused_before_it_is_made_gives_its_probe_back() -> None:
    """R113: a cap of its session refuses it after the breaker let it through."""
    world = World(expired("agent:a"))
    first, second = world.guards
    with first.session("s", max_steps=1) as _, first.call(session="s"):
        pass
    with first.session("s", max_steps=1), pytest.raises(Blocked) as refused, first.call(session="s", agent="a"):
        raise AssertionError("it is not made")
    assert refused.value.rule == "limits.max_steps"
    wait_until(lambda: not any(world.fleet.held.values()))
    assert is_blocked(second, agent="a") is None


class TestAway:
    """While nobody answers, each process lets one probe through, however many there may be."""

    def setup_method(self) -> None:
        self.world = World(expired("session:s", probes=3))
        self.world.fleet.away = True

    def test_each_process_lets_one_through(self, caplog: pytest.LogCaptureFixture) -> None:
        assert [self.world.passes(n) for n in (0, 1, 0, 1)] == [True, True, False, False]
        assert self.world.guards[0].counters.errors == 0
        assert len(caplog.records) == 2, "one line a process"

    def test_it_is_not_asked_again_for_a_while(self) -> None:
        for _ in range(100):
            self.world.passes()
        assert self.world.fleet.asked == 1
        self.world.clock.advance(AWAY_S)
        self.world.fleet.away = False
        assert self.world.passes(), "it is back, and knows nothing of the probe before"


def test_a_server_that_never_answers_costs_its_timeout_once() -> None:
    pytest.importorskip("redis")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"redis://127.0.0.1:{silent.getsockname()[1]}?timeout_ms=50"
        guard = Guard(MemorySubscriber(expired("session:s")), mode="enforce", leases=address)
        began = time.monotonic()
        assert [is_blocked(guard, session="s") is None for _ in range(1000)].count(True) == 1
        assert time.monotonic() - began < 1


def test_an_event_loop_does_not_wait_for_the_fleet() -> None:
    asked, answer = threading.Event(), threading.Event()

    class Slow(Fleet):
        def take(self, lease: str, breakers: Sequence[Breaker], lease_s: float) -> Denied | None:
            asked.set()
            answer.wait(20)
            return super().take(lease, breakers, lease_s)

    guard = Guard(MemorySubscriber(expired("session:s")), mode="enforce", leases=Slow())

    async def make() -> bool:
        async with guard.call(session="s") as call:
            return bool((await guard.acheck(session="s")) and call.verdict)

    async def main() -> list[Any]:
        calls = asyncio.gather(make(), make(), return_exceptions=True)
        while not asked.is_set():  # noqa: ASYNC110  It shows that the loop turns.
            await asyncio.sleep(0)
        assert await guard.acheck(session="free"), "whom nothing holds back is not kept waiting"
        answer.set()
        return list(await calls)

    found = asyncio.run(main())
    assert sorted(map(str, found))[0] == "True"
    assert sum(isinstance(one, Blocked) for one in found) == 1
    assert guard.counters.probes == 1


def test_nor_does_a_coroutine_that_is_decorated() -> None:
    threads = set()

    class Watched(Fleet):
        def take(self, lease: str, breakers: Sequence[Breaker], lease_s: float) -> Denied | None:
            threads.add(threading.current_thread())
            return super().take(lease, breakers, lease_s)

    guard = Guard(MemorySubscriber(expired("session:s"), expired("session:t")), mode="enforce", leases=Watched())

    @guard.protect(session="s")
    async def once() -> bool:
        return bool(guard.check())

    @guard.protect(session="t")
    async def several() -> Any:
        yield bool(guard.check())

    async def main() -> list[bool]:
        return [await once(), *[one async for one in several()]]

    assert asyncio.run(main()) == [True, True]
    assert threading.main_thread() not in threads
    assert guard.counters.probes == 2


@pytest.mark.parametrize("where", ["http://127.0.0.1", "sqlite:///books"])
def test_an_address_without_leases_is_an_error_at_once(where: str) -> None:
    with pytest.raises(ValueError, match="redis://"):
        Guard(MemorySubscriber(), leases=where)


def test_the_address_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("redis")
    monkeypatch.setenv("SPANFUSE_LEASES", "redis://127.0.0.1:1?timeout_ms=20")
    assert Guard(MemorySubscriber())._judge.probes.shared
    monkeypatch.delenv("SPANFUSE_LEASES")
    assert not Guard(MemorySubscriber(), ledger="sqlite:///:memory:")._judge.probes.shared
    assert Guard(MemorySubscriber(), ledger="redis://127.0.0.1:1")._judge.probes.shared, "beside the books"
