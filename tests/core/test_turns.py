"""What calls that overlap, come in parallel, or come from many agents mean to a session."""

from __future__ import annotations

from typing import Any

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import MAX_LANES, SessionState
from spanfuse_processor.core.steps import RING
from spanfuse_schemas import Call, Override
from tests.support.agents import play, policy, prompt, tool
from tests.support.sequences import TEXT, again, polls, same


def rules_of(calls: list[Call], **rules: Any) -> list[str]:
    return [d.rule for d in play(calls, policy(**rules)).detections]


def test_a_prompt_that_starts_when_the_last_one_ended_is_the_next_and_one_before_that_a_sibling() -> None:
    assert rules_of([prompt("again", at=i, lasts=1) for i in range(3)]) == ["repeat.prompt"]
    assert rules_of([prompt("again", at=i, lasts=1.01) for i in range(3)]) == []


def test_where_spans_start_on_whole_milliseconds_less_than_one_is_no_overlap() -> None:
    """So do those of JavaScript, and end by a finer clock."""
    assert rules_of([prompt("again", at=i, lasts=1.0006) for i in range(3)]) == ["repeat.prompt"]
    assert rules_of([prompt("again", at=i + 0.0001, lasts=1.0006) for i in range(3)]) == []


def test_so_it_is_with_tools_of_one_parent() -> None:
    def row(lasts: float) -> list[Call]:
        return [tool("look", 1, TEXT, at=i, lasts=lasts, parent_span_id="c" * 16) for i in range(3)]

    assert rules_of(row(1)) == ["repeat.no_progress"]
    assert rules_of(row(1.01)) == []


def test_prompts_in_parallel_are_one_step_of_a_cycle() -> None:
    twice = [prompt(text, at=i + k / 100, lasts=0.5) for i, text in enumerate("ABABAB") for k in range(2)]
    (found,) = play(twice).detections
    assert (found.rule, found.evidence.period, found.evidence.count) == ("cycle", 2, 3)


def test_the_same_batch_after_each_prompt_is_no_progress_and_another_is() -> None:
    def batch(at: float, news: str) -> list[Call]:
        return [
            tool(f"t{k}", k, f"{news} {k}: {TEXT}", at=at + k / 100, lasts=0.5, parent_span_id=f"{int(at) + 1:016x}")
            for k in range(2)
        ]

    def session(news: str) -> list[Call]:
        return [c for i in range(4) for c in (prompt("Go on.", at=2 * i), *batch(2 * i + 0.5, news[i]))]

    assert "repeat.prompt" in rules_of(session("aaaa"), cycle={"mode": "off"}, repeat_no_progress={"mode": "off"})
    assert "repeat.prompt" not in rules_of(session("abcd"))


def test_a_prompt_is_the_same_to_the_letter_only_as_often_as_it_was() -> None:
    calls = [prompt(f"Fix it, attempt {n}", at=i) for i, n in enumerate((1, 2, 2, 2))]
    pipeline, session = Pipeline(policy()), SessionState("s")
    assert [[d.rule for d in pipeline.step(session, c).detections] for c in calls][2:] == [
        ["near.prompt"],
        ["repeat.prompt"],
    ]


def test_eight_agents_have_rows_of_their_own_and_the_ninth_takes_that_of_the_longest_silent() -> None:
    assert MAX_LANES == 8
    first = [prompt("again", at=9 * k + i, agent=f"a{i}") for k in range(2) for i in range(9)]
    run = play([*first[:9], first[1 + 9], *first[1:2]])
    assert set(run.session.lanes) == {f"a{i}" for i in range(1, 9)}
    eight = [prompt("again", at=9 * k + i, agent=f"a{i}") for k in range(3) for i in range(8)]
    assert "repeat.prompt" in rules_of(eight)


def test_forty_steps_are_remembered() -> None:
    assert RING == 40
    assert len(play(same(60)).session.steps.ring) == 40
    long = [tool("poll", "job", f"stage {i // 26}{chr(97 + i % 26)}x", at=i) for i in range(40)]
    forty: dict[str, Any] = {"repeat_action": {"count": 40}, "stagnation": {"mode": "off"}}
    assert [d.action for d in play(long, policy(**forty)).detections if d.rule == "repeat.action"] == ["nudge", "block"]
    assert [d.action for d in play(long[:39], policy(**forty)).detections if d.rule == "repeat.action"] == ["nudge"]


def test_two_repeats_far_apart_are_waiting_as_well() -> None:
    assert play(same(2, every=60), policy(repeat_no_progress={"count": 2})).detections[0].action == "nudge"
    assert play(same(2, every=59), policy(repeat_no_progress={"count": 2})).detections[0].action == "block"
    assert play(again(2, every=60), policy(repeat_prompt={"count": 2})).detections[0].action == "nudge"


def test_a_tool_override_reaches_a_single_call_and_not_one_of_several() -> None:
    rules = policy().model_copy(
        update={"overrides": (Override(tool="poll", rules={"repeat.action": {"nudge_at": 2}}),)}
    )
    assert [d.evidence.threshold for d in play(polls(2), rules).detections] == [2]
    assert play([tool("look", 1, f"{c}: {TEXT}", at=i) for i, c in enumerate("ab")], rules).quiet
