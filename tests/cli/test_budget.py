"""`budget` against an API: what it asks, what it prints, and which orders are none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.conftest import Spanfuse
from tests.support.fake_api import FakeApi

NANO = 10**9


def account(budget: str, used: float, unit: str = "usd", **more: Any) -> dict[str, Any]:
    limit = 5 * NANO if unit == "usd" else 1000
    spent = round(used * limit)
    status = "exhausted" if used >= 1 else "ok"
    row = {
        "scope": "user:u",
        "budget": budget,
        "unit": unit,
        "spent": spent,
        "limit": limit,
        "used": used,
        "status": status,
    }
    return row | {"remaining": max(0, limit - spent), "period_end_ns": None} | more


DAILY = account("user/daily", 0.25, period_end_ns=1_764_028_800 * NANO, held=NANO)
TOKENS = account("tokens", 1.0, "tokens")
ORDER = {
    "action": "set",
    "scope": "user:u",
    "budget": "tokens",
    "amount": 9,
    "at_ns": NANO,
    "actor": "ann",
    "reason": "pilot",
}
ORDERS, REFUSED = "/v1/budgets/orders", {"done": False, "why": "done before", "account": TOKENS}


@pytest.fixture
def answers() -> dict[tuple[str, str], Any]:
    return {
        ("GET", "/v1/budgets"): (200, {"budgets": [DAILY, TOKENS]}),
        ("GET", "/v1/budgets?scope=user%3Au"): (200, {"budgets": [DAILY, TOKENS]}),
        ("GET", "/v1/budgets?scope=team%3At"): (200, {"budgets": []}),
        ("POST", ORDERS): (200, {"done": True, "why": "", "account": DAILY}),
        ("GET", "/v1/budgets/audit?limit=5"): (
            200,
            {
                "audit": [
                    {"order": ORDER, "done": True, "account": TOKENS},
                    {"order": ORDER, "done": False, "why": "no such", "account": TOKENS},
                ]
            },
        ),
        ("POST", "/v1/budgets/rebuild"): (200, {"accounts": 3}),
    }


@pytest.fixture
def api(answers: dict[tuple[str, str], Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    monkeypatch.setenv("COLUMNS", "80")
    with FakeApi(answers) as fake:
        yield fake


def ordered(api: FakeApi) -> list[dict[str, Any]]:
    """The bodies that were sent."""
    return [body for _, _, body in api.requests if body]


def test_accounts_stand_most_used_first_each_in_its_unit(spanfuse: Spanfuse, api: FakeApi) -> None:
    found = spanfuse("budget", "list", "--api", api.url)
    assert found.exit_code == 0, found.output
    rows = [line.split() for line in found.stdout.splitlines()]
    assert rows == [
        ["WHOSE", "BUDGET", "SPENT", "HELD", "LIMIT", "LEFT", "USED", "ENDS"],
        ["user:u", "tokens", "1,000", "1,000", "0", "100%", "exhausted", "never"],
        ["user:u", "user/daily", "$1.2500", "$1.0000", "$5.0000", "$3.7500", "25%", "ok", "now"],
    ]


def test_json_has_the_accounts_as_they_are(spanfuse: Spanfuse, api: FakeApi) -> None:
    found = spanfuse("budget", "list", "--scope", "user:u", "--api", api.url, "--format", "json")
    assert json.loads(found.stdout) == {"budgets": [TOKENS, DAILY]}


def test_of_one_that_is_spent_the_exit_code_is_1_and_it_says_how_to_raise_it(spanfuse: Spanfuse, api: FakeApi) -> None:
    assert spanfuse("budget", "get", "user:u", "user/daily", "--api", api.url).exit_code == 0
    found = spanfuse("budget", "get", "user:u", "--api", api.url)
    assert found.exit_code == 1
    assert "spanfuse budget extend user:u tokens AMOUNT" in found.stderr


@pytest.mark.parametrize("name", [[], ["tokens"]])
def test_that_no_budget_holds_is_a_problem(spanfuse: Spanfuse, api: FakeApi, name: list[str]) -> None:
    found = spanfuse("budget", "get", "team:t", *name, "--api", api.url)
    assert (found.exit_code, found.stderr) == (1, f"spanfuse: no budget {'tokens ' * len(name)}holds for team:t\n")


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        (["set", "user:u", "user/daily", "$2.50"], ("set", 2_500_000_000)),
        (["set", "user:u", "tokens", "1,500"], ("set", 1500)),
        (["extend", "user:u", "tokens", "10"], ("extend", 10)),
        (["reset", "user:u", "tokens"], ("reset", 0)),
    ],
)
def test_an_order_is_in_the_unit_of_its_budget(
    spanfuse: Spanfuse, api: FakeApi, arguments: list[str], sent: tuple[str, int]
) -> None:
    found = spanfuse("budget", *arguments, "--reason", "pilot", "--api", api.url)
    assert found.exit_code == 0, found.output
    (order,) = ordered(api)
    assert (order["action"], order["amount"], order["expires_at_ns"], order["reason"]) == (*sent, None, "pilot")


def test_an_extension_may_last_for_a_while(spanfuse: Spanfuse, api: FakeApi) -> None:
    spanfuse("budget", "extend", "user:u", "tokens", "10", "--for", "2h", "--api", api.url)
    (order,) = ordered(api)
    lasts_ns = order["expires_at_ns"] - order["at_ns"]  # told before the accounts are asked for
    assert 7190 * NANO < lasts_ns <= 7200 * NANO


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["set", "user:u", "tokens", "much"], 2, "no amount, such as 25"),
        (["set", "user:u", "tokens", "-1"], 2, ""),
        (["extend", "user:u", "tokens", "0"], 1, "0 is no amount to extend a budget by"),
        (["set", "user:u", "user/daily", "1e14"], 1, "1e+14 is no amount to set a budget by"),
        (["extend", "user:u", "tokens", "1", "--for", "2 hours"], 2, "no length of time, such as 90s"),
        (["reset", "user:u", "other"], 1, "no budget other holds for user:u; see: spanfuse budget get user:u"),
    ],
)
def test_what_is_no_order_is_not_sent(
    spanfuse: Spanfuse, api: FakeApi, arguments: list[str], code: int, why: str
) -> None:
    found = spanfuse("budget", *arguments, "--api", api.url)
    assert (found.exit_code, ordered(api)) == (code, [])
    assert why in found.stderr


def test_an_order_that_was_not_done_says_why(
    spanfuse: Spanfuse, api: FakeApi, answers: dict[tuple[str, str], Any]
) -> None:
    answers["POST", ORDERS] = (200, REFUSED)
    found = spanfuse("budget", "reset", "user:u", "tokens", "--api", api.url)
    assert (found.exit_code, found.stderr) == (1, "spanfuse: done before\n")


def test_the_audit_says_who_ordered_what_why_and_whether_it_was_done(spanfuse: Spanfuse, api: FakeApi) -> None:
    found = spanfuse("budget", "audit", "--limit", "5", "--api", api.url)
    rows = [line.split() for line in found.stdout.splitlines()]
    assert rows == [
        ["WHEN", "WHO", "ORDER", "WHOSE", "BUDGET", "AMOUNT", "DONE", "REASON"],
        ["1970-01-01", "00:00Z", "ann", "set", "user:u", "tokens", "9", "yes", "pilot"],
        ["1970-01-01", "00:00Z", "ann", "set", "user:u", "tokens", "9", "no", "such", "pilot"],
    ]


def test_a_rebuild_says_how_many_accounts_were_set(spanfuse: Spanfuse, api: FakeApi) -> None:
    assert spanfuse("budget", "rebuild", "--api", api.url).stdout.startswith("3 accounts of strict budgets")
