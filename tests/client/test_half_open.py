"""A block that has expired lets exactly one call through, and waits for what becomes of it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from spanfuse import Blocked, Guard
from spanfuse.reading.messages import new_input
from spanfuse.testing import FakeClock, MemorySubscriber, block, closed, is_blocked
from spanfuse_schemas import Decision, LoopPrint


class World:
    """A Guard with one open block that expires in 10 s."""

    def __init__(self, *more: Decision, mode: Any = "enforce") -> None:
        self.clock = FakeClock()
        self.expiring = block("session:s", expires_at_ns=self.clock.now_ns() + 10 * 10**9)
        self.subscriber = MemorySubscriber(self.expiring, *more)
        self.guard = Guard(
            self.subscriber, mode=mode, now_ns=self.clock.now_ns, monotonic=self.clock.monotonic, probe_lease_s=30
        )

    def passes(self, **names: Any) -> bool:
        return is_blocked(self.guard, **{"session": "s", **names}) is None


def test_open_until_it_expires_then_one_probe_and_no_more() -> None:
    world = World()
    assert not world.passes()
    world.clock.advance(9.999)
    assert not world.passes()
    world.clock.advance(0.001)
    assert [world.passes() for _ in range(5)] == [True, False, False, False, False]
    assert world.guard.counters.probes == 1


def test_a_block_that_lapses_holds_nobody_back_once_it_has_expired() -> None:
    """A budget whose period is over: no probe is needed to tell that there is a new one."""
    world = World()
    world.subscriber.publish(block("user:u", expires_at_ns=world.clock.now_ns() + 5 * 10**9, lapses=True))
    assert not world.passes(session="other", user="u")
    world.clock.advance(5)
    assert [world.passes(session="other", user="u") for _ in range(5)] == [True] * 5
    assert world.guard.counters.probes == 0


def test_a_probe_that_is_never_heard_of_again_gives_way_to_the_next_after_its_lease() -> None:
    world = World()
    world.clock.advance(10)
    assert world.passes()
    world.clock.advance(29.9)
    assert not world.passes()
    world.clock.advance(0.1)
    assert world.passes()
    assert not world.passes()


def test_a_good_probe_closes_and_a_failed_one_opens_again() -> None:
    world = World()
    world.clock.advance(10)
    assert world.passes()
    again = world.clock.now_ns() + 20 * 10**9
    world.subscriber.publish(block("session:s", expires_at_ns=again))
    assert not world.passes()
    world.clock.advance(20)
    assert world.passes()
    world.subscriber.publish(closed("session:s"))
    assert all(world.passes() for _ in range(5))


def test_a_decision_delivered_twice_does_not_give_a_second_probe() -> None:
    world = World()
    world.clock.advance(10)
    assert world.passes()
    world.subscriber.publish(world.expiring)
    assert not world.passes()
    world.subscriber.catch_up()
    assert not world.passes(), "nor does a snapshot after a reconnect"


def test_a_hundred_threads_get_one_probe() -> None:
    world = World()
    world.clock.advance(10)
    world.guard.start()
    barrier = threading.Barrier(100)
    passed = []

    def ask() -> None:
        barrier.wait()
        if world.passes():
            passed.append(1)

    threads = [threading.Thread(target=ask) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(passed) == 1


def test_checks_inside_one_protected_call_share_its_probe() -> None:
    """A decorator, a client wrapper and a framework hook that all check are still one call."""
    world = World()
    world.clock.advance(10)

    @world.guard.protect
    def model_call() -> list[bool]:
        @world.guard.protect
        def wrapped() -> bool:
            return world.passes()

        return [world.passes(), wrapped(), world.passes()]

    with world.guard.session("s"):
        assert model_call() == [True, True, True]
        assert world.guard.counters.probes == 1
        with pytest.raises(Blocked):
            model_call()


def test_a_new_decision_ends_the_probe_even_inside_its_call() -> None:
    world = World()
    world.clock.advance(10)

    @world.guard.protect(session="s")
    def model_call() -> bool:
        world.subscriber.publish(block("session:s"))
        return world.passes()

    assert model_call() is False


def test_tasks_that_ask_at_once_get_one_probe() -> None:
    world = World()
    world.clock.advance(10)

    @world.guard.protect(session="s")
    async def model_call() -> bool:
        await asyncio.sleep(0)
        world.guard.check()
        return True

    async def main() -> list[Any]:
        return await asyncio.gather(*(model_call() for _ in range(20)), return_exceptions=True)

    found = asyncio.run(main())
    assert [f for f in found if f is True] == [True]
    assert all(isinstance(f, Blocked) for f in found if f is not True)


def test_a_call_refused_by_another_key_does_not_spend_the_probe() -> None:
    world = World(block("team:t"))
    world.clock.advance(10)
    assert not world.passes(team="t")
    assert world.passes(team="free")


def test_two_half_open_keys_need_one_probe_of_each_or_spend_none() -> None:
    clock = FakeClock()
    world = World(block("agent:a", expires_at_ns=clock.now_ns()))
    world.clock.advance(10)
    assert is_blocked(world.guard, session="other", agent="a") is None
    refusal = is_blocked(world.guard, session="s", agent="a")
    assert refusal is not None
    assert refusal.key == "agent:a"
    assert world.passes(agent="b"), "the session's own probe was not spent"


def test_a_call_outside_the_loop_passes_without_spending_the_probe() -> None:
    clock = FakeClock()
    found = new_input(prompt="again")
    assert found is not None
    loop = block("session:loop", expires_at_ns=clock.now_ns(), loop=[LoopPrint(canon=found.canon)])
    guard = Guard(MemorySubscriber(loop), mode="enforce", now_ns=clock.now_ns)
    assert all(is_blocked(guard, session="loop", prompt="other") is None for _ in range(3))
    assert guard.counters.probes == 0
    assert is_blocked(guard, session="loop", prompt="again") is None
    assert is_blocked(guard, session="loop", prompt="again")


def test_the_state_half_open_is_obeyed_whatever_its_expiry() -> None:
    decision = block("session:s").model_copy(update={"state": "half_open"})
    guard = Guard(MemorySubscriber(decision), mode="enforce")
    assert is_blocked(guard, session="s") is None
    assert is_blocked(guard, session="s")


def test_observed_blocks_count_what_would_have_been_refused_beyond_the_probe() -> None:
    world = World(mode="observe")
    world.clock.advance(10)
    assert [world.guard.check(session="s").would_block for _ in range(3)] == [False, True, True]
