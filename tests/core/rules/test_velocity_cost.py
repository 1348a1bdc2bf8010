"""velocity.cost: money per minute far above what the session spends by itself."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanfuse_schemas import Call, Detection, Policy
from tests.support.agents import policy
from tests.support.pace import call, even, told


def costs(calls: Iterable[Call], rules: Policy | None = None) -> list[Detection]:
    return told(calls, rules, by="velocity.cost")


def steady(usd_per_min: float, minutes: int = 5) -> list[Call]:
    return [c for m in range(minutes) for c in even(5, m, usd=usd_per_min / 5)]


def spree(usd: float, *, minute: int = 6) -> list[Call]:
    return [call(minute * 60 + i, usd=usd / 10) for i in range(10)]


def test_a_spree_of_five_times_the_usual_spending_is_told_and_a_little_less_is_not() -> None:
    (found,) = costs([*steady(0.5), *spree(2.5)])
    assert (found.rule, found.action) == ("velocity.cost", "warn")
    assert (found.evidence.threshold, found.evidence.value, found.evidence.unit) == (2.5, 2.5, "USD/min")
    assert found.evidence.cost_nano_usd == 2_500_000_000
    assert not costs([*steady(0.5), *spree(2.49)])


def test_below_the_floor_nothing_is_a_spree() -> None:
    assert costs([*steady(0.01), *spree(2.0)])
    assert not costs([*steady(0.01), *spree(1.99)])


def test_cold_or_used_to_it_the_ceiling_holds() -> None:
    assert costs(spree(10.0, minute=0))
    assert not costs(spree(9.99, minute=0))
    assert costs([*steady(4), *spree(10.0)])
    assert not costs([*steady(4), *spree(9.99)])


def test_two_minutes_are_no_baseline_and_three_are() -> None:
    assert not costs([*steady(0.1, 2), *spree(3)])
    assert costs([*steady(0.1, 3), *spree(3)])


def test_parallel_siblings_are_each_paid() -> None:
    fan_out = [call(360, lasts=5, usd=0.1, parent_span_id="f" * 16) for _ in range(30)]
    assert costs([*steady(0.1), *fan_out])


def test_a_spree_after_an_idle_gap_is_told() -> None:
    assert costs([*steady(0.1), *spree(2.5, minute=300)])


def test_a_spree_does_not_raise_its_own_limit() -> None:
    rules = policy(velocity_cost={"ceiling_usd_per_min": 1000}, breaker={"cooldown_s": 0.001})
    calls = [*steady(1, 10), *(c for m in range(11, 31) for c in even(5, m, usd=1.2))]
    last = max(d.at_ns for d in costs(calls, rules))
    assert last > calls[-1].end_ns - 60 * 10**9


def test_the_factor_is_a_setting() -> None:
    rules = policy(velocity_cost={"factor": 3})
    assert costs([*steady(1), *spree(3)], rules)
    assert not costs([*steady(1), *spree(2.99)], rules)


def test_a_history_that_grows_is_no_spree() -> None:
    """A call every six seconds, each a cent dearer than the one before, from one cent to a dollar."""
    assert not costs([call(6 * i, usd=0.01 * i) for i in range(1, 60)])


@pytest.mark.parametrize(("late", "counts"), [(1, True), (2, False)])
def test_a_call_of_the_minute_before_still_counts_and_an_older_one_does_not(late: int, counts: bool) -> None:
    calls = [*steady(0.1), call(60 * (4 - late), usd=20)]
    assert not costs(calls)
    assert bool(costs([*calls, call(289, usd=0.01)])) is counts


@given(st.lists(st.tuples(st.floats(0, 200), st.floats(0, 3)), max_size=60))
@settings(max_examples=60, deadline=None)
def test_nothing_is_told_below_the_floor_of_the_last_minute(traffic: list[tuple[float, float]]) -> None:
    at, calls = 0.0, []
    for gap, usd in traffic:
        at += gap
        calls.append(call(at, usd=usd))
    for found in costs(calls):
        spent = sum(c.cost_nano_usd for c in calls if found.at_ns - 60 * 10**9 * 2 <= c.end_ns <= found.at_ns)
        assert spent >= 2 * 10**9
        assert found.evidence.value >= found.evidence.threshold
