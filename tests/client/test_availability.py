"""What becomes of calls while nothing is known."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse import Guard, session
from spanfuse.testing import FakeClock, MemorySubscriber, block, is_blocked


def unready(on_unavailable: Any, **settings: Any) -> tuple[Guard, MemorySubscriber]:
    subscriber = MemorySubscriber(ready=False)
    return Guard(subscriber, on_unavailable=on_unavailable, **settings), subscriber


def test_by_default_calls_pass_before_the_first_catch_up() -> None:
    guard, _ = unready("open")
    assert is_blocked(guard, session="s") is None
    assert guard.state == "connecting"


def test_closed_refuses_until_the_first_catch_up_and_says_why() -> None:
    guard, subscriber = unready("closed")
    refusal = is_blocked(guard, session="s")
    assert refusal is not None
    assert (refusal.rule, refusal.code, refusal.key) == ("unavailable", "spanfuse_blocked", "global:*")
    assert "control unavailable, no decisions have arrived yet" in str(refusal)
    assert "on_unavailable=closed" in str(refusal)
    subscriber.catch_up()
    assert is_blocked(guard, session="s") is None
    assert guard.counters.by_rule == {"unavailable": 1}


def test_it_is_chosen_by_scope_or_by_key() -> None:
    guard, _ = unready({"team:x": "closed", "user": "closed", "user:vip": "open"})
    assert is_blocked(guard, team="x")
    assert is_blocked(guard, team="y") is None
    assert is_blocked(guard, user="u")
    assert is_blocked(guard, user="vip") is None
    assert is_blocked(guard, session="s") is None
    with session("s", team="x"):
        refusal = is_blocked(guard)
    assert refusal is not None
    assert refusal.key == "team:x"


def test_observe_never_refuses_even_when_closed() -> None:
    guard, _ = unready("closed", mode="observe")
    assert guard.check(session="s").would_block
    assert guard.counters.would_block == 1


@pytest.mark.parametrize("wrong", ["shut", {"team": "shut"}, {"teams": "closed"}])
def test_a_mistyped_setting_is_an_error_at_once(wrong: Any) -> None:
    with pytest.raises(ValueError, match="on_unavailable"):
        Guard(MemorySubscriber(), on_unavailable=wrong)


class TestStale:
    def setup_method(self) -> None:
        self.clock = FakeClock()

    def guard(self, **settings: Any) -> tuple[Guard, MemorySubscriber]:
        expires = self.clock.now_ns() + 100 * 10**9
        known = [block("session:s", expires_at_ns=expires), block("session:held")]
        subscriber = MemorySubscriber(*known, silent=False)
        clocks: dict[str, Any] = {"now_ns": self.clock.now_ns, "monotonic": self.clock.monotonic}
        guard = Guard(subscriber, mode="enforce", staleness_s=30, **clocks, **settings)
        guard.start()
        return guard, subscriber

    def test_silence_makes_it_stale_and_a_sign_of_life_ends_that(self) -> None:
        guard, subscriber = self.guard()
        self.clock.advance(30)
        assert (guard.state, guard.age_s) == ("ready", 30)
        self.clock.advance(1)
        assert (guard.state, guard.age_s) == ("stale", 31)
        subscriber.alive()
        assert (guard.state, guard.age_s) == ("ready", 0)

    def test_known_blocks_are_honoured_until_they_expire_then_open_lets_calls_pass(self) -> None:
        guard, _ = self.guard()
        self.clock.advance(99)
        assert guard.state == "stale"
        assert is_blocked(guard, session="s")
        assert is_blocked(guard, session="other") is None
        self.clock.advance(1)
        assert [is_blocked(guard, session="s") for _ in range(3)] == [None] * 3
        assert is_blocked(guard, session="held"), "a block without an end ends with a reset only"

    def test_closed_refuses_unknown_calls_when_stale(self) -> None:
        guard, subscriber = self.guard(on_unavailable={"session": "closed"})
        assert is_blocked(guard, session="other") is None
        self.clock.advance(31)
        refusal = is_blocked(guard, session="other")
        assert refusal is not None
        assert "no sign of life for 31 s" in str(refusal)
        assert (refusal.evidence.value, refusal.evidence.threshold, refusal.evidence.unit) == (31, 30, "s")
        assert is_blocked(guard, team="t") is None
        subscriber.alive()
        assert is_blocked(guard, session="other") is None

    def test_a_memory_subscriber_has_no_source_to_lose(self) -> None:
        guard = Guard(MemorySubscriber(), monotonic=self.clock.monotonic)
        guard.start()
        self.clock.advance(10_000)
        assert guard.state == "ready"
