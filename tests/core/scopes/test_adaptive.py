"""adaptive: what sessions of an agent usually come to, and which are far beyond it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from pydantic import ValidationError

from spanfuse_processor.core.scopes.adaptive import baseline
from spanfuse_processor.core.scopes.buckets import CALLS, COST, bucket, percentile
from spanfuse_processor.core.scopes.leaderboard import usual
from spanfuse_schemas import Grown, Rules
from spanfuse_schemas.scope_rules import Adaptive
from tests.support.agents import policy, prompt
from tests.support.charges import Scope, charge
from tests.support.fleet import Fleet


def seen(scope: Scope, sessions: int, calls: int, cost: int = 0) -> None:
    """So many sessions that have come to so much."""
    scope.take(charge(lengths={bucket(calls, CALLS): sessions}, spends={bucket(cost, COST): sessions}))


def grown(calls: int, cost: int = 0, session: str = "long") -> dict[str, Any]:
    return {"grown": (Grown(session=session, calls=calls, cost_nano_usd=cost),)}


def warning(**settings: Any) -> Scope:
    return Scope(under=policy(adaptive={"mode": "warn", "floor_calls": 1, **settings}))


@pytest.mark.parametrize(("calls", "fires"), [(15, False), (16, True)])
def test_a_session_is_told_at_twice_the_95th_percentile(calls: int, fires: bool) -> None:
    scope = warning()
    seen(scope, 30, 8)
    assert bool(scope.fired(charge(**grown(calls)))) is fires


@pytest.mark.parametrize(("sessions", "fires"), [(29, False), (30, True)])
def test_nothing_is_said_before_thirty_sessions(sessions: int, fires: bool) -> None:
    scope = warning()
    seen(scope, sessions, 8)
    assert bool(scope.fired(charge(**grown(500)))) is fires


@pytest.mark.parametrize(("calls", "fires"), [(19, False), (20, True)])
def test_short_sessions_are_let_be_however_short_the_others_are(calls: int, fires: bool) -> None:
    scope = Scope(under=policy(adaptive={"mode": "warn"}))
    seen(scope, 30, 1)
    assert bool(scope.fired(charge(**grown(calls)))) is fires


@pytest.mark.parametrize(("cost", "fires"), [(99_999_999, False), (100_000_000, True)])
def test_a_dear_session_is_told_as_well_from_the_floor_on(cost: int, fires: bool) -> None:
    scope = warning()
    seen(scope, 30, 8)
    assert bool(scope.fired(charge(**grown(8, cost)))) is fires


def test_a_session_is_told_of_once() -> None:
    scope = warning()
    seen(scope, 30, 8)
    assert scope.fired([charge(**grown(calls)) for calls in (16, 19, 25)]) == ["adaptive"]


def test_the_session_is_named() -> None:
    scope = warning()
    seen(scope, 30, 8)
    (detection,) = scope.take(charge(**grown(16))).detections
    assert (detection.session, detection.scope, detection.call, detection.action) == ("long", "agent:a", 15, "warn")
    assert (detection.evidence.threshold, detection.evidence.value) == (16, 16)


def test_one_runaway_among_many_does_not_move_the_percentile() -> None:
    scope = warning()
    seen(scope, 99, 8)
    seen(scope, 1, 5_000)
    assert baseline(scope.state).calls_p95 == 8


@pytest.mark.parametrize("mode", ["nudge", "block"])
def test_it_recommends_and_never_blocks(mode: str) -> None:
    with pytest.raises(ValidationError, match=r"limits\.max_steps"):
        Rules.model_validate({"adaptive": {"mode": mode}})


def test_off_by_default_and_the_recommendation_is_kept_all_the_same() -> None:
    fleet = Fleet(policy())
    fleet.run(prompt(f"step {i}", session=f"s{i % 40}", agent="a", at=i, cost=10_000_000) for i in range(240))
    assert not any(c.grown for c in fleet.charges)
    found = usual(fleet.scopes["agent:a"], Adaptive())
    assert (found["sessions"], found["calls_p50"], found["calls_p95"], found["recommended_max_steps"]) == (40, 6, 6, 12)
    assert found["recommended_budget_usd"] == pytest.approx(0.12, rel=0.2)


def test_too_few_sessions_recommend_nothing() -> None:
    fleet = Fleet(policy())
    fleet.run(prompt(f"step {i}", session=f"s{i % 29}", agent="a", at=i) for i in range(240))
    assert usual(fleet.scopes["agent:a"], Adaptive())["recommended_max_steps"] is None


def test_on_the_whole_road_the_long_session_is_told_of() -> None:
    fleet = Fleet(policy(adaptive={"mode": "warn"}))
    fleet.run(prompt(f"step {i}", session=f"s{i % 60}", agent="a", at=i) for i in range(600))
    fleet.run(prompt(f"more {i}", session="s7", agent="a", at=600 + i) for i in range(30))
    (found,) = (d for d in fleet.detections if d.rule == "adaptive")
    assert found.session == "s7"
    assert 19 <= found.call < 26


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_how_calls_are_packed_does_not_matter_to_the_baseline(size: int) -> None:
    """Sessions of 1, 4, 9, … calls of two agents, which hand sessions on: a session is one of the agent that began it."""
    calls = [
        prompt(f"{s} {i}", session=f"s{s}", agent="ab"[(s + i) % 2], at=i + s / 100, cost=s * 1_000_000)
        for i in range(81)
        for s in range(10)
        if i < s * s
    ]
    fleet = Fleet(policy())
    fleet.run(calls, size)
    found = {key: (state.lengths, state.spends) for key, state in fleet.scopes.items() if key.startswith("agent:")}
    lengths = [bucket(s * s, CALLS) for s in range(1, 10)]
    spends = [bucket(s * s * s * 1_000_000, COST) for s in range(1, 10)]
    for at, agent in enumerate("ab"):
        mine = [s for s in range(1, 10) if s % 2 == at]
        assert found[f"agent:{agent}"][0] == {
            b: [lengths[s - 1] for s in mine].count(b) for b in {lengths[s - 1] for s in mine}
        }
        assert found[f"agent:{agent}"][1] == {
            b: [spends[s - 1] for s in mine].count(b) for b in {spends[s - 1] for s in mine}
        }


def test_a_percentile_is_the_first_bound_up_to_which_enough_lie() -> None:
    assert percentile({}, 0.95, CALLS) == 0
    assert percentile({0: 95, 4: 5}, 0.95, CALLS) == 1
    assert percentile({0: 94, 4: 6}, 0.95, CALLS) == 5


def test_buckets_are_exact_for_short_sessions_and_15_percent_wide_for_long_ones() -> None:
    assert CALLS[:8] == (1, 2, 3, 4, 5, 6, 7, 8)
    assert all(after / before < 1.17 for before, after in pairwise(CALLS[10:]))
    assert len(CALLS) < 110
    assert len(COST) < 160
