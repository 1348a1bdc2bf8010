"""docs/local.md says what is so: its examples run, its numbers are those of the code."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace as Namespace
from typing import Any

from spanfuse import Guard
from spanfuse.calls import caps
from spanfuse.local import host

PAGE = (Path(__file__).parents[2] / "docs" / "local.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def answered(**asked: Any) -> dict[str, Any]:
    """An agent that never gets on."""
    function = {"name": "search", "arguments": '{"query": "minutes"}'}
    message = {"role": "assistant", "tool_calls": [{"id": "t", "type": "function", "function": function}]}
    return {
        "model": asked["model"],
        "choices": [{"message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    }


def test_the_first_example_stops_an_agent_that_repeats_itself(capsys: Any) -> None:
    messages = [{"role": "user", "content": "Find the minutes."}]
    client = Namespace(chat=Namespace(completions=Namespace(create=answered)))

    def search(query: str) -> str:
        called = answered(model="m")["choices"][0]["message"]
        messages.extend([called, {"role": "tool", "tool_call_id": "t", "content": "no results"}])
        return "no results"

    names: dict[str, Any] = {
        "work": True, "messages": messages, "query": "minutes", "client": client, "search": search,
    }  # fmt: skip
    exec(compile(EXAMPLES[0], "docs/local.md", "exec"), names)
    names["guard"].close()
    assert capsys.readouterr().out.startswith("session:run-42 is blocked by repeat.no_progress: ")


def test_the_decorators_are_there() -> None:
    guard = Guard(local=True)
    exec(compile(EXAMPLES[1], "docs/local.md", "exec"), {"guard": guard})
    guard.close()


def test_rules_by_name_are_taken_as_the_table_shows_them() -> None:
    shown = re.search(r"`(\{\"limits\".+?\}\})`", PAGE)
    assert shown is not None
    guard = Guard(local=eval(shown[1]))
    assert guard.local is not None
    assert guard.local.policy.rules.limits.max_steps == 30
    assert guard.local.policy.rules.repeat_prompt.count == 2
    guard.close()


def test_what_is_remembered_is_bounded_as_it_says() -> None:
    assert f"the steps of {host.MAX_SESSIONS:,} sessions and the caps of {caps.MAX_SESSIONS:,}" in PAGE
