"""safety_drift: a user turn has little in common with the first one and the one before it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanfuse_processor.core.detectors.safety_drift import MAX_AGENTS, distance
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Call, Detection, Drift
from spanfuse_schemas.drift_rules import SafetyDrift
from tests.support.agents import llm, policy

FAR = Drift(turn=3, chars=100, anchor=0, recent=0)


def asked(n: int, drift: Drift | None, **fields: Any) -> Call:
    return llm([{"role": "user", "content": f"Question {n}."}], at=2 * n, drift=drift, **fields)


def told(*sketches: Drift | None, mode: str = "warn", **settings: Any) -> list[Detection]:
    pipeline, state = Pipeline(policy(safety_drift={"mode": mode, **settings})), SessionState("s")
    calls = [asked(n, drift) for n, drift in enumerate(sketches)]
    return [d for call in calls for d in pipeline.step(state, call).detections if d.rule == "safety_drift"]


def near(turn: int) -> Drift:
    return Drift(turn=turn, chars=100, anchor=400, recent=400)


def test_it_is_off_unless_asked_for() -> None:
    """In a dialogue another topic is the user's will."""
    state = SessionState("s")
    assert not Pipeline(policy()).step(state, asked(0, FAR)).detections
    assert state.strayed is None


def test_the_distance_is_what_the_formula_says() -> None:
    rule = SafetyDrift()
    assert distance(Drift(anchor=100, recent=300), rule) == pytest.approx(1 - (0.75 * 0.1 + 0.25 * 0.3) / 0.35)
    assert distance(Drift(anchor=350, recent=350), rule) == pytest.approx(0)
    assert distance(Drift(anchor=0, recent=0), rule) == 1


@pytest.mark.parametrize(("anchor", "fires"), [(192, True), (193, False)])
def test_at_its_threshold_a_turn_is_drift_and_under_it_it_is_not(anchor: int, fires: bool) -> None:
    """(0.35 × 0.55) is 0.1925 in common."""
    assert bool(told(Drift(turn=3, chars=100, anchor=anchor, recent=anchor))) is fires


@pytest.mark.parametrize(("threshold", "fires"), [(0.5, True), (0.51, False)])
def test_the_threshold_can_be_moved(threshold: float, fires: bool) -> None:
    half = Drift(turn=3, chars=100, anchor=200, recent=200)
    assert bool(told(half, threshold=threshold, full_at=0.4)) is fires


@pytest.mark.parametrize(("turn", "fires"), [(3, True), (2, False)])
def test_the_first_turns_are_not_judged(turn: int, fires: bool) -> None:
    assert bool(told(FAR.model_copy(update={"turn": turn}))) is fires
    assert bool(told(FAR.model_copy(update={"turn": turn + 2}), min_turns=5)) is fires


@pytest.mark.parametrize(("chars", "fires"), [(60, True), (59, False)])
def test_a_short_turn_is_unknown_and_no_drift(chars: int, fires: bool) -> None:
    """ "Yes, please continue" has nothing in common with anything."""
    assert bool(told(FAR.model_copy(update={"chars": chars}))) is fires
    assert bool(told(FAR.model_copy(update={"chars": chars + 140}), min_chars=200)) is fires


@pytest.mark.parametrize(("weight", "fires"), [(0.5, True), (0.49, False)])
def test_the_weight_of_the_first_turn_decides_between_the_two(weight: float, fires: bool) -> None:
    """All of the last turn and nothing of the first: at equal weights that is half."""
    half = Drift(turn=3, chars=100, anchor=0, recent=1000)
    assert bool(told(half, anchor_weight=weight, full_at=1, threshold=0.5)) is fires


@pytest.mark.parametrize(("full_at", "fires"), [(0.4, True), (0.36, False)])
def test_what_is_enough_in_common_can_be_moved(full_at: float, fires: bool) -> None:
    assert bool(told(Drift(turn=3, chars=100, anchor=200, recent=200), full_at=full_at)) is fires


def test_r129_a_conversation_that_slides_away_is_told_once_on_entering() -> None:
    """Ten turns ever less like the first; one event, not one a turn."""
    likeness = [0.8, 0.78, 0.7, 0.6, 0.5, 0.45, 0.4, 0.3, 0.3, 0.3]
    sketches = [
        Drift(turn=n + 2, chars=200, anchor=round(300 * x), recent=round(300 * x)) for n, x in enumerate(likeness)
    ]
    (found,) = told(*sketches)
    assert found.call == 3


def test_r129_turns_that_could_not_be_compared_are_unknown() -> None:
    """Neither do they enter drift nor leave it."""
    assert not told(*[None] * 10)
    assert len(told(FAR, None, FAR)) == 1


def test_it_is_told_again_after_the_conversation_came_back() -> None:
    pipeline, state = Pipeline(policy(safety_drift={"mode": "warn"}, breaker={"cooldown_s": 1})), SessionState("s")
    found = [pipeline.step(state, asked(n, d)).detections for n, d in enumerate((FAR, near(4), FAR, near(6)))]
    assert [len(d) for d in found] == [1, 0, 1, 0]
    assert state.strayed is None


def test_agents_of_a_session_are_told_apart() -> None:
    pipeline, state = Pipeline(policy(safety_drift={"mode": "warn"}, breaker={"cooldown_s": 0.1})), SessionState("s")
    found = [pipeline.step(state, asked(n, FAR, agent=a)).detections for n, a in enumerate("abab")]
    assert [len(d) for d in found] == [1, 1, 0, 0]


def test_what_is_remembered_is_bounded_and_survives_a_restart() -> None:
    pipeline, state = Pipeline(policy(safety_drift={"mode": "warn"})), SessionState("s")
    for n in range(2 * MAX_AGENTS):
        pipeline.step(state, asked(n, FAR, agent=f"a{n}"))
    assert state.strayed is not None
    assert len(state.strayed.agents) == MAX_AGENTS
    assert SessionState.restore(state.snapshot()).strayed.agents == state.strayed.agents  # type: ignore[union-attr]
    pipeline.reset(state, 0)
    assert state.strayed is None


def test_with_block_it_refuses() -> None:
    pipeline = Pipeline(policy(safety_drift={"mode": "block"}))
    assert [d.rule for d in pipeline.step(SessionState("s"), asked(0, FAR)).decisions] == ["safety_drift"]


SHARE = st.integers(0, 1000)


@given(SHARE, SHARE, st.floats(0, 1), st.floats(0.01, 1))
def test_the_distance_lies_between_none_and_one(a: int, p: int, weight: float, full: float) -> None:
    rule = SafetyDrift(anchor_weight=weight, full_at=full)
    assert 0 <= distance(Drift(anchor=a, recent=p), rule) <= 1
