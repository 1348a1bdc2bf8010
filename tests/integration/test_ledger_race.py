"""64 processes race one strict budget of ten dollars: exact to the nano-dollar, also when a third of them is killed."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spanfuse.ledger import Amounts, Ledger, RedisLedger, SqliteLedger
from tests.client.waiting import wait_until
from tests.services.redis_server import RedisService
from tests.support.budgets import account, defined, strict
from tests.support.race import MAX_NANO, race

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

LIMIT = 10 * 10**9


@pytest.fixture(params=["sqlite", "redis"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Ledger]:
    """Opens the books of a test: a way of its own for each process."""
    if request.param == "sqlite":
        return lambda: SqliteLedger(tmp_path / "race.sqlite", timeout_s=60)
    url, tenant = request.getfixturevalue("redis_service").url, f"race-{time.time_ns()}"
    return lambda: RedisLedger(url, tenant, timeout_s=30)


def test_no_process_spends_what_another_has_reserved(make: Callable[[], Ledger], tmp_path: Path) -> None:
    """R050: no more than ten dollars, no less than fits, and nothing left held."""
    ledger = defined(make(), strict(limit_usd=10))
    raced = race(make, tmp_path / "log", processes=64, calls=200)
    found = account(ledger)
    assert raced.calls.total() == 64 * 200
    assert raced.calls["refused"]
    assert (found.spent, found.held) == (raced.settled, 0)
    assert LIMIT - MAX_NANO < found.spent <= LIMIT


def test_what_killed_processes_held_comes_back(make: Callable[[], Ledger], tmp_path: Path) -> None:
    """R055: a third of them is killed with kill -9 while it holds money; once the holds expire all of it can be spent."""
    ledger = defined(make(), strict(limit_usd=10))
    raced = race(make, tmp_path / "log", processes=64, calls=100, victims=21, hold_s=6)
    assert raced.calls["holds"] == 21
    wait_until(lambda: account(ledger).held == 0, 20, "the holds have expired")
    found = account(ledger)
    assert found.spent == raced.settled <= LIMIT
    ledger.reserve("all the rest", {"user": "u"}, Amounts(LIMIT - found.spent))
    assert account(ledger).remaining == 0


def test_new_users_have_the_default_budget_from_their_first_call_on(
    redis_service: RedisService, tmp_path: Path
) -> None:
    """R051: eight processes with the first call of a user at once; the budget is enough for one of them."""
    tenant = f"race-{time.time_ns()}"

    def make() -> Ledger:
        return RedisLedger(redis_service.url, tenant, timeout_s=30)

    ledger = defined(make(), strict(limit_steps=1))
    raced = race(make, tmp_path / "log", processes=8, calls=1)
    assert raced.calls == {"settled": 1, "refused": 7}
    assert account(ledger).spent == 1


def test_threads_tasks_and_forked_children_may_share_one_ledger(make: Callable[[], Ledger], tmp_path: Path) -> None:
    """Each has a connection of its own, and none hears the answer to another."""
    ledger = defined(make(), strict(limit_steps=10_000))

    def call(name: str) -> None:
        hold = ledger.reserve(name, {"user": "u"}, Amounts(n := len(name), n))
        assert hold.call_id == name
        assert ledger.settle(hold, Amounts(n, n)).was == "held"

    async def awaited(name: str) -> None:
        hold = await ledger.areserve(name, {"user": "u"}, Amounts())
        assert (await ledger.asettle(hold, Amounts())).was == "held"

    async def together() -> None:
        await asyncio.gather(*(awaited(f"task-{n}") for n in range(50)))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(call, [f"thread-{n}" for n in range(200)]))
    asyncio.run(together())
    raced = race(lambda: ledger, tmp_path / "log", processes=4, calls=50)
    list(map(call, [f"after-{n}" for n in range(20)]))
    assert raced.calls["settled"] == 180
    found = account(ledger)
    assert (found.spent, found.held) == (200 + 50 + 180 + 20, 0)
