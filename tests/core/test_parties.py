"""Agents that share a session do not hide one another's loops."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas.call import Drift
from tests.support.agents import failure, llm, play, policy, tool, tool_loop

LOOP: list[tuple[str, Any, str]] = [("search", {"q": "x"}, "nothing was found for it in any of the places")] * 8


def test_what_one_agent_is_told_does_not_begin_anothers_count_anew() -> None:
    worker = [call.model_copy(update={"agent": "worker"}) for call in tool_loop(LOOP, every=2)]
    talk: list[dict[str, Any]] = []
    calls = []
    for i, call in enumerate(worker):
        talk += [{"role": "user", "content": f"new idea number {i}"}, {"role": "assistant", "content": f"well, {i}"}]
        talker = llm([*talk, {"role": "user", "content": f"what else, after {i}?"}], at=2 * i + 1, agent="talker")
        calls += [call, talker]
    assert play(calls).rule == "repeat.no_progress"


def test_spans_of_one_agents_tools_do_not_stand_for_another_agents_turns() -> None:
    spans = [tool("search", {"q": f"q{i}"}, f"result {i} of a search", at=i * 0.1, agent="A") for i in range(15)]
    loop = [call.model_copy(update={"agent": "B"}) for call in tool_loop(LOOP, every=2)]
    alone, both = play(loop), play([*spans, *loop])
    assert alone.blocked_at == both.blocked_at == 3


def test_a_refused_probe_of_a_refused_request_opens_the_breaker_for_twice_as_long() -> None:
    session, pipeline = SessionState("s"), Pipeline(policy(breaker={"cooldown_s": 10, "max_cooldown_s": 100}))
    for at in (0, 1, 2, 3, 4, 20):
        pipeline.step(session, failure("400", at=at, error_class="client"))
    held = session.decision
    assert held is not None
    assert held.rule == "repeat.refused"
    assert held.expires_at_ns is not None
    assert round((held.expires_at_ns - held.issued_at_ns) / 1e9) == 20


@pytest.mark.parametrize("numbers", [{"traced": 10**400}, {"marks": -1}, {"anchor": 1001}, {"recent": -1}])
def test_a_sketch_of_numbers_that_cannot_be_is_refused_where_it_is_read(numbers: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        Drift(**numbers)
