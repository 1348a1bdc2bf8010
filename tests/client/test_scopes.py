"""Blocks of agents and traces hold for every session in them, and end by one probe of the whole agent."""

from __future__ import annotations

import pytest

from spanfuse import Blocked, Guard
from spanfuse.testing import FakeClock, MemorySubscriber, block, closed, is_blocked

TRACE = "a" * 32


def guard(subscriber: MemorySubscriber, clock: FakeClock | None = None) -> Guard:
    clock = clock or FakeClock()
    return Guard(subscriber, mode="enforce", now_ns=clock.now_ns, monotonic=clock.monotonic, probe_lease_s=30)


def test_a_block_of_an_agent_refuses_its_sessions_new_ones_too_and_no_others() -> None:
    asked = guard(MemorySubscriber(block("agent:research", rule="agent.breaker")))
    for session in ("old", "new"):
        with pytest.raises(Blocked, match=r"agent\.breaker"):
            asked.check(session=session, agent="research")
    assert asked.check(session="old", agent="writer").allowed
    assert asked.check(session="old").allowed


def test_a_block_of_a_trace_refuses_whatever_session_and_agent_is_in_it() -> None:
    asked = guard(MemorySubscriber(block(f"trace:{TRACE}", rule="fanout")))
    for session, agent in (("s1", "root"), ("s2", "worker"), (None, "u7")):
        with pytest.raises(Blocked, match="fanout"):
            asked.check(session=session, agent=agent, trace=TRACE)
    assert asked.check(session="s1", agent="root", trace="b" * 32).allowed


def test_when_the_cooldown_of_an_agent_is_over_one_of_its_sessions_probes_for_all() -> None:
    clock = FakeClock()
    subscriber = MemorySubscriber(block("agent:research", expires_at_ns=clock.now_ns() + 10 * 10**9))
    asked = guard(subscriber, clock)
    clock.advance(10)
    passed = [is_blocked(asked, session=f"s{i}", agent="research") is None for i in range(4)]
    assert passed == [True, False, False, False]
    assert asked.counters.probes == 1
    subscriber.publish(closed("agent:research"))
    assert all(is_blocked(asked, session=f"s{i}", agent="research") is None for i in range(4))


def test_a_probe_of_the_agent_is_not_spent_on_a_session_that_is_stopped_itself() -> None:
    clock = FakeClock()
    subscriber = MemorySubscriber(
        block("agent:research", expires_at_ns=clock.now_ns() + 10 * 10**9), block("session:stuck")
    )
    asked = guard(subscriber, clock)
    clock.advance(10)
    assert is_blocked(asked, session="stuck", agent="research") is not None
    assert is_blocked(asked, session="other", agent="research") is None
