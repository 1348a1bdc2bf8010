"""The doubles that users test with behave like what they stand for."""

from __future__ import annotations

import pytest

from spanfuse import Blocked, Guard, testing
from spanfuse.testing import FakeGuard, block, closed, nudge
from spanfuse_schemas import Decision


def test_a_fake_guard_is_a_guard_and_remembers_its_checks() -> None:
    guard = FakeGuard(block("session:run-1"))
    assert isinstance(guard, Guard)
    guard.check(session="other", prompt="hello")
    with guard.session("run-1", agent="a"), pytest.raises(Blocked):
        guard.check()
    first, second = guard.checks
    assert (first.session, first.prompt) == ("other", "hello")
    assert first.verdict is not None
    assert (second.session, second.agent, second.verdict) == ("run-1", "a", None)
    assert guard.refused() == 1


def test_decisions_arrive_when_they_are_published() -> None:
    guard = FakeGuard()
    assert guard.check(session="s").decision is None
    guard.publish(nudge("session:s", "Stop."))
    assert guard.check(session="s").nudge == "Stop."
    guard.publish(block("session:s"))
    with pytest.raises(Blocked):
        guard.check(session="s")
    guard.publish(closed("session:s"))
    assert guard.check(session="s").decision is None


def test_what_the_builders_make_survives_the_wire() -> None:
    for made in (block("session:s", for_s=5), nudge("agent:a"), closed("team:t")):
        assert Decision.from_json(made.to_json()) == made


def test_all_that_is_public_is_there() -> None:
    assert all(hasattr(testing, name) for name in testing.__all__)
