"""A nudge is added to a conversation in the form in which the conversation is."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from spanfuse.steering.nudges import with_nudge

SAID = {"role": "user", "content": "Try something else."}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "none"}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ("Ask.", "Ask.\n\nTry something else."),
        ("", "Try something else."),
        (None, [SAID]),
        ([], [SAID]),
        ([{"role": "user", "content": "Ask."}], [{"role": "user", "content": "Ask."}, SAID]),
        (
            [{"role": "assistant", "tool_calls": []}, {"role": "tool", "content": "none"}],
            [{"role": "assistant", "tool_calls": []}, {"role": "tool", "content": "none"}, SAID],
        ),
        (
            [{"type": "function_call_output", "call_id": "c", "output": "none"}],
            [{"type": "function_call_output", "call_id": "c", "output": "none"}, SAID],
        ),
        (
            [{"role": "user", "content": [RESULT]}],
            [{"role": "user", "content": [RESULT, {"type": "text", "text": "Try something else."}]}],
        ),
        (
            ({"role": "user", "parts": [{"text": "Ask."}]},),
            (
                {"role": "user", "parts": [{"text": "Ask."}]},
                {"role": "user", "parts": [{"text": "Try something else."}]},
            ),
        ),
    ],
    ids=[
        "text",
        "empty text",
        "nothing",
        "no messages",
        "chat",
        "chat, tool",
        "responses",
        "anthropic, tool",
        "gemini",
    ],
)
def test_it_comes_at_the_end_of_a_copy(messages: Any, expected: Any) -> None:
    before = copy.deepcopy(messages)
    assert with_nudge(messages, "Try something else.") == expected
    assert messages == before


def test_without_a_text_and_for_what_is_no_conversation_nothing_is_made() -> None:
    messages, stream = [SAID], iter([SAID])
    assert with_nudge(messages, "") is messages
    assert with_nudge(stream, "x") is stream
