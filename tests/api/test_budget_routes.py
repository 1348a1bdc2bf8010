"""Budgets, and orders about them."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse_processor.core.budgets import Ordered
from spanfuse_processor.errors import SpanfuseError
from spanfuse_schemas import BudgetOrder
from tests.support.api import Api
from tests.support.loops import in_loop

WHICH = {"scope": "user:u-7", "budget": "user/daily"}
ORDER = {"id": "1", **WHICH, "action": "set", "amount": 5, "at_ns": 7}


@in_loop
async def test_accounts_are_those_of_one_scope_or_of_all(api: Api) -> None:
    assert await api("GET", "/v1/budgets") == (200, {"budgets": await api.host.budgets()})
    assert await api("GET", "/v1/budgets?scope=user:u-7") == (200, {"budgets": await api.host.budgets("user:u-7")})
    assert len((await api("GET", "/v1/budgets?limit=2"))[1]["budgets"]) == 2


@in_loop
async def test_a_limit_is_put_under_an_id_of_its_own_unless_one_is_given(api: Api) -> None:
    status, body = await api("PUT", "/v1/budgets", json=WHICH | {"amount": 9, "reason": "launch", "actor": "alice"})
    assert (status, body["done"], body["account"]["scope"]) == (200, True, "user:u-7")
    await api("PUT", "/v1/budgets", json=WHICH | {"amount": 9, "id": "mine"})
    first, second = api.host.orders
    assert (first.action, first.amount, first.reason, first.actor) == ("set", 9, "launch", "alice")
    assert len(first.id) == 32
    assert second.id == "mine"


@in_loop
async def test_a_budget_is_extended_until_a_moment_or_the_end_of_its_period(api: Api) -> None:
    assert (await api("POST", "/v1/budgets/extend", json=WHICH | {"amount": 3, "expires_at_ns": 99}))[0] == 200
    assert (await api("POST", "/v1/budgets/extend", json=WHICH | {"amount": 3}))[0] == 200
    assert [(o.action, o.amount, o.expires_at_ns) for o in api.host.orders] == [("extend", 3, 99), ("extend", 3, None)]


@in_loop
async def test_an_order_is_answered_with_the_account_and_why_it_was_not_done(api: Api) -> None:
    account = (await api.host.budgets("user:u-7"))[0]
    assert await api("POST", "/v1/budgets/orders", json=ORDER) == (200, {"done": True, "why": "", "account": account})
    assert api.host.orders == [BudgetOrder.model_validate(ORDER)]

    async def twice(order: BudgetOrder) -> Ordered:
        return Ordered(order, done=False, why="twice", account=account)

    api.host.order = twice  # type: ignore[method-assign]
    assert await api("POST", "/v1/budgets/orders", json=ORDER) == (
        200,
        {"done": False, "why": "twice", "account": account},
    )


@pytest.mark.parametrize(
    ("method", "path", "more"), [("PUT", "", {}), ("POST", "/extend", {}), ("POST", "/orders", ORDER)]
)
def test_a_budget_that_holds_for_nobody_is_not_found(method: str, path: str, more: dict[str, Any]) -> None:
    @in_loop
    async def run() -> None:
        api = Api()
        order = more | WHICH | {"budget": "x", "amount": 1}
        assert await api(method, f"/v1/budgets{path}", json=order) == (404, {"error": "no budget x holds for user:u-7"})
        assert api.host.orders == []

    run()


@pytest.mark.parametrize(
    ("order", "error"),
    [
        ({"amount": 0}, "amount: Input should be greater than 0"),
        ({"amount": 2**63}, "amount: Input should be less than"),
        ({"amount": 1, "scope": ""}, "scope: String should have at least 1"),
        ({"amount": 1, "actor": "x" * 129}, "actor: String should have at most 128"),
        ({"amount": 1, "action": "reset"}, "action: Extra inputs are not permitted"),
    ],
)
def test_an_extension_that_is_none_is_refused(order: dict[str, Any], error: str) -> None:
    @in_loop
    async def run() -> None:
        status, body = await Api()("POST", "/v1/budgets/extend", json=WHICH | order)
        assert status == 400
        assert body["error"].startswith(error)

    run()


@in_loop
async def test_what_became_of_orders_is_listed_newest_first_up_to_a_limit(api: Api) -> None:
    for n in range(3):
        await api("POST", "/v1/budgets/orders", json=ORDER | {"id": str(n)})
    _, body = await api("GET", "/v1/budgets/audit?limit=2")
    assert [one["order"]["id"] for one in body["audit"]] == ["2", "1"]


@in_loop
async def test_what_this_deployment_cannot_do_is_a_409_that_says_why(api: Api) -> None:
    assert await api("POST", "/v1/budgets/rebuild", json={}) == (200, {"accounts": 18})

    async def none() -> int:
        raise SpanfuseError("extensions.ledger is not set")

    api.host.rebuild = none  # type: ignore[method-assign]
    assert await api("POST", "/v1/budgets/rebuild", json={}) == (409, {"error": "extensions.ledger is not set"})
