"""handoffs: agents of one session take turns strictly, and only talk."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Call
from tests.support.agents import llm, policy, prompt, tool


def told(calls: list[Call], **settings: Any) -> list[Any]:
    """What the rule said."""
    pipeline, session = Pipeline(policy(handoffs=settings)), SessionState("s")
    found = []
    for call in calls:
        found += [d for d in pipeline.step(session, call).detections if d.rule == "handoffs"]
        session = SessionState.restore(session.snapshot())
    return found


def turns(order: str, **fields: Any) -> list[Call]:
    """One call a turn, each with a text of its own."""
    return [prompt(f"remark {i} of {agent}", agent=agent, at=i * 20, **fields) for i, agent in enumerate(order)]


def test_r042_two_agents_that_clarify_for_ever_are_told_after_ten_rounds() -> None:
    """Each message is new, every request succeeds, one message in twenty seconds."""
    assert told(turns("AV" * 9 + "A")) == []
    (found,) = told(turns("AV" * 10))
    assert (found.call, found.action, found.evidence.period, found.evidence.count) == (19, "warn", 2, 10)


@pytest.mark.parametrize("order", ["ABC", "ABAC", "ABCD"])
def test_rounds_of_three_and_four_turns_are_seen(order: str) -> None:
    (found,) = told(turns(order * 10))
    assert found.evidence.period == len(order)
    assert told(turns((order * 10)[:-1])) == []


def test_several_calls_of_an_agent_in_a_row_are_one_turn() -> None:
    assert len(told(turns("AABBB" * 10))) == 1


def test_agents_that_take_turns_as_they_come_are_let_be() -> None:
    assert told(turns("ABCABDACBDABCCBADBCA" * 3)) == []


def test_an_agent_alone_takes_no_turns() -> None:
    assert told(turns("A" * 100)) == []


def test_a_tool_that_works_begins_the_count_anew() -> None:
    calls = turns("AV" * 9)
    work = tool("run_tests", {}, "3 passed", at=361, agent="V")
    assert (
        told(
            [
                *calls,
                work,
                *[
                    c.model_copy(
                        update={
                            "start_ns": c.start_ns + 10**12,
                            "end_ns": c.end_ns + 10**12,
                            "span_id": f"f{c.span_id[1:]}",
                        }
                    )
                    for c in calls
                ],
            ]
        )
        == []
    )


def test_a_model_call_that_asks_for_a_tool_is_work() -> None:
    def turn(i: int) -> Call:
        asked = {
            "role": "assistant",
            "tool_calls": [{"id": "c", "function": {"name": "search", "arguments": f'{{"q": {i}}}'}}],
        }
        return llm([{"role": "user", "content": f"look for {i}"}], asked, agent="AB"[i % 2], at=i * 20)

    assert told([turn(i) for i in range(60)]) == []


@pytest.mark.parametrize("name", ["transfer_to_B", "delegate_work_to_coworker", "handoff", "ask_question_to_coworker"])
def test_a_tool_that_only_hands_on_is_talk(name: str) -> None:
    def turn(i: int) -> Call:
        asked = {
            "role": "assistant",
            "tool_calls": [{"id": "c", "function": {"name": name, "arguments": f'{{"task": {i}}}'}}],
        }
        return llm([{"role": "user", "content": f"remark {i}"}], asked, agent="AB"[i % 2], at=i * 20)

    assert len(told([turn(i) for i in range(20)])) == 1


def test_failed_calls_are_no_turns() -> None:
    assert (
        told(
            [
                c
                for pair in zip(turns("AB" * 5), turns("CD" * 5, error_type="429", error_class="provider"), strict=True)
                for c in pair
            ]
        )
        == []
    )


@pytest.mark.parametrize(("rounds", "fires"), [(7, True), (8, False)])
def test_the_number_of_rounds_is_a_setting(rounds: int, fires: bool) -> None:
    assert bool(told(turns("AV" * 7), rounds=rounds)) is fires


def test_longer_rounds_than_asked_for_are_let_be() -> None:
    assert told(turns("ABC" * 20), max_period=2) == []
