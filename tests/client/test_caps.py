"""Caps that code gives its own session (`budget_usd`, `max_steps`, `deadline_s`): exact, with calls in flight."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanfuse import Blocked, Guard
from spanfuse.calls.caps import MAX_SESSIONS, Caps, Spent
from spanfuse.testing import FakeClock, MemorySubscriber


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def guard(clock: FakeClock) -> Guard:
    """With calls of 30 cents each."""
    return Guard(
        MemorySubscriber(), price=lambda model, sent, brought: 0.3, now_ns=clock.now_ns, monotonic=clock.monotonic
    )


def make(guard: Guard, **more: object) -> None:
    with guard.call(prompt="Hello", **more):  # type: ignore[arg-type]
        pass


def test_so_many_calls_and_no_more(guard: Guard) -> None:
    with guard.session("run", max_steps=3):
        for _ in range(3):
            make(guard)
        with pytest.raises(Blocked) as caught:
            make(guard)
    refusal = caught.value
    assert (refusal.key, refusal.rule, refusal.evidence.value) == ("session:run", "limits.max_steps", 3)
    assert guard.spent("run").steps == 3
    assert guard.counters.by_rule == {"limits.max_steps": 1}


def test_a_cap_is_exact_with_threads(guard: Guard) -> None:
    passed: list[int] = []

    def work() -> None:
        for _ in range(50):
            with suppress(Blocked):
                make(guard, session="run")
                passed.append(1)

    with guard.session("run", max_steps=30):
        workers = [threading.Thread(target=work) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert len(passed) == 30


def test_money_in_flight_counts_by_its_estimate_and_comes_back(guard: Guard) -> None:
    with guard.session("run", budget_usd=0.5):
        in_flight = [guard.call(prompt="Hello") for _ in range(2)]
        for call in in_flight:
            call.begin()
        with pytest.raises(Blocked, match=r"\$0\.6000 of its budget of \$0\.5000"):
            make(guard)
        for call in in_flight:
            call.end(ConnectionError("not made"))
        make(guard)
    assert guard.spent("run").cost_usd == pytest.approx(0.3)


def test_after_the_deadline_no_call_is_let_through(guard: Guard, clock: FakeClock) -> None:
    with guard.session("run", deadline_s=60):
        make(guard)
        clock.advance(59)
        make(guard)
        clock.advance(1)
        with pytest.raises(Blocked) as caught:
            make(guard)
    assert caught.value.rule == "limits.max_duration_s"


def test_a_session_that_is_named_again_goes_on_counting_under_its_new_caps(guard: Guard) -> None:
    with guard.session("run", max_steps=1):
        make(guard)
    with guard.session("run", max_steps=2):
        make(guard)
        with pytest.raises(Blocked):
            make(guard)


def test_sessions_without_caps_are_counted_and_not_refused(guard: Guard) -> None:
    for _ in range(5):
        make(guard, session="free")
    assert guard.spent("free") == Spent(steps=5)


def test_awaited_it_is_the_same(guard: Guard) -> None:
    async def run() -> None:
        with guard.session("run", max_steps=2):
            async with guard.call(prompt="1"), guard.tool("search"):
                pass
            async with guard.call(prompt="2"):
                pass
            with pytest.raises(Blocked):
                async with guard.call(prompt="3"):
                    pass

    asyncio.run(run())


def test_a_call_within_a_call_is_the_same_call(guard: Guard) -> None:
    with guard.session("run", max_steps=1), guard.call(prompt="outer"), guard.call(prompt="inner") as inner:
        inner.settle(cost_usd=1)
    assert guard.spent("run").steps == 1


def test_in_mode_observe_a_cap_only_says_so() -> None:
    guard = Guard(MemorySubscriber(), mode="observe")
    with guard.session("run", max_steps=1):
        make(guard)
        with guard.call(prompt="Hello") as call:
            assert call.verdict.would_block
    assert guard.spent("run").steps == 2
    assert guard.counters.would_block == 1


@pytest.mark.parametrize(
    "caps", [{"budget_usd": -1}, {"budget_usd": "5"}, {"max_steps": float("nan")}, {"deadline_s": float("inf")}]
)
def test_a_cap_that_is_no_number_is_an_error(guard: Guard, caps: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="a cap is a number from 0 on"):
        guard.session("run", **caps)  # type: ignore[arg-type]


def test_a_cap_of_nobody_is_an_error(guard: Guard) -> None:
    with pytest.raises(ValueError, match="no session is named"):
        guard.session(max_steps=1)


def test_a_million_sessions_take_bounded_memory() -> None:
    caps = Caps(lambda: 0, lambda: 0.0)
    for n in range(MAX_SESSIONS + 1000):
        caps.admit(f"s{n}", 0)
    assert len(caps) == MAX_SESSIONS
    assert caps.evicted == 1000


@given(st.lists(st.sampled_from(["admit", "settle", "withdraw"]), max_size=60), st.integers(1, 10), st.integers(1, 20))
def test_no_order_of_events_lets_more_through_than_the_caps(events: list[str], steps: int, budget: int) -> None:
    caps, open_calls, spent = Caps(lambda: 0, lambda: 0.0), 0, 0
    caps.set("s", budget / 10**9, steps, None)
    for event in events:
        if event == "admit":
            before = spent + 3 * open_calls
            refusal = caps.admit("s", 3)
            assert (refusal is None) == (caps.spent("s").steps <= steps and before < budget and refusal is None)
            open_calls += refusal is None
        elif open_calls and event == "settle":
            caps.settle("s", 3, 2, 10)
            open_calls, spent = open_calls - 1, spent + 2
        elif open_calls:
            caps.withdraw("s", 3)
            open_calls -= 1
        assert caps.spent("s").steps <= steps
        assert spent <= budget + 2
