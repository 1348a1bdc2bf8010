"""spend.idle: an idle agent is woken again and again with its whole context, for nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Call, Detection, Policy, Tokens
from tests.support.agents import failure, llm, play, policy, tool
from tests.support.pace import call, told


def idle(calls: Iterable[Call], rules: Policy | None = None) -> list[Detection]:
    return told(calls, rules, by="spend.idle")


def wakings(count: int, *, every: float = 1800, start: float = 0, **fields: Any) -> list[Call]:
    """A chat of 150,000 tokens in and 5 out, every half hour."""
    return [call(start + i * every, **{"input": 150_000, "output": 5, "usd": 0.45, **fields}) for i in range(count)]


def test_r040_a_timer_that_wakes_an_idle_agent_is_told_by_the_fourth_time() -> None:
    (found,) = idle(wakings(6))
    assert (found.call, found.rule, found.action) == (3, "spend.idle", "warn")
    assert (found.evidence.count, found.evidence.threshold) == (4, 4)
    assert found.evidence.cost_nano_usd == 4 * 450_000_000
    assert "4 times in 1.5 h" in found.message
    assert not idle(wakings(3))


def test_r040_the_state_survives_the_pauses_and_a_restart_in_each() -> None:
    pipeline, session, found = Pipeline(policy()), SessionState("s"), []
    for c in wakings(4):
        session = SessionState.restore(session.snapshot())
        found += [d for d in pipeline.step(session, c).detections if d.rule == "spend.idle"]
    assert len(found) == 1
    assert Policy().idle_timeout_s > 10 * 1800


def test_r040_a_conversation_that_the_timer_goes_on_with_is_told_too() -> None:
    """The heartbeat and the answer are added to the history each time, and the heartbeat tells the time."""
    calls, history = [], [{"role": "user", "content": "Do this."}, {"role": "assistant", "content": "Done."}]
    for i in range(4):
        history = [
            *history,
            {
                "role": "user",
                "content": f"Heartbeat of the {i}th half hour. Weather: {['fog', 'rain', 'sun', 'snow'][i]}.",
            },
        ]
        answer = {"role": "assistant", "content": "OK"}
        calls.append(llm(history, answer, at=1800 * i, tokens=Tokens(input=150_000 + 30 * i, output=5)))
        history = [*history, answer]
    assert idle(calls)


def test_the_pause_is_measured_from_the_end_of_the_last_call() -> None:
    assert idle(wakings(4, every=300, lasts=0.0))
    assert not idle(wakings(9, every=299.9, lasts=0.0))
    assert not idle(wakings(9, every=300, lasts=0.1))


def test_several_calls_of_one_waking_are_one() -> None:
    twice = [c for i in range(6) for c in wakings(2, every=5, start=i * 1800)]
    (found,) = idle(twice)
    assert found.call == 6
    assert found.evidence.count == 4


def test_little_context_or_a_longer_answer_is_no_idling() -> None:
    assert idle(wakings(4, input=20_000, output=100))
    assert not idle(wakings(9, input=19_999))
    assert not idle(wakings(9, output=101))


def test_the_count_is_a_setting() -> None:
    assert idle(wakings(3), policy(spend_idle={"count": 3}))
    assert not idle(wakings(2), policy(spend_idle={"count": 3}))


@pytest.mark.parametrize("work", ["tool span", "asks for a tool", "answers a tool", "says something"])
def test_work_ends_the_row(work: str) -> None:
    done = {
        "tool span": tool("read", "f", "text", at=5420),
        "asks for a tool": call(5400, called=("read",)),
        "answers a tool": call(5400, answered=("read",)),
        "says something": call(5400, input=100_000, output=800),
    }[work]
    assert not idle([*wakings(3), done, *wakings(3, start=7200)])
    assert idle([*wakings(3), done, *wakings(4, start=7200)])


def test_failures_and_small_calls_between_end_nothing() -> None:
    """When the account's cap is hit the timer goes on, and fails on schedule."""
    assert idle([*wakings(3), failure(at=5420), call(5500, input=100, output=3), *wakings(1, start=7200)])


def test_it_is_told_again_each_time_the_row_has_doubled() -> None:
    assert [d.evidence.count for d in idle(wakings(40))] == [4, 8, 16, 32]


def test_it_blocks_when_asked_to() -> None:
    run = play(wakings(9), policy(spend_idle={"mode": "block"}, breaker={"cooldown_s": 3600, "max_cooldown_s": 7200}))
    assert (run.blocked_at, run.rule) == (4, "spend.idle")


def test_a_user_who_comes_back_and_is_answered_is_no_timer() -> None:
    assert not idle(wakings(20, output=350))
