"""retries: provider failures of many sessions together."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from spanfuse_schemas import Rules
from tests.support.agents import policy, prompt
from tests.support.charges import Scope, charge
from tests.support.fleet import Fleet

REFUSED = {"error_type": "429", "error_class": "provider"}


def test_forty_nine_failures_pass_and_the_fiftieth_is_told() -> None:
    scope = Scope("team:shop")
    assert scope.fired([charge("team:shop", at=i / 2, failures=1) for i in range(49)]) == []
    assert scope.fired(charge("team:shop", at=25, failures=1)) == ["retries"]


@pytest.mark.parametrize(("calls", "fires"), [(250, True), (251, False)])
def test_a_fifth_of_the_calls_has_to_fail(calls: int, fires: bool) -> None:
    assert bool(Scope("team:shop").fired(charge("team:shop", calls=calls, failures=50))) is fires


@pytest.mark.parametrize(("last", "fires"), [(59, True), (60, False)])
def test_only_failures_within_the_window_count(last: float, fires: bool) -> None:
    scope = Scope("global:*")
    scope.take(charge("global:*", calls=49, failures=49))
    assert bool(scope.fired(charge("global:*", at=last, failures=1))) is fires


def test_what_is_kept_for_the_window_is_bounded() -> None:
    scope = Scope("global:*", policy(retries={"window_s": 600}))
    scope.take([charge("global:*", at=i * 5, failures=i % 2) for i in range(1000)])
    assert len(scope.state.failed) <= 61


def test_r044_a_team_at_the_limit_of_its_provider_is_told_to_pace_itself_and_nobody_is_stopped() -> None:
    """Fifteen sessions with ten failures each within a minute."""
    fleet = Fleet(policy(errors={"mode": "off"}))
    fleet.run(
        prompt("go on", session=f"s{i % 15}", agent="crawler", team="shop", at=i * 0.4, **REFUSED) for i in range(150)
    )
    assert {(d.rule, d.scope, d.action) for d in fleet.detections} == {
        ("retries", scope, "warn") for scope in ("team:shop", "agent:crawler", "global:*")
    }
    assert "Pace them" in fleet.detections[0].message
    assert fleet.decisions == []
    assert all(state.decision is None for state in fleet.sessions.values())


def test_an_outage_that_trips_the_sessions_is_not_the_agents_doing() -> None:
    fleet = Fleet(policy(agent_breaker={"mode": "block"}))
    fleet.run(prompt("go on", session=f"s{i % 15}", agent="crawler", at=i * 0.4, **REFUSED) for i in range(150))
    assert all(state.decision is not None for state in fleet.sessions.values())
    assert fleet.decisions == []


@pytest.mark.parametrize("mode", ["nudge", "block"])
def test_it_cannot_stop_anyone(mode: str) -> None:
    with pytest.raises(ValidationError, match="blames no session"):
        Rules.model_validate({"retries": {"mode": mode}})
