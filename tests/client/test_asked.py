"""What the Guard is shown of a request, API by API."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse.reading.asked import Kind, asked, nudged

SAID = [{"role": "user", "content": "hi"}]
TOOLS = [{"type": "function", "name": "search"}]
NUDGE = {"role": "user", "content": "Try something else."}


@pytest.mark.parametrize(
    ("kind", "body", "shown"),
    [
        (
            "chat",
            {"model": "m", "messages": SAID, "tools": TOOLS, "max_completion_tokens": 9, "max_tokens": 5},
            {"model": "m", "messages": SAID, "tools": TOOLS, "max_output_tokens": 9},
        ),
        ("chat", {"max_tokens": 5}, {"model": "", "messages": None, "tools": None, "max_output_tokens": 5}),
        (
            "responses",
            {"model": "m", "input": "hi", "instructions": "Be brief.", "max_output_tokens": 9},
            {"model": "m", "prompt": "hi", "system": "Be brief.", "tools": None, "max_output_tokens": 9},
        ),
        (
            "responses",
            {"model": "m", "input": SAID, "tools": TOOLS},
            {"model": "m", "messages": SAID, "system": None, "tools": TOOLS, "max_output_tokens": None},
        ),
        (
            "messages",
            {"model": "m", "messages": SAID, "system": "Be brief.", "max_tokens": 9, "tools": TOOLS},
            {"model": "m", "messages": SAID, "system": "Be brief.", "tools": TOOLS, "max_output_tokens": 9},
        ),
        (
            "completions",
            {"model": "m", "prompt": "hi", "max_tokens": 9},
            {"model": "m", "prompt": "hi", "max_output_tokens": 9, "operation": "text_completion"},
        ),
        (
            "embeddings",
            {"model": "m", "input": ["a", "b"]},
            {"model": "m", "prompt": ["a", "b"], "max_output_tokens": 0, "operation": "embeddings"},
        ),
    ],
)
def test_each_api_is_read_in_its_own_words(kind: Kind, body: dict[str, Any], shown: dict[str, Any]) -> None:
    assert asked(kind, body) == shown


@pytest.mark.parametrize("kind", ["chat", "responses", "messages", "completions", "embeddings"])
@pytest.mark.parametrize(
    "body", [{}, {"model": 7, "messages": 7, "input": {}, "max_tokens": "many", "max_output_tokens": -1}]
)
def test_nonsense_is_nobodys_fault_here(kind: Kind, body: dict[str, Any]) -> None:
    shown = asked(kind, body)
    assert shown["model"] == ""
    assert shown["max_output_tokens"] in (None, 0)


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("chat", {"messages": SAID}, {"messages": [*SAID, NUDGE]}),
        ("messages", {"messages": SAID, "system": "s"}, {"messages": [*SAID, NUDGE], "system": "s"}),
        ("responses", {"input": "hi"}, {"input": [*SAID, NUDGE]}),
        ("responses", {"input": SAID}, {"input": [*SAID, NUDGE]}),
        ("completions", {"prompt": "hi"}, {"prompt": "hi\n\nTry something else."}),
        ("completions", {"prompt": ["hi"]}, {"prompt": ["hi"]}),
        ("embeddings", {"input": "hi"}, {"input": "hi"}),
    ],
)
def test_a_nudge_is_the_last_word_of_a_conversation(kind: Kind, before: dict[str, Any], after: dict[str, Any]) -> None:
    assert nudged(kind, before, "Try something else.") == after
