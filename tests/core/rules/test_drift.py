"""drift: a tool call acts on what only an instruction within a tool result names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Call, Detection, Drift, Policy
from tests.support.agents import llm, policy

LED = Drift(marks=3, passage=200, traced=1)


def acting(n: int, drift: Drift | None, **fields: Any) -> Call:
    """A call that asks for a payment, of a conversation that grows."""
    history = [{"role": "user", "content": "Pay the rent."}, {"role": "assistant", "content": f"Working on it, {n}."}]
    messages = [*history * (n + 1), {"role": "user", "content": f"So far {n}."}]
    asks = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "pay", "arguments": f'{{"n": {n}}}'}}]}
    return llm(messages, asks, at=2 * n, drift=drift, **fields)


def told(calls: list[Call], rules: Policy | None = None) -> list[Detection]:
    pipeline, state = Pipeline(rules or policy()), SessionState("s")
    return [d for call in calls for d in pipeline.step(state, call).detections if d.rule == "drift"]


def fires(drift: Drift | None, **settings: Any) -> bool:
    return bool(told([acting(0, drift)], policy(drift=settings) if settings else None))


def test_an_instruction_that_is_followed_is_told_with_its_numbers() -> None:
    (found,) = told([acting(0, None), acting(1, LED)])
    assert (found.action, found.call) == ("warn", 1)
    assert (found.evidence.tool, found.evidence.value, found.evidence.count) == ("pay", 1, 3)


def test_following_it_for_several_calls_is_told_once() -> None:
    assert len(told([acting(n, LED) for n in range(6)])) == 1


def test_by_default_it_warns_and_refuses_nothing() -> None:
    outcome = Pipeline(policy()).step(SessionState("s"), acting(0, LED))
    assert outcome.detections
    assert not outcome.decisions


def test_it_blocks_where_the_operator_says_so() -> None:
    outcome = Pipeline(policy(drift={"mode": "block"})).step(SessionState("s"), acting(0, LED))
    assert [(d.rule, d.action) for d in outcome.decisions] == [("drift", "block")]


@pytest.mark.parametrize("drift", [None, Drift(), Drift(turn=9, chars=400), Drift(marks=5, passage=900)])
def test_what_is_unknown_or_was_not_followed_is_no_drift(drift: Drift | None) -> None:
    """No content, a user who turns to something else, an instruction that was only read."""
    assert not fires(drift)


@pytest.mark.parametrize(("marks", "expected"), [(2, True), (1, False)])
def test_as_many_kinds_of_marks_as_the_threshold_are_enough_and_one_less_is_not(marks: int, expected: bool) -> None:
    assert fires(LED.model_copy(update={"marks": marks})) is expected
    assert fires(LED.model_copy(update={"marks": marks + 2}), min_marks=4) is expected


@pytest.mark.parametrize(("traced", "expected"), [(1, True), (0, False)])
def test_as_many_traced_things_as_the_threshold_are_enough_and_one_less_is_not(traced: int, expected: bool) -> None:
    assert fires(LED.model_copy(update={"traced": traced})) is expected
    assert fires(LED.model_copy(update={"traced": traced + 2}), min_traced=3) is expected


@pytest.mark.parametrize(("chars", "expected"), [(30, True), (29, False)])
def test_a_passage_as_long_as_the_minimum_is_judged_and_a_shorter_one_is_not(chars: int, expected: bool) -> None:
    assert fires(LED.model_copy(update={"passage": chars})) is expected
    assert fires(LED.model_copy(update={"passage": chars + 70}), min_chars=100) is expected


def test_switched_off_it_is_silent() -> None:
    assert not fires(LED, mode="off")


def test_it_keeps_nothing_in_the_session() -> None:
    """What it tells of a call is in that call."""
    pipeline, led, plain = Pipeline(policy()), SessionState("s"), SessionState("s")
    call = acting(0, LED)
    pipeline.step(led, call)
    pipeline.step(plain, call.model_copy(update={"drift": None}))
    led.fired.clear()
    assert led.snapshot() == plain.snapshot()


COUNTS = st.integers(0, 5)


@given(COUNTS, st.integers(0, 60), COUNTS, COUNTS, st.integers(0, 60), COUNTS)
def test_more_evidence_never_speaks_against_it(m: int, p: int, t: int, dm: int, dp: int, dt: int) -> None:
    less, more = Drift(marks=m, passage=p, traced=t), Drift(marks=m + dm, passage=p + dp, traced=t + dt)
    assert fires(more) >= fires(less)
