"""agent.breaker: K of an agent's sessions were stopped within a window, and they are a large share of those at work."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from spanfuse_schemas import Charge, Rules
from tests.support.agents import SECOND, START_NS, policy
from tests.support.charges import Scope, charge, names


def trip(session: object, *, at: float, **fields: Any) -> Charge:
    """A batch in which one session was stopped."""
    return charge(at=at, members=names(session), tripped=names(session), **fields)


def trips(count: int, *, every_s: float = 1, start: float = 0) -> list[Charge]:
    return [trip(i, at=start + i * every_s) for i in range(count)]


def blocking(**settings: Any) -> Scope:
    return Scope(under=policy(agent_breaker={"mode": "block", **settings}))


def test_four_sessions_are_not_enough_and_the_fifth_is() -> None:
    scope = Scope()
    assert scope.fired(trips(4)) == []
    assert scope.fired(trip(4, at=4)) == ["agent.breaker"]


def test_one_session_that_trips_again_and_again_is_one() -> None:
    assert Scope().fired([trip("same", at=i) for i in range(20)]) == []


@pytest.mark.parametrize(("others", "fires"), [(5, True), (6, False)])
def test_half_of_the_sessions_at_work_are_enough_and_less_is_not(others: int, fires: bool) -> None:
    scope = Scope()
    scope.take(charge(members=names(*(f"good-{i}" for i in range(others)))))
    assert bool(scope.fired(trips(5))) is fires


def test_a_large_fleet_with_few_trips_stays_open() -> None:
    """A thousand sessions at work, five of them stopped."""
    scope = blocking()
    for i in range(0, 1000, 50):
        scope.take(charge(at=i / 100, members=names(*(f"good-{j}" for j in range(i, i + 50)))))
    assert scope.fired(trips(5, start=11)) == []


def test_a_large_fleet_of_which_most_are_stopped_is_seen_though_not_every_name_is_kept() -> None:
    scope = Scope()
    found = [trip(i, at=i / 10) for i in range(1000)]
    assert scope.fired(found) == ["agent.breaker"]
    assert 700 < scope.state.tripped.count < 1300


@pytest.mark.parametrize(("last", "fires"), [(599.9, True), (600, False)])
def test_only_trips_within_the_window_count(last: float, fires: bool) -> None:
    scope = Scope()
    scope.take(trips(4, every_s=0))
    assert bool(scope.fired(trip("last", at=last))) is fires


def test_a_session_that_left_its_loop_counts_no_more() -> None:
    scope = Scope()
    scope.take(trips(4))
    scope.take(charge(at=4, recovered=names(0)))
    assert scope.fired(trip("fifth", at=5)) == []
    assert scope.fired(trip("sixth", at=6)) == ["agent.breaker"]


def test_by_default_it_warns_and_stops_nobody() -> None:
    out = Scope().take(trips(5))
    assert [d.action for d in out.detections] == ["warn"]
    assert out.decisions == []
    assert out.detections[0].scope == "agent:a"
    assert out.detections[0].session == ""


def test_with_block_the_agent_is_stopped_for_the_cooldown() -> None:
    out = blocking().take(trips(5))
    (decision,) = out.decisions
    assert (decision.key, decision.state, decision.action, decision.rule) == (
        "agent:a",
        "open",
        "block",
        "agent.breaker",
    )
    assert decision.expires_at_ns == decision.issued_at_ns + 300 * SECOND
    assert "5 of the 5 sessions" in decision.message


def test_in_shadow_it_is_told_and_not_carried_out() -> None:
    out = Scope(under=policy(agent_breaker={"mode": "shadow"})).take(trips(5))
    assert [(d.mode, d.action) for d in out.detections] == [("shadow", "block")]
    assert out.decisions == []


def test_off_says_nothing() -> None:
    assert Scope(under=policy(agent_breaker={"mode": "off"})).fired(trips(9)) == []


def test_while_it_is_open_more_trips_change_nothing() -> None:
    scope = blocking()
    scope.take(trips(5))
    assert scope.take(trips(5, start=10)).decisions == []


def test_a_call_that_started_before_the_expiry_is_no_probe() -> None:
    scope = blocking()
    scope.take(trips(5))
    early = charge(at=304, started_ns=START_NS + 303 * SECOND)
    assert scope.take(early).decisions == []
    probe = charge(at=304, started_ns=START_NS + 304 * SECOND)
    assert [d.state for d in scope.take(probe).decisions] == ["closed"]


def test_a_probe_that_succeeds_closes_it_and_the_count_begins_anew() -> None:
    scope = blocking()
    scope.take(trips(5))
    (closed,) = scope.take(charge(at=310, members=names("probe"))).decisions
    assert (closed.state, closed.action, closed.epoch) == ("closed", "allow", 2)
    assert scope.take(trips(4, start=320)).decisions == []
    assert [d.state for d in scope.take(trip("fifth", at=330)).decisions] == ["open"]


def test_a_probe_whose_session_is_stopped_doubles_the_cooldown_up_to_its_bound() -> None:
    scope = Scope(under=policy(agent_breaker={"mode": "block"}, breaker={"max_cooldown_s": 500}))
    scope.take(trips(5))
    (again,) = scope.take(trip("probe", at=310)).decisions
    assert again.expires_at_ns == again.issued_at_ns + 500 * SECOND
    (once_more,) = scope.take(trip("probe", at=900)).decisions
    assert once_more.expires_at_ns == once_more.issued_at_ns + 500 * SECOND
    assert (again.epoch, once_more.epoch) == (2, 3)


def test_of_several_probes_all_have_to_succeed_and_the_first_that_is_stopped_opens_it_again() -> None:
    several = policy(agent_breaker={"mode": "block"}, breaker={"probes": 3})
    scope = Scope(under=several)
    (opened,) = scope.take(trips(5)).decisions
    assert opened.probes == 3
    assert scope.take(charge(at=310, calls=3, failures=1)).decisions == []
    assert [d.state for d in scope.take(charge(at=311)).decisions] == ["closed"]
    scope = Scope(under=several)
    scope.take(trips(5))
    scope.take(charge(at=310, calls=2))
    assert [(d.state, d.probes_passed) for d in scope.take(trip("probe", at=311)).decisions] == [("open", 0)]


def test_a_probe_that_nobody_answered_tells_nothing() -> None:
    scope = blocking()
    scope.take(trips(5))
    assert scope.take(charge(at=310, failures=1)).decisions == []
    assert [d.state for d in scope.take(charge(at=311, calls=2, failures=1)).decisions] == ["closed"]


def test_an_override_for_the_agent_counts() -> None:
    rules = policy().model_dump(by_alias=True) | {
        "overrides": [{"agent": "critical-*", "rules": {"agent.breaker": {"sessions": 2}}}]
    }
    under = type(policy()).model_validate(rules)
    for key, expected in (("agent:critical-1", ["agent.breaker"]), ("agent:other", [])):
        scope = Scope(key, under)
        found = [charge(key, at=i, members=names(i), tripped=names(i)) for i in range(2)]
        assert scope.fired(found) == expected


def test_a_reset_closes_it_and_forgets_the_trips_but_not_what_was_spent() -> None:
    scope = blocking()
    scope.take(trips(5))
    closed = scope.stage.reset(scope.state, START_NS, "ops")
    assert (closed.state, closed.epoch, closed.message) == ("closed", 2, "Reset by ops.")
    assert scope.state.calls == 5
    assert scope.take(trips(4, start=20)).decisions == []


@pytest.mark.parametrize("settings", [{"sessions": 1}, {"sessions": 101}, {"share": 0}, {"share": 1.1}])
def test_what_makes_no_sense_is_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Rules.model_validate({"agent.breaker": settings})
