"""velocity.burn: the same large context again and again, and nothing comes of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Call, Detection, Policy, Tokens
from tests.support.agents import failure, llm, play, policy, prompt, tool
from tests.support.pace import call, told


def burn(calls: Iterable[Call], rules: Policy | None = None) -> list[Detection]:
    return told(calls, rules, by="velocity.burn")


def compactions(count: int, *, every: float = 60, start: float = 0, **fields: Any) -> list[Call]:
    """Calls with 200,000 tokens in and 400 out."""
    return [call(start + i * every, **{"input": 200_000, "output": 400, "usd": 0.6, **fields}) for i in range(count)]


def test_r038_compaction_that_sets_itself_off_is_told_by_the_fourth_call() -> None:
    """Five calls of 200,000 tokens within 300 s, hardly any output, no tools between them."""
    (found,) = burn(compactions(5))
    assert (found.call, found.rule, found.action) == (3, "velocity.burn", "warn")
    assert (found.evidence.count, found.evidence.threshold) == (4, 4)
    assert found.evidence.cost_nano_usd == 4 * 600_000_000
    assert "800,000 tokens" in found.message
    assert not burn(compactions(3))


def test_r038_it_does_not_matter_whether_the_prompts_are_equal() -> None:
    tokens = Tokens(input=200_000, output=400)
    assert burn(prompt(f"Summarise what was said about subject {i}.", at=60 * i, tokens=tokens) for i in range(4))
    assert burn(
        (prompt("Summarise.", at=60 * i, tokens=tokens) for i in range(4)), policy(repeat_prompt={"mode": "off"})
    )


def test_the_count_is_a_setting() -> None:
    assert burn(compactions(6), policy(velocity_burn={"count": 6}))
    assert not burn(compactions(5), policy(velocity_burn={"count": 6}))


def test_small_calls_are_passed_over_and_end_nothing() -> None:
    assert burn(compactions(4, input=50_000))
    assert not burn(compactions(9, input=49_999))
    helpers = [call(30 + 60 * i, input=300, output=10) for i in range(4)]
    assert burn(sorted([*compactions(4), *helpers], key=lambda c: c.end_ns))


def test_an_answer_of_more_than_a_hundredth_is_work() -> None:
    assert burn(compactions(4, output=2000))
    assert not burn(compactions(9, output=2001))
    assert not burn([*compactions(3), call(170, input=200_000, output=5000), *compactions(3, start=180)])


@pytest.mark.parametrize("between", ["tool span", "asks for a tool", "answers a tool", "finish reason"])
def test_tool_work_ends_the_row(between: str) -> None:
    large = {"input": 200_000, "output": 400}
    work = {
        "tool span": tool("read", "f", "text", at=195),
        "asks for a tool": call(175, called=("read",), **large),
        "answers a tool": call(175, answered=("read",), **large),
        "finish reason": call(175, finish_reason="tool_calls", **large),
    }[between]
    assert not burn([*compactions(3), work, *compactions(3, start=180)])
    assert burn([*compactions(3), work, *compactions(4, start=180)])


def test_a_failed_call_says_nothing() -> None:
    refused = failure(at=190, tokens=Tokens(input=200_000))
    assert burn([*compactions(3), refused, *compactions(1, start=180)])


def conversation(turns: int, says: str, *, input: int = 150_000) -> list[Call]:
    """A user who goes on talking to a model with a large context and gets short answers."""
    calls, history = [], [{"role": "user", "content": "a very long text"}]
    for i in range(turns):
        answer = {"role": "assistant", "content": f"answer {i}"}
        tokens = Tokens(input=input + 200 * i, output=150)
        calls.append(llm(history, answer, at=60 * i, tokens=tokens))
        history = [*history, answer, {"role": "user", "content": says.format(i)}]
    return calls


def test_somebody_who_asks_something_new_is_no_burn() -> None:
    questions = ["tides", "moss", "clocks", "rope", "salt", "ships", "glass", "wool", "bees", "kites"]
    calls = conversation(10, "")
    asked = [llm([*_history(i), {"role": "user", "content": f"And what about {q}?"}], at=60 * i, tokens=calls[i].tokens)
             for i, q in enumerate(questions)]  # fmt: skip
    assert not burn(asked)


def _history(turns: int) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": "a long text"},
        *({"role": "assistant", "content": f"a{i}"} for i in range(turns + 1)),
    ]


def test_a_conversation_that_is_only_prodded_is_one() -> None:
    assert burn(conversation(6, "Continue."), policy(repeat_no_progress={"mode": "off"}, near={"mode": "off"}))


def test_without_messages_an_input_that_grows_by_more_than_the_answer_is_somebody_talking() -> None:
    growing = [call(60 * i, input=100_000 + 401 * i, output=400) for i in range(9)]
    assert not burn(growing)
    assert burn(call(60 * i, input=100_000 + 400 * i, output=400) for i in range(4))


def test_documents_of_a_batch_differ_in_length_and_a_context_hardly_does() -> None:
    assert not burn(
        prompt(f"d{i}", at=60 * i, tokens=Tokens(input=100_000 + 10_001 * (i % 2), output=99)) for i in range(9)
    )
    assert burn(
        prompt(f"d{i}", at=60 * i, tokens=Tokens(input=100_000 + 10_000 * (i % 2), output=99)) for i in range(9)
    )


def test_a_question_that_is_asked_several_times_at_once_is_one() -> None:
    assert not burn(call(0, lasts=9 + i, input=200_000, output=100) for i in range(8))
    assert burn(compactions(4, lasts=60))


def test_a_pause_of_more_than_an_hour_begins_a_new_row() -> None:
    gap = 3600.0
    assert burn(compactions(4, every=gap, lasts=0.0))
    assert not burn(compactions(9, every=gap + 1, lasts=0.0))


def test_a_long_row_is_told_each_time_it_has_doubled_and_blocks_when_asked_to() -> None:
    rules = policy(breaker={"cooldown_s": 1})
    assert [d.evidence.count for d in burn(compactions(20), rules)] == [4, 8, 16]
    run = play(compactions(9), policy(velocity_burn={"mode": "block"}))
    assert (run.blocked_at, run.rule) == (4, "velocity.burn")


def test_embeddings_of_long_texts_bring_no_output_and_are_no_burn() -> None:
    assert not burn(compactions(9, output=0, operation="embeddings"))


@given(st.lists(st.tuples(st.integers(0, 300_000), st.integers(0, 4000), st.booleans()), max_size=40))
@settings(max_examples=60, deadline=None)
def test_what_is_told_was_four_large_calls_in_a_row_without_work(traffic: list[tuple[int, int, bool]]) -> None:
    calls = [
        call(60 * i, input=size, output=brings, called=("t",) if works else ())
        for i, (size, brings, works) in enumerate(traffic)
    ]
    for found in burn(calls):
        before = [c for c in calls[: found.call + 1] if c.tokens.input >= 50_000 or c.called]
        last = before[-4:]
        assert len(last) == 4
        assert not any(c.called or c.tokens.output > 0.01 * c.tokens.input for c in last)


def test_nothing_is_kept_of_a_session_that_works() -> None:
    run = play([*compactions(2), call(200, called=("read",))])
    assert run.session.velocity_burn is None
    assert SessionState.restore(run.session.snapshot()).velocity_burn is None
