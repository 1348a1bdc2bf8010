"""velocity: model calls per minute far above what the session does by itself."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Call, Detection, Policy
from tests.support.agents import play, policy, tool
from tests.support.pace import call, even, told


def velocity(calls: Iterable[Call], rules: Policy | None = None) -> list[Detection]:
    return [d for d in told(calls, rules, by="velocity") if d.rule == "velocity"]


def steady(per_min: int, minutes: int = 5) -> list[Call]:
    return [c for m in range(minutes) for c in even(per_min, m)]


def burst(count: int, *, minute: int, every: float = 0.2, start: float = 0) -> list[Call]:
    return [call(minute * 60 + start + i * every, lasts=0.01) for i in range(count)]


def test_a_burst_of_five_times_the_usual_pace_is_told_and_a_little_less_is_not() -> None:
    """At 10 a minute, with an idle minute before the burst, so that nothing of the last one is left."""
    (found,) = velocity([*steady(10), *burst(50, minute=6)])
    assert (found.evidence.threshold, found.evidence.value, found.evidence.count) == (50, 50, 50)
    assert (found.action, found.mode) == ("warn", "warn")
    assert not velocity([*steady(10), *burst(49, minute=6)])


def test_the_factor_is_a_setting() -> None:
    rules = policy(velocity={"factor": 4})
    assert velocity([*steady(10), *burst(40, minute=6)], rules)
    assert not velocity([*steady(10), *burst(39, minute=6)], rules)


def test_below_the_floor_nothing_is_a_burst() -> None:
    assert velocity([*steady(1), *burst(30, minute=6)])
    assert not velocity([*steady(1), *burst(29, minute=6)])


def test_without_three_minutes_to_compare_with_only_the_ceiling_speaks() -> None:
    assert not velocity([*steady(2, 2), *burst(200, minute=3)])
    assert velocity([*steady(2, 3), *burst(30, minute=4)])
    assert not velocity(burst(239, minute=0))
    (found,) = velocity(burst(240, minute=0))
    assert found.evidence.threshold == 240


def test_the_ceiling_holds_whatever_the_session_is_used_to() -> None:
    assert not velocity(steady(239))
    assert velocity(steady(240))


def test_a_burst_after_an_idle_gap_is_told() -> None:
    """Idle minutes neither lower the baseline nor hide what comes after them."""
    for gap in (2, 30, 600):
        assert velocity([*steady(10), *burst(50, minute=5 + gap)])
        assert not velocity([*steady(10), *burst(45, minute=5 + gap)])


def test_a_burst_over_the_turn_of_a_minute_is_told() -> None:
    assert velocity([*steady(10), *burst(60, minute=6, start=55, every=0.15)])


def test_a_burst_never_becomes_normal_by_going_on() -> None:
    """After twenty minutes at fifty a minute ten are still the usual, and fifty still a burst."""
    calls = [*steady(10, 3), *(c for m in range(4, 24) for c in even(50, m))]
    assert not velocity([*calls, *burst(49, minute=40)], policy(breaker={"cooldown_s": 1e5}))[1:]
    found = velocity([*calls, *burst(50, minute=40)])
    assert found[-1].evidence.threshold == 50
    assert found[-1].at_ns > calls[-1].end_ns


def test_a_minute_that_reached_its_limit_adds_the_usual_to_the_baseline() -> None:
    session = play([*steady(10, 3), *even(50, 3), *even(49, 4), *even(1, 5)]).session
    assert session.velocity is not None
    assert session.velocity.baseline == [10, 10, 10, 10, 49]
    session = play([*steady(1, 3), *even(30, 3), *even(29, 4), *even(1, 5)]).session
    assert session.velocity is not None
    assert session.velocity.baseline == [1, 1, 1, 1, 29]


def test_the_baseline_is_of_the_last_ten_minutes() -> None:
    session = play(c for m in range(13) for c in even(m + 1, m)).session
    assert session.velocity is not None
    assert session.velocity.baseline == list(range(3, 13))


def test_a_pace_that_stays_under_the_limit_becomes_the_usual() -> None:
    calls = [*steady(10, 3), *(c for m in range(4, 24) for c in even(45, m))]
    assert not velocity([*calls, *burst(200, minute=40)])


def siblings(count: int, *, at: float, parent: str, lasts: float = 5) -> list[Call]:
    return [call(at, lasts=lasts + i * 0.001, parent_span_id=parent) for i in range(count)]


def test_parallel_siblings_of_one_parent_are_one_decision() -> None:
    """A fan-out of three hundred, in a session that makes six calls a minute, and in one that has just begun."""
    fan_out = siblings(300, at=360, parent="f" * 16)
    assert not velocity([*steady(6), *fan_out])
    assert not velocity(fan_out)
    one_by_one = [call(360 + i * 0.1, lasts=0.05, parent_span_id="f" * 16) for i in range(300)]
    assert velocity([*steady(6), *one_by_one])


def test_two_loops_side_by_side_are_counted_once_each_time_round() -> None:
    """Under one parent two agents that each loop are not lost as siblings of one another for ever."""
    staggered = [call(360 + i * 0.1, lasts=0.15, parent_span_id="f" * 16) for i in range(300)]
    assert velocity([*steady(6), *staggered])


def test_calls_that_touch_follow_one_another() -> None:
    assert velocity([*steady(6), *(call(360 + i * 0.5, lasts=0.5, parent_span_id="f" * 16) for i in range(30))])
    calls = [call(0, lasts=5, parent_span_id="f" * 16), call(5, lasts=2), call(5, lasts=3, parent_span_id="f" * 16)]
    session = play(calls).session
    assert session.velocity is not None
    assert (session.velocity.now, session.velocity.calls) == (2, 3)


def test_sub_agents_at_work_side_by_side_go_at_the_pace_of_one() -> None:
    """Ten sub-agents, each under a parent of its own, six calls a minute each, of 8 s."""
    calls = [*steady(6)]
    for turn in range(12):
        for agent in range(10):
            calls.append(call(360 + turn * 10 + agent * 0.1, lasts=8, parent_span_id=f"{agent + 1:016x}"))
    assert not velocity(calls)


def test_a_swarm_without_parents_runs_into_the_ceiling() -> None:
    assert velocity([call(i * 0.1, lasts=1) for i in range(300)])


def test_fan_outs_of_several_parents_at_once_are_one_call_each() -> None:
    calls = [c for i in range(100) for p in range(4) for c in siblings(1, at=i * 0.001, parent=f"{p + 1:016x}")]
    assert not velocity(sorted(calls, key=lambda c: c.end_ns))


def test_a_call_of_an_earlier_minute_is_not_counted() -> None:
    calls = [*steady(1), *burst(29, minute=6, start=1)]
    assert not velocity([*calls, call(359.9, lasts=0.01)])
    assert velocity([*calls, call(380, lasts=0.01)])


def test_embeddings_and_tools_are_no_model_calls() -> None:
    assert not velocity(call(i * 0.1, lasts=0.01, operation="embeddings") for i in range(400))
    assert not velocity(tool("read", f"f{i}", f"text {i}", at=i * 0.1) for i in range(400))


def test_switched_off_it_remembers_nothing() -> None:
    session = SessionState("s")
    Pipeline(policy(velocity={"mode": "off"})).step(session, call(0))
    assert session.velocity is None


def test_r015_many_calls_of_one_tool_are_no_matter_of_its_name() -> None:
    """Twenty different reads within a minute."""
    assert not velocity(
        chain.from_iterable((call(i * 3), tool("read", f"f{i}", f"text {i}", at=21 + i * 3)) for i in range(20))
    )


@given(st.lists(st.tuples(st.floats(0, 90), st.floats(0.01, 30), st.integers(0, 6)), max_size=80))
@settings(max_examples=60, deadline=None)
def test_whatever_comes_the_state_is_small_and_counts_are_not_negative(traffic: list[tuple[float, float, int]]) -> None:
    session, pipeline, at = SessionState("s"), Pipeline(policy()), 0.0
    for gap, lasts, parent in traffic:
        at += gap
        pipeline.step(
            session, call(at - lasts / 3, lasts=lasts, parent_span_id=f"{parent:016x}" if parent else "", usd=0.1)
        )
    pace = session.velocity
    if pace is not None:
        assert len(pace.baseline) <= 10
        assert len(pace.parents) <= 4
        assert 0 <= pace.now <= len(traffic)
        assert session.snapshot() == SessionState.restore(session.snapshot()).snapshot()
