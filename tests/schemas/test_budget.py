"""Which budgets hold for whom."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from spanfuse_schemas.budget import Budget, BudgetBook, BudgetOrder
from spanfuse_schemas.periods import Period


def budget(name: str, scope: str = "user", **more: Any) -> Budget:
    given = more if any(key.startswith("limit") for key in more) else {"limit_usd": 1, **more}
    return Budget.model_validate({"name": name, "scope": scope, **given})


def names(book: BudgetBook, **who: str) -> list[str]:
    return [share.budget.name for share in book.all_of(who)]


def test_an_identity_never_seen_has_the_default_and_one_that_is_named_its_own() -> None:
    book = BudgetBook([budget("any"), budget("vip", **{"for": "vip-*"}), budget("anna", **{"for": "vip-anna"})])
    assert names(book, user="new") == ["any"]
    assert names(book, user="vip-bert") == ["vip"]
    assert names(book, user="vip-anna") == ["anna"]


def test_budgets_of_all_scopes_units_and_periods_hold_together() -> None:
    book = BudgetBook(
        [
            budget("user"),
            budget("user/day", period="daily"),
            budget("user/steps", limit_steps=5),
            budget("team", "team", limit_usd=100),
            budget("all", "global"),
        ]
    )
    assert names(book, user="u", team="t") == ["user", "user/day", "user/steps", "team", "all"]
    assert names(book, user="", team="t") == ["team", "all"]


def test_one_that_is_off_holds_for_nobody() -> None:
    assert names(BudgetBook([budget("user", mode="off")]), user="u") == []


def test_its_account_is_named_by_scope_budget_and_period() -> None:
    (share,) = BudgetBook([budget("user/day", period="daily")]).of("user", "u")
    assert share.key(share.budget.period_at(86_400 * 10**9 + 5)) == "user:u|user/day|86400"
    assert share.key(Period(0, 2**63 - 1)) == "user:u|user/day"


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit_usd": 1, "limit_steps": 1},
        {"limit_usd": None},
        {"limit_usd": float("nan")},
        {"limit_usd": float("inf")},
        {"limit_usd": -1},
        {"limit_usd": 0},
        {"time_zone": "Europe/Atlantis"},
        {"thresholds": [0.5, 1.5]},
        {"scope": "global", "for": "me"},
    ],
)
def test_a_budget_that_makes_no_sense_is_an_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Budget.model_validate({"name": "b", "scope": "user", "limit_usd": 1, **wrong})


def test_what_follows_from_a_budget_is_worked_out_once_and_never_for_a_copy_with_other_values() -> None:
    one = Budget(name="user", scope="user", limit_usd=1)
    fresh = Budget(name="user", scope="user", limit_usd=1)
    assert (one.unit, one.limit, one.levels, one.slot) == ("usd", 10**9, (5_000, 8_000, 9_000, 10_000), "tuuser")
    assert one == fresh
    assert one.model_dump() == fresh.model_dump()
    other = one.model_copy(update={"limit_usd": None, "limit_steps": 7, "thresholds": ()})
    assert (other.unit, other.limit, other.levels, other.slot) == ("steps", 7, (10_000,), "tsuser")


@pytest.mark.parametrize(
    "wrong", [{"id": ""}, {"id": "i" * 257}, {"scope": "s" * 4097}, {"at_ns": -1}, {"at_ns": 2**63}]
)
def test_an_order_is_small_and_of_a_time(wrong: dict[str, Any]) -> None:
    """Its id is kept with the account, to carry it out once."""
    known = {"id": "o", "scope": "user:u", "budget": "user", "action": "reset", "at_ns": 1}
    assert BudgetOrder(**known)
    with pytest.raises(ValidationError):
        BudgetOrder(**{**known, **wrong})
