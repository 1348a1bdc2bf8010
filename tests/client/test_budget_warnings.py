"""An agent's code learns that a budget runs out, while there is something left to finish with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spanfuse.ledger import SqliteLedger
from spanfuse.steering.budget_warnings import BudgetWarning
from spanfuse.testing import FakeGuard
from tests.support.budgets import defined, strict


def watched(**settings: Any) -> tuple[FakeGuard, list[BudgetWarning]]:
    """A Guard, and what it warns of."""
    guard, told = FakeGuard(**settings), list[BudgetWarning]()
    guard.on_budget(told.append)
    return guard, told


def calls(guard: FakeGuard, *costs: float, session: str = "run-1") -> None:
    """Calls of so many dollars."""
    for cost in costs:
        with guard.call(session=session, model="m") as call:
            call.settle(cost_usd=cost)


def test_each_fraction_is_told_once_a_session() -> None:
    """R127: a hard stop does not come without notice."""
    guard, told = watched()
    with guard.session("run-1", budget_usd=1.0):
        calls(guard, *[0.1] * 10)
    assert [(one.fraction, round(one.left, 6)) for one in told] == [(0.5, 0.5), (0.2, 0.2), (0.1, 0.1)]
    assert told[0] == BudgetWarning("session:run-1", "budget_usd", 0.5, 0.5, 1.0, "USD", "run-1")
    with guard.session("run-2", budget_usd=1.0):
        calls(guard, 0.6, session="run-2")
    assert told[-1].key == "session:run-2"


def test_of_several_passed_at_once_the_smallest_is_told() -> None:
    guard, told = watched()
    with guard.session("run-1", budget_usd=1.0):
        calls(guard, 0.85, 0.01)
    assert [one.fraction for one in told] == [0.2]


def test_steps_are_warned_of_as_well() -> None:
    guard, told = watched()
    with guard.session("run-1", max_steps=4):
        calls(guard, *[0.0] * 4)
    assert [(one.budget, one.fraction, one.left, one.unit) for one in told] == [
        ("max_steps", 0.5, 2, "calls"),
        ("max_steps", 0.1, 0, "calls"),
    ]


def test_a_session_without_caps_is_not_warned_of() -> None:
    guard, told = watched()
    calls(guard, 5.0)
    assert told == []


def test_another_limit_is_warned_of_anew() -> None:
    guard, told = watched()
    with guard.session("run-1", budget_usd=1.0):
        calls(guard, 0.6)
    with guard.session("run-1", budget_usd=2.0):
        calls(guard, 0.5)
    assert [(one.fraction, one.limit) for one in told] == [(0.5, 1.0), (0.5, 2.0)]


def test_caps_of_rules_are_warned_of_where_they_are_kept_in_the_process() -> None:
    guard, told = watched(local={"budget.session": {"limit_usd": 1.0}, "limits": {"max_steps": 4}})
    calls(guard, 0.3, 0.3)
    assert [(one.budget, one.fraction, one.limit) for one in told] == [
        ("budget.session", 0.5, 1.0),
        ("limits.max_steps", 0.5, 4),
    ]


def test_strict_budgets_are_warned_of_by_what_the_ledger_tells(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "l.sqlite")
    defined(ledger, strict(limit_usd=10))
    guard, told = watched(ledger=ledger)
    with guard.session("run-1", user="ada"):
        calls(guard, 6.0, 0.1, 2.5, 0.1)
    guard.close()
    ledger.close()
    assert [(one.key, one.fraction, round(one.left, 6), one.unit) for one in told] == [
        ("user:ada", 0.5, 4.0, "USD"),
        ("user:ada", 0.2, 1.4, "USD"),
    ]


def test_a_callback_that_fails_is_counted_and_the_call_goes_on() -> None:
    guard = FakeGuard()
    guard.on_budget(lambda warning: [][99])
    with guard.session("run-1", budget_usd=1.0):
        calls(guard, 0.9)
    assert guard.counters.errors == 1


@pytest.mark.parametrize("fractions", [(), (0,), (1,), (0.5, 2)], ids=repr)
def test_what_is_no_fraction_is_an_error(fractions: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="shares"):
        FakeGuard().on_budget(print, fractions)
