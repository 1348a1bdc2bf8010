"""cycle: what makes a round, whom it is told of, and what of it a Guard refuses."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse_schemas import Call
from tests.support.agents import play, policy, prompt, tool, tool_loop
from tests.support.sequences import TEXT, round_and_round, strongest


def said(calls: list[Call], **rules: Any) -> str:
    return strongest(calls, policy(**rules), "cycle")


def batches(turns: int) -> list[Call]:
    """Two parallel batches of two calls, in turn."""
    made = []
    for turn in range(turns):
        for k in range(2):
            name = f"{'ab'[turn % 2]}{k}"
            parent = f"{turn + 1:016x}"
            made.append(tool(name, k, f"{name}: {TEXT}", at=turn + k / 100, lasts=0.5, parent_span_id=parent))
    return made


def test_parallel_calls_are_one_step_of_a_round() -> None:
    assert said(batches(5)) == ""
    assert said(batches(6)) == "block"


def test_a_batch_that_grows_does_not_count_as_what_it_was_before() -> None:
    """The first call of the last batch, seen alone, is no step yet."""
    assert said(batches(6)[:-1]) == ""


@pytest.mark.parametrize("period", [3, 5])
def test_with_a_failure_on_the_way_two_rounds_are_enough_and_less_is_not(period: int) -> None:
    assert said(round_and_round(period, 2 * period - 1, fails=True)) == ""
    assert said(round_and_round(period, 2 * period, fails=True)) == "block"


def test_a_failure_that_is_over_does_not_make_the_rule_stricter() -> None:
    steps = [
        ("t0", 0, "Error: 0"),
        ("t1", 1, TEXT),
        ("t0", 0, f"well: {TEXT}"),
        ("t1", 1, TEXT),
        ("t0", 0, f"well: {TEXT}"),
    ]
    assert said([tool(*step, at=i) for i, step in enumerate(steps)]) == ""


@pytest.mark.parametrize("period", [2, 3, 12])
def test_the_actions_alone_are_nudged_after_six_rounds_at_the_earliest(period: int) -> None:
    rounds = {"cycle": {"action_rounds": 3}}
    assert said(round_and_round(period, 3 * period - 1, differ=True), **rounds) == ""
    assert said(round_and_round(period, 3 * period, differ=True), **rounds) == "nudge"


def test_one_action_again_and_again_is_no_cycle() -> None:
    polls = [tool("poll", 1, f"stage {chr(97 + i)}", at=i) for i in range(26)]
    assert said(polls, cycle={"action_rounds": 2}) == ""
    assert said([tool("poll", 1, TEXT, at=i) for i in range(12)]) == ""


def test_a_cycle_of_prompts_speaks_of_prompts_and_one_of_steps_of_steps() -> None:
    (found,) = play(prompt(t, at=i) for i, t in enumerate("ABABAB")).detections
    assert "The same 2 prompts" in found.message
    found = play(round_and_round(2, 6)).detections[-1]
    assert "The same 2 steps (t0, t1) went round 3 times" in found.message


def test_the_agents_that_take_part_are_named_where_they_are_several() -> None:
    def found(agents: str) -> str:
        calls = [c.model_copy(update={"agent": agents[i % len(agents)]}) for i, c in enumerate(round_and_round(2, 6))]
        return next(d.message for d in play(calls).detections if d.rule == "cycle")

    assert "(Agents: X, Y.)" in found("XY")
    assert "Agents" not in found("X")


def test_what_is_foreseen_is_the_call_before_it_and_counts_the_round_it_would_complete() -> None:
    steps = [("a", 1, f"a {TEXT}"), ("b", 2, f"b {TEXT}")] * 3
    run = play(tool_loop(steps)[:6])
    (found,) = [d for d in run.detections if d.rule == "cycle"]
    assert (found.conditional, found.call, found.evidence.count) == (True, 5, 3)
    assert found.evidence.first_span_id == run.session.steps.ring[0].span_id.to_bytes(8).hex()


def test_a_conditional_wait_is_a_nudge_as_well() -> None:
    steps = [("a", 1, f"a {TEXT}"), ("b", 2, f"b {TEXT}")] * 3
    assert {d.action for d in play(tool_loop(steps, every=30)[:6]).detections} == {"nudge"}
    assert {d.action for d in play(tool_loop(steps, every=29)[:6]).detections} == {"block"}


def spelled(letters: str, failing: str = "") -> list[Call]:
    """A step a letter; those of `failing` fail."""
    return [tool(c, c, f"Error: {c}" if c in failing else f"{c}: {TEXT}", at=i) for i, c in enumerate(letters)]


@pytest.mark.parametrize("before", ["", "B", "AB", "BB", "CB", "AAB"])
def test_what_came_before_neither_shortens_nor_lengthens_the_rounds(before: str) -> None:
    assert said(spelled(f"{before}BCBCB")) == ""
    assert said(spelled(f"{before}BCBCBC")) == "block"


@pytest.mark.parametrize("failing", ["B", "C"])
def test_it_does_not_matter_which_step_of_the_round_fails(failing: str) -> None:
    assert said(spelled("BCB", failing)) == ""
    assert said(spelled("BCBC", failing)) == "block"


def test_batches_that_came_before_are_no_rounds() -> None:
    other = [
        tool(f"{c}{k}", k, f"{c}{k}: {TEXT}", at=i - 10 + k / 100, lasts=0.5, parent_span_id=f"{i + 50:016x}")
        for i, c in enumerate("vwxyz")
        for k in range(2)
    ]
    assert said([*other, *batches(3)]) == ""
