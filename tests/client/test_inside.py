"""What runs inside a call, of a model or a tool, and is guarded as well; also where callbacks begin and end it."""

from __future__ import annotations

import contextvars
from contextlib import suppress
from typing import Any

import pytest

from spanfuse import Blocked, Guard
from spanfuse.calls.model_call import AT_HAND
from spanfuse.calls.tool_call import ToolCall
from spanfuse.testing import FakeGuard


def test_a_call_inside_another_that_callbacks_made_is_the_same_call() -> None:
    guard = FakeGuard()
    with guard.session("s", max_steps=10):
        outer = guard.call(model="m")
        outer.begin()
        outer.inside()
        with guard.call(model="m"):
            pass
        outer.end()
        outer.outside()
        assert guard.spent().steps == 1


def test_what_runs_after_its_answer_began_is_another_call() -> None:
    guard = FakeGuard()
    with guard.session("s", max_steps=10):
        outer = guard.call(model="m")
        outer.begin()
        outer.inside()
        outer.outside()
        with guard.call(model="m"):
            pass
        outer.end()
        assert guard.spent().steps == 2


def test_a_call_that_is_over_swallows_no_others_where_nobody_went_outside() -> None:
    """As in the context of a generator that was closed in another context than it began in."""
    guard = FakeGuard()
    with guard.session("s", max_steps=10):
        left = guard.call(model="m")
        context = contextvars.copy_context()
        context.run(left.begin)
        context.run(left.inside)
        left.end()

        def another() -> None:
            assert AT_HAND.get() is left
            with guard.call(model="m"):
                pass

        context.run(another)
        assert guard.spent().steps == 2


class Tools:
    """A listener that remembers tools."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, Any]] = []

    def tool_ended(self, tool: ToolCall) -> None:
        self.ended.append((tool.name, tool.arguments))


def test_the_same_tool_inside_its_execution_is_the_same_execution() -> None:
    guard, heard = FakeGuard(), Tools()
    guard.listen(heard)
    with guard.tool("search", {"q": 1}), guard.tool("search", {"q": 1}):
        pass
    assert heard.ended == [("search", {"q": 1})]


def test_another_tool_inside_an_execution_is_another() -> None:
    """As of an agent that is a tool."""
    guard, heard = FakeGuard(), Tools()
    guard.listen(heard)
    with guard.tool("search", {"q": 1}):
        with guard.tool("search", {"q": 2}):
            pass
        with guard.tool("search", {"q": 1}):
            pass
    assert heard.ended == [("search", {"q": 2}), ("search", {"q": 1})]


def test_a_loop_inside_a_call_is_stopped_as_any_other() -> None:
    """As of a function that was decorated as one call, and is a whole agent."""
    guard = Guard(local=True)
    asked = 0

    @guard.wrap_call
    def agent(prompt: str) -> str:
        nonlocal asked
        while True:
            with guard.call(messages=[{"role": "user", "content": prompt}]) as call:
                asked += 1
                call.answered("Let me try again.")

    with guard.session("s", max_steps=10), pytest.raises(Blocked):
        agent("Find the minutes.")
    assert asked == 4  # the first is the function's own, and three of the same are too many
    assert guard.spent("s").steps == 4


def test_what_is_tried_again_inside_a_call_is_the_same_call() -> None:
    guard = FakeGuard()
    with guard.session("s", max_steps=10), guard.call():
        for _ in range(3):
            with suppress(TimeoutError), guard.call():
                raise TimeoutError
        with guard.call(), guard.call():
            pass
        assert guard.spent().steps == 1
