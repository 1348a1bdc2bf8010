"""Strict budgets hold for calls through the proxy: they are reserved before, and settled after them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from spanfuse.ledger import Definitions, SqliteLedger
from spanfuse_schemas.budget import Budget
from tests.client.waiting import wait_until
from tests.proxy.conftest import CHAT, body
from tests.support.fake_provider import FakeProvider, Hold, Reply, failure
from tests.support.proxied import Proxied, guard

ADA = {"X-Spanfuse-User": "ada"}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    found = SqliteLedger(str(tmp_path / "ledger.db"))
    steps = Budget(name="daily", scope="user", limit_steps=3, period="daily", strength="strict")
    money = Budget(name="total", scope="team", limit_usd=1.0, strength="strict")
    found.define(Definitions(budgets=(steps, money)))
    yield found
    found.close()


@pytest.fixture
def strict(provider: FakeProvider, ledger: SqliteLedger) -> Iterator[Proxied]:
    with Proxied(provider, guard(local=True, ledger=ledger, mode="enforce")) as started:
        yield started


def post(proxied: Proxied, n: int, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
    sent = body(f"question {n}", max_tokens=100, **more)
    return httpx.post(f"{proxied.url}{CHAT}", json=sent, headers=headers or ADA, timeout=30)


def test_calls_at_one_time_get_no_more_than_there_is(provider: FakeProvider, strict: Proxied) -> None:
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda n: post(strict, n), range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] * 3 + [429] * 7
    assert provider.calls == 3
    told = next(answer.json() for answer in answers if answer.status_code == 429)
    assert (told["error"]["code"], told["key"], told["limit"], told["unit"]) == (
        "spanfuse_budget_exceeded", "user:ada", 3, "steps",
    )  # fmt: skip


def test_what_the_provider_refused_is_given_back(provider: FakeProvider, strict: Proxied) -> None:
    provider.script(*[failure(500)] * 4)
    assert [post(strict, n).status_code for n in range(4)] == [500] * 4
    assert post(strict, 5).status_code == 200


def test_money_is_settled_by_what_the_call_took(provider: FakeProvider, strict: Proxied) -> None:
    provider.default = Reply(input_tokens=1_000_000, output_tokens=0)
    team = {"X-Spanfuse-Team": "research"}
    costs = [float(post(strict, n, team).headers.get("x-spanfuse-cost", "nan")) for n in range(7)]
    assert all(cost == pytest.approx(0.15) for cost in costs), "gpt-4o-mini, and the last one had room when it began"
    refused = post(strict, 8, team)
    assert (refused.status_code, refused.json()["limit"], refused.json()["unit"]) == (429, 1.0, "USD")


def test_a_client_that_leaves_does_not_leave_its_reservation(provider: FakeProvider, strict: Proxied) -> None:
    provider.script(Hold(Reply("one two three"), threading.Event(), after=2))
    sent = body(stream=True, max_tokens=100)
    with httpx.stream("POST", f"{strict.url}{CHAT}", json=sent, headers=ADA) as answer:
        next(answer.iter_raw())
    wait_until(lambda: provider.underway == 0)
    wait_until(lambda: post(strict, 1).status_code == 200)
    statuses = [post(strict, n).status_code for n in range(2, 4)]
    assert statuses == [200, 429], "one step was its own"
