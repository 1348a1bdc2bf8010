"""coverage: calls that Guards let through, against those whose spans have come."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from spanfuse_processor.core.scopes.coverage import MAX_KEYS, MAX_SOURCES, STEP_NS, row
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_schemas import Charge, Detection, Policy
from spanfuse_schemas.guard_report import Refused
from tests.support.agents import SECOND, START_NS
from tests.support.charges import Scope, charge, told


def rules(**settings: Any) -> Policy:
    return Policy.model_validate({"rules": {"coverage": settings}})


def ns(at: float) -> int:
    return START_NS + round(at * SECOND)


def silent(calls: int, *, at: float, **fields: Any) -> Charge:
    """A Guard tells of calls; nothing of them was seen."""
    return charge(at=at, calls=0, told=(told(calls, at=at, **fields),))


def found(scope: Scope, *charges: Charge, at: float) -> list[Detection]:
    """What is said of charges, and of the time that passes after them."""
    detections = scope.take(charges).detections
    return detections + scope.stage.tick([scope.state], ns(at)).detections


def test_ten_calls_admitted_and_one_seen_are_told_as_ten_per_cent() -> None:
    """R090, as soon as spans had their time to come, though nothing comes any more."""
    scope = Scope()
    assert not found(scope, charge(at=1), silent(10, at=5), at=30)
    assert scope.state.due_ns() <= ns(5 + 30 + 60)
    (one,) = found(scope, at=100)
    assert (one.rule, one.action, one.scope, one.agent) == ("coverage", "warn", "agent:a", "a")
    assert (one.evidence.count, one.evidence.value, one.evidence.threshold) == (10, 10.0, 80.0)
    assert "Of 10 model calls of agent `a`" in one.message
    assert "(10 %)" in one.message
    assert row(scope.state.coverage.last) == {"guarded": 10, "seen": 1, "share": 0.1}
    assert scope.state.due_ns() == 0


def test_calls_of_which_none_is_seen_are_told_as_nothing() -> None:
    """R096: streams that are not instrumented."""
    (one,) = found(Scope("global:*"), silent(10, at=5), at=100)
    assert one.evidence.value == 0
    assert "all agents" in one.message


def test_calls_that_are_seen_are_not_told_of() -> None:
    assert not found(Scope(), *(charge(at=i) for i in range(10)), silent(10, at=12), at=1000)


def test_what_is_seen_in_time_goes_on_to_be_compared_by_the_clock_of_the_scope() -> None:
    """Without a tick, as in a replay."""
    scope = Scope()
    assert scope.fired([silent(10, at=5), charge(at=40)]) == []
    assert scope.fired(charge(at=200)) == ["coverage"]


@pytest.mark.parametrize(("seen", "speaks"), [(7, True), (8, False)])
def test_below_is_the_share_under_which_it_fires(seen: int, speaks: bool) -> None:
    scope = Scope(under=rules(below=0.8))
    assert bool(found(scope, charge(at=2, calls=seen), silent(10, at=5), at=100)) is speaks


@pytest.mark.parametrize(("calls", "speaks"), [(19, False), (20, True)])
def test_min_calls_is_the_least_that_is_judged(calls: int, speaks: bool) -> None:
    assert bool(found(Scope(under=rules(min_calls=20)), silent(calls, at=5), at=100)) is speaks


@pytest.mark.parametrize(("window_s", "speaks"), [(60, False), (300, True)])
def test_window_s_is_the_time_that_is_added_up(window_s: int, speaks: bool) -> None:
    """Five calls a minute."""
    scope = Scope(under=rules(window_s=window_s, min_calls=11))
    assert bool(found(scope, *(silent(5, at=60 * i) for i in range(1, 5)), at=340)) is speaks


@pytest.mark.parametrize(("grace_s", "speaks"), [(60, True), (300, False)])
def test_grace_s_is_the_time_that_a_span_has_to_come(grace_s: int, speaks: bool) -> None:
    scope = Scope(under=rules(grace_s=grace_s))
    assert bool(found(scope, silent(10, at=5), at=120)) is speaks
    assert not found(scope, charge(at=5, calls=10), at=120)


def test_spans_that_come_late_are_counted_where_they_belong() -> None:
    """R092: those of a function that was frozen, and thawed after the warning; nothing is said of them once more."""
    scope = Scope(under=rules(window_s=1800))
    assert len(found(scope, silent(10, at=5), at=100)) == 1
    assert not found(scope, charge(at=4, calls=10), silent(1, at=900), charge(at=900), at=1000)
    assert scope.state.coverage.last == (11, 11)


def test_it_is_told_once_while_it_lasts_and_again_after_it_was_silent() -> None:
    scope = Scope()
    said = [at for at in range(60, 1800, 60) if found(scope, silent(10, at=at), at=at)]
    assert said == [180]
    assert [at for at in range(1800, 4200, 60) if found(scope, silent(10, at=at), charge(at=at, calls=10), at=at)] == []
    assert len([at for at in range(4200, 6000, 60) if found(scope, silent(10, at=at), at=at)]) == 1


def received(*numbers: int, scope: Scope | None = None) -> dict[str, int]:
    """What is counted of reports with these numbers, of ten calls each."""
    scope, counts = scope or Scope("global:*"), Counter[str]()
    for seq in numbers:
        counts += scope.take(charge("global:*", at=5, calls=0, told=(told(10, at=5, seq=seq, source="x"),))).reports
    assert counts["guards/calls"] == 10 * counts["guards/reports"] == sum(scope.state.coverage.told.values())
    return {name.removeprefix("guards/"): n for name, n in counts.items() if name != "guards/calls"}


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([1, 2, 3], {"reports": 3}),
        ([1, 1, 2, 1, 2], {"reports": 2, "reports_again": 3}),
        ([3, 1, 2, 3, 1], {"reports": 3, "reports_again": 2}),
        ([1, *range(3, 18)], {"reports": 16}),
        ([1, *range(3, 19)], {"reports": 17, "reports_lost": 1}),
        ([1, *range(3, 18), 2], {"reports": 17}),
        ([1, *range(3, 19), 2], {"reports": 17, "reports_lost": 1, "reports_again": 1}),
        ([1, 1_000_000_000_000], {"reports": 2, "reports_lost": 999_999_999_983}),
        ([1, 2, 3, 1_000], {"reports": 4, "reports_lost": 981}),
        ([500, 501, 499], {"reports": 2, "reports_again": 1}),
    ],
    ids=str,
)
def test_a_report_that_comes_twice_counts_once_and_a_lost_one_is_missed(
    numbers: list[int], expected: dict[str, int]
) -> None:
    """Sixteen of a Guard may come in any order; of one that is known only now, earlier ones are not missed."""
    assert received(*numbers) == expected


def test_a_long_outage_of_the_receiver_is_spread_over_its_time() -> None:
    """A report of ten minutes, whose spans came in their time."""
    scope = Scope(under=rules(window_s=900))
    calls = [charge(at=60 * i, calls=10) for i in range(1, 11)]
    assert not found(scope, *calls, silent(100, at=605, since=0), at=700)
    assert scope.state.coverage.last == (100, 100)


def test_calls_of_earlier_quarters_are_counted_there() -> None:
    scope = Scope()
    quarter = ns(0) // (900 * SECOND)
    late = charge(at=1000, calls=11, earlier={quarter: (0, 0, 10)})
    scope.take(late)
    assert sum(scope.state.coverage.seen.values()) == 11
    assert len(scope.state.coverage.seen) == 2


def test_what_was_refused_is_kept_by_key() -> None:
    scope = Scope("global:*")
    asked = [Refused(key=f"session:{i}", rule="cycle", blocked=i + 1) for i in range(MAX_KEYS + 10)]
    counts = scope.take(charge("global:*", at=1, calls=0, told=(told(refusals=tuple(asked)),))).reports
    assert counts["guards/blocked"] == sum(one.blocked for one in asked)
    kept = scope.state.coverage.refused
    assert len(kept) == MAX_KEYS
    assert kept[f"session:{MAX_KEYS + 9}"] == ["cycle", MAX_KEYS + 10, 0]


def test_it_remembers_no_more_than_it_may() -> None:
    scope = Scope()
    for i in range(2_000):
        scope.take(charge(at=30 * i, told=(told(1, at=30 * i, source=f"g{i}"),)))
    coverage = scope.state.coverage
    assert len(coverage.sources) == MAX_SOURCES
    assert len(coverage.told) <= 600 * SECOND // STEP_NS + 5
    assert len(coverage.seen) <= 600 * SECOND // STEP_NS + 5


def test_a_restored_state_goes_on() -> None:
    scope = Scope()
    scope.take([silent(10, at=5, source="x", seq=3), charge(at=4)])
    data = scope.state.snapshot()
    due = ScopeState.stored_due(data)
    assert due is not None
    assert due.at_ns == scope.state.due_ns() > 0
    scope.state = ScopeState.restore(data)
    assert scope.state.budgets is None
    assert scope.state.snapshot() == data
    (one,) = found(scope, silent(10, at=6, source="x", seq=3), at=200)
    assert one.evidence.count == 10


def test_a_scope_that_nobody_tells_of_changes_with_no_time() -> None:
    scope = Scope()
    scope.take(charge(at=4, calls=1_000))
    assert scope.state.due_ns() == 0
    assert ScopeState.stored_due(scope.state.snapshot()) is None


def test_other_settings_hold_from_the_next_look_on() -> None:
    scope = Scope()
    scope.take(silent(10, at=5))
    scope.stage.policy = rules(grace_s=600)
    assert not found(scope, at=200)
    assert scope.state.due_ns() > ns(600)
    scope.stage.policy = rules(mode="off")
    assert not found(scope, at=2000)
    assert scope.state.due_ns() == 0


def test_a_team_has_its_own_settings() -> None:
    exempt = Policy.model_validate({"overrides": [{"team": "cron", "rules": {"coverage": {"mode": "off"}}}]})
    assert not found(Scope("team:cron", exempt), silent(10, at=5), at=200)
    assert found(Scope("team:shop", exempt), silent(10, at=5), at=200)
