"""Calls as no integration makes them: with values of foreign kinds, used again, begun twice."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from spanfuse import Blocked, Guard
from spanfuse.testing import FakeGuard
from spanfuse.tools import ToolPolicy


class Model(enum.Enum):
    """A model, as some name theirs."""

    SMALL = "small"


class Unshowable:
    """A value of who knows which library."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    def __str__(self) -> str:
        raise RuntimeError("not shown")


class Elements:
    """As an array: equality is no yes or no."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        return Elements()

    def __bool__(self) -> bool:
        raise ValueError("the truth value of an array is ambiguous")


def until_blocked(make: Any) -> int:
    for made in range(20):
        try:
            make()
        except Blocked:
            return made
    raise AssertionError("it was never stopped")


@pytest.mark.parametrize(
    "odd", [None, Model.SMALL, 7, [], Unshowable()], ids=["none", "enum", "int", "list", "foreign"]
)
@pytest.mark.parametrize("parameter", ["model", "provider", "operation", "cost_usd", "max_output_tokens", "call_id"])
def test_a_cap_holds_whatever_a_call_says_of_itself(parameter: str, odd: Any) -> None:
    guard = Guard(local=True)

    def make() -> None:
        with guard.call(**{parameter: odd}):
            pass

    with guard.session("s", max_steps=2, budget_usd=100.0):
        assert until_blocked(make) == 2


@pytest.mark.parametrize("odd", [Elements(), Unshowable()], ids=["array", "foreign"])
def test_a_tool_in_a_tool_may_have_arguments_that_cannot_be_compared(odd: Any) -> None:
    guard = FakeGuard()
    with guard.tool("plot", {"data": odd}), guard.tool("plot", {"data": Elements()}) as inner:
        assert inner.began_ns


def test_a_tool_whose_name_cannot_be_shown_is_denied_where_there_are_rules() -> None:
    guard = Guard(local=True, tools=ToolPolicy().deny("bash"))
    with pytest.raises(Blocked), guard.tool(Unshowable(), {}):  # type: ignore[arg-type]
        pass


def test_a_call_that_is_used_again_is_another_call() -> None:
    guard = Guard(local=True)
    call = guard.call(model="gpt-4o-mini", messages=[{"role": "user", "content": "Done?"}])
    ids = set()

    def again() -> None:
        with call:
            ids.add(call.call_id)
            call.answered("Not yet.")

    with guard.session("s", budget_usd=10.0):
        made = until_blocked(again)
    assert made == 3
    assert len(ids) == 3
    assert guard.spent("s").steps == 3


def test_a_tool_that_is_used_again_is_another_execution() -> None:
    guard = Guard(local=True)
    tool = guard.tool("search", {"query": "minutes"}, session="s")

    def again() -> None:
        with tool:
            tool.result("no results")

    assert until_blocked(again) <= 5


def test_a_call_that_is_begun_twice_counts_once() -> None:
    guard = FakeGuard()
    with guard.session("s", budget_usd=10.0):
        call = guard.call(model="gpt-4o-mini")
        call.begin()
        call.begin()
        call.settle(cost_usd=0.0)
        call.end()
        call.end()
    assert guard.spent("s").steps == 1
    assert guard.caps.admit("s", 0) is None
