"""An agent's code learns how full the model's context window is."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse.steering.context_pressure import ContextPressure
from spanfuse.testing import FakeGuard

WORD = "abcd"
"""One token by the estimate."""


def watched(window: Any = 100, **settings: Any) -> tuple[FakeGuard, list[ContextPressure]]:
    """A Guard, and what it tells of."""
    guard, told = FakeGuard(), list[ContextPressure]()
    guard.on_context(window, told.append, **settings)
    return guard, told


def ask(
    guard: FakeGuard, tokens: int, counted: int | None = None, *, model: str = "m", agent: str | None = None
) -> None:
    """A call of so many tokens by the estimate, of which the provider counts another number."""
    messages = [{"role": "user", "content": WORD * tokens}]
    with guard.call(model=model, messages=messages, session="s", agent=agent) as call:
        if counted is not None:
            reply = {"message": {"role": "assistant", "content": "ok"}}
            call.answered({"choices": [reply], "usage": {"prompt_tokens": counted}})


def test_a_tier_is_told_when_it_is_reached_before_the_call_by_the_estimate() -> None:
    guard, told = watched()
    for tokens in (50, 61, 65, 85, 95, 99):
        ask(guard, tokens)
    assert [(one.tier, one.tokens, one.estimated) for one in told] == [
        ("warning", 61, True),
        ("error", 85, True),
        ("blocking", 95, True),
    ]
    assert told[0] == ContextPressure("warning", 0.61, 61, 100, True, "m", "s", None)


def test_what_the_provider_counts_corrects_the_estimate() -> None:
    guard, told = watched()
    ask(guard, 40, 85)
    assert [(one.tier, one.tokens, one.estimated) for one in told] == [("error", 85, False)]
    ask(guard, 30)
    ask(guard, 44)
    assert [(one.tier, one.tokens, one.estimated) for one in told[1:]] == [("blocking", 94, True)]


def test_an_estimate_and_a_count_that_differ_a_little_are_not_told_apart() -> None:
    guard, told = watched()
    for _ in range(5):
        ask(guard, 61, 59)
    assert len(told) == 1


def test_it_is_told_again_after_the_conversation_was_shortened() -> None:
    guard, told = watched()
    for tokens in (70, 10, 70):
        ask(guard, tokens)
    assert [one.tier for one in told] == ["warning", "warning"]


def test_each_agent_of_a_session_has_its_own_window() -> None:
    guard, told = watched()
    for agent in ("planner", "writer", "planner"):
        ask(guard, 70, agent=agent)
    assert [one.agent for one in told] == ["planner", "writer"]


def test_windows_are_by_model_and_a_model_without_one_is_passed_over() -> None:
    for window in ({"m": 100}, {"m": 100}.get):
        guard, told = watched(window)
        ask(guard, 70)
        ask(guard, 5_000, model="other")
        assert [one.model for one in told] == ["m"]


def test_tiers_have_names_of_ones_own() -> None:
    guard, told = watched(at={"compact": 0.5})
    ask(guard, 55)
    assert told[0].tier == "compact"


def test_a_callback_that_fails_is_counted_and_the_call_goes_on() -> None:
    guard = FakeGuard()
    guard.on_context(100, lambda pressure: [][99])
    ask(guard, 70)
    assert guard.counters.errors == 1


@pytest.mark.parametrize("at", [{}, {"a": 0}, {"a": 1.5}], ids=repr)
def test_what_is_no_share_is_an_error(at: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="share"):
        FakeGuard().on_context(100, print, at)
