"""What a finding tells besides its rule: how often, since when, from which span on, and what it has cost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Call, Detection
from tests.support.agents import policy, prompt
from tests.support.sequences import (
    asked,
    echoes,
    failing,
    half_known,
    labelled,
    missing,
    passes,
    polls,
    round_and_round,
    same,
    worded,
)

ASKED = (
    "annual rainfall of Lisbon in millimetres",
    "Lisbon annual rainfall millimetres",
    "annual millimetres of rainfall, Lisbon",
)

CASES: dict[str, tuple[Callable[[], list[Call]], int, float]] = {
    "repeat.no_progress": (lambda: same(3), 3, 3),
    "repeat.error": (lambda: failing(3), 3, 3),
    "repeat.action": (lambda: polls(10), 10, 10),
    "repeat.paging": (lambda: passes(2), 2, 2),
    "near.no_progress": (lambda: worded(*ASKED), 3, 3),
    "near.volatile": (lambda: labelled(4), 4, 4),
    "cycle": (lambda: round_and_round(2, 6), 3, 3),
    "stagnation": (lambda: echoes(6), 6, 8),
}
"""Rule → steps at whose end it speaks, the count it tells, and its threshold."""


def told(calls: list[Call], rule: str) -> list[Detection]:
    """What a rule says of tool spans, before each of which a model call cost 1,000 nano-dollars."""
    pipeline, session = Pipeline(policy()), SessionState("s")
    paid = [prompt(f"plan {i} of thing{i}", at=i + 0.5, lasts=0, cost=1000) for i in range(len(calls))]
    found = []
    for before, call in zip(paid, calls, strict=True):
        for c in (before, call):
            found += [d for d in pipeline.step(session, c).detections if d.rule == rule]
    return found


@pytest.mark.parametrize("rule", CASES)
def test_a_finding_begins_with_the_first_of_the_row(rule: str) -> None:
    make, count, threshold = CASES[rule]
    calls = make()
    (found,) = told(calls, rule)
    seen = found.evidence
    assert (seen.count, seen.threshold) == (count, threshold)
    assert (seen.first_span_id, seen.last_span_id) == (calls[0].span_id, calls[-1].span_id)
    assert seen.since_ns == calls[0].end_ns
    assert seen.cost_nano_usd == 1000 * (len(calls) - 1)
    assert str(count) in found.message or rule == "repeat.paging"


def test_one_message_for_whatever_is_asked_is_told_from_its_first_on() -> None:
    calls = missing(8)
    (found,) = told(calls, "repeat.error")
    assert (found.action, found.evidence.count, found.evidence.first_span_id) == ("nudge", 8, calls[0].span_id)
    assert found.evidence.cost_nano_usd == 7000


def test_the_window_of_stagnation_begins_with_its_oldest_step() -> None:
    calls = half_known(3)
    found = told(calls, "stagnation")[-1].evidence
    last = [c.span_id for c in calls].index(found.last_span_id)
    assert (found.count, found.first_span_id) == (30, calls[last - 29].span_id)


@pytest.mark.parametrize(("count", "said"), [(2, "second"), (3, "third"), (4, "4th")])
def test_paging_says_which_time_it_is(count: int, said: str) -> None:
    pipeline, session = Pipeline(policy(breaker={"cooldown_s": 0.001})), SessionState("s")
    found = [d for c in passes(count) for d in pipeline.step(session, c).detections if d.rule == "repeat.paging"]
    assert f"for the {said} time" in found[-1].message
    assert found[-1].evidence.threshold == min(count, 3)


@pytest.mark.parametrize("rules", [{"limits": {"max_steps": 3}}, {"budget_session": {"limit_usd": 3e-6}}])
def test_a_cap_is_told_with_all_that_the_session_has_spent(rules: dict[str, dict[str, float]]) -> None:
    pipeline, session, calls = Pipeline(policy(**rules)), SessionState("s"), asked(3, cost=1000)
    (found,) = [d.evidence for c in calls for d in pipeline.step(session, c).detections]
    assert (found.count, found.cost_nano_usd, found.first_span_id) == (3, 3000, "")
    assert found.since_ns == calls[0].start_ns


def test_a_tool_that_only_one_of_two_sources_tells_of_is_capped_as_well() -> None:
    rules = policy(limits={"max_tool_calls": {"delete": 1, "look": 1}})
    asks = prompt("go on").model_copy(update={"called": ("delete",)})
    for call in (asks, *same(1)):
        session = SessionState("s")
        (found,) = Pipeline(rules).step(session, call).detections
        assert (found.rule, found.evidence.value, found.evidence.tool) == ("limits.max_tool_calls", 1, call.called[0])
    two = policy(limits={"max_tool_calls": {"delete": 2, "look": 2}})
    for call in (asks, *same(1)):
        assert not Pipeline(two).step(SessionState("s"), call).detections
