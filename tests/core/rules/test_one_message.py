"""repeat.error: one tool that fails with one message whatever it is asked."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.agents import play, policy, tool_loop

MISSING = "Error: string to replace not found"


def failing(count: int, message: str = MISSING) -> list[tuple[str, Any, str]]:
    return [("edit", {"old": f"line {chr(97 + i)}"}, message) for i in range(count)]


def test_eight_in_a_row_are_worth_a_nudge_and_never_a_stop() -> None:
    run = play(tool_loop(failing(20)))
    assert [(d.rule, d.action) for d in run.detections] == [("repeat.error", "nudge")]
    assert run.blocked_at is None


@pytest.mark.parametrize(("count", "told"), [(7, False), (8, True)])
def test_the_limit_is_eight(count: int, told: bool) -> None:
    assert play(tool_loop(failing(count))).quiet is not told
    assert play(tool_loop(failing(count)), policy(repeat_error={"one_message": count + 1})).quiet


def test_another_message_another_tool_or_a_success_between_ends_the_row() -> None:
    for other in (
        ("edit", {"old": "x"}, "Error: file not found"),
        ("read", {}, MISSING),
        ("edit", {"old": "x"}, "done"),
    ):
        assert play(tool_loop([*failing(6), other, *failing(7)[1:]])).quiet
