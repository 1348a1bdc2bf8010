"""spend.creep: calls have come to cost many times what the session's first ones did."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from spanfuse_schemas import Call, Detection, Policy
from tests.support.agents import play, policy, tool
from tests.support.pace import call, told


def creep(costs: Iterable[float], rules: Policy | None = None, *, every: float = 60) -> list[Detection]:
    return told(_calls(costs, every), rules, by="spend.creep")


def _calls(costs: Iterable[float], every: float = 60) -> list[Call]:
    return [call(every * i, usd=usd) for i, usd in enumerate(costs)]


EARLY = [0.05] * 10


def test_five_calls_of_five_times_the_first_ones_are_told_and_four_are_not() -> None:
    (found,) = creep([*EARLY, *[0.25] * 5])
    assert (found.call, found.rule, found.action) == (14, "spend.creep", "warn")
    assert (found.evidence.threshold, found.evidence.value, found.evidence.count) == (0.25, 0.25, 5)
    assert found.evidence.cost_nano_usd == 5 * 250_000_000
    assert not creep([*EARLY, *[0.25] * 4])


def test_the_factor_and_the_floor_both_have_to_be_reached() -> None:
    assert not creep([*EARLY, *[0.2499] * 20])
    assert creep([*[0.001] * 10, *[0.2] * 5])
    assert not creep([*[0.001] * 10, *[0.1999] * 20])


def test_the_median_is_of_the_first_ten_calls_that_cost_something() -> None:
    assert creep([*[0.0] * 20, *[0.05] * 10, *[0.25] * 5])
    assert not creep([*[0.05] * 9, *[0.25] * 5])
    assert not creep([*[0.05] * 5, *[0.30] * 30])
    assert creep([*[0.05] * 5, *[0.30] * 30], policy(spend_creep={"first_calls": 5}))


def test_a_few_long_answers_are_no_creep_and_cheap_helpers_do_not_hide_one() -> None:
    assert not creep([*EARLY, *[0.3, 0.05] * 20])
    assert creep([*EARLY, *[0.3, 0.3, 0.05] * 5])


def test_a_history_that_doubles_its_price_every_ten_calls_is_told() -> None:
    """From four cents a call; at five times that, and above the floor, which is after some thirty calls."""
    found = creep(0.04 * 2 ** (i / 10) for i in range(60))
    assert found
    assert 28 <= found[0].call <= 38


def test_an_ordinary_history_grows_tenfold_at_cents_and_is_left_alone() -> None:
    assert not creep(0.01 * (1 + i / 5) for i in range(60))


def test_it_is_told_again_each_time_the_row_has_doubled() -> None:
    found = creep([*EARLY, *[0.25] * 25], policy(breaker={"cooldown_s": 1}))
    assert [d.evidence.count for d in found] == [5, 10, 20]


def test_it_blocks_when_asked_to() -> None:
    run = play(_calls([*EARLY, *[0.25] * 9]), policy(spend_creep={"mode": "block"}))
    assert (run.blocked_at, run.rule) == (15, "spend.creep")


def test_the_settings_hold() -> None:
    rules = policy(spend_creep={"factor": 3, "floor_usd": 0.01, "count": 2})
    assert creep([*[0.01] * 10, 0.03, 0.03], rules)
    assert not creep([*[0.01] * 10, 0.03], rules)
    assert not creep([*[0.01] * 10, 0.0299, 0.0299], rules)


def test_tools_cost_nothing() -> None:
    run = play(tool("t", i, f"r{i}", at=i) for i in range(30))
    assert run.session.spend_creep is None


@given(st.lists(st.floats(0.001, 2), max_size=60))
@settings(max_examples=80, deadline=None)
def test_what_is_told_is_dearer_than_both_limits(costs: list[float]) -> None:
    for found in creep(costs):
        early = sorted(round(usd * 1e9) for usd in costs[:10])
        assert found.evidence.value >= 0.2
        assert found.evidence.value * 1e9 >= 5 * (early[4] + early[5]) / 2 - 5
        assert found.call >= 14
