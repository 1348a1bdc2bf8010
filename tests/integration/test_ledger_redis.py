"""What only a ledger in Redis can meet: a cluster, a restart, a script that was flushed, a server that goes away."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator

import pytest
import redis

from spanfuse import Guard
from spanfuse.decisions.leases import Breaker, leases_at
from spanfuse.ledger import Amounts, Ledger, RedisLedger, connect
from spanfuse.over_budget import OverBudget
from spanfuse.testing import MemorySubscriber
from tests.client.waiting import wait_until
from tests.services.redis_cluster import cluster_of_one
from tests.services.redis_server import RedisService
from tests.support.budgets import account, books, defined, order, refused, strict, usd

pytestmark = pytest.mark.integration

U = {"user": "u"}
_tenants = (f"redis-{time.time_ns()}-{n}" for n in itertools.count())


@pytest.fixture
def ledger(redis_service: RedisService) -> Iterator[RedisLedger]:
    made = RedisLedger(redis_service.url, next(_tenants), timeout_s=5)
    yield made
    made.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with cluster_of_one() as url:
        yield url


def test_on_a_cluster_all_books_of_a_tenant_lie_in_one_slot(cluster: str) -> None:
    tenants = [RedisLedger(cluster, f"t{n}", timeout_s=5, cluster=True) for n in range(3)]
    for ledger in tenants:
        defined(ledger, strict(), strict("day", "team", period="daily"))
        hold = ledger.reserve("c", {"user": "u", "team": "t"}, usd(0.4))
        assert refused(ledger, "d", 0.7)
        ledger.settle(hold, usd(0.3))
        assert ledger.order(order("o", "extend", 1))
        ledger.rebuild([account(ledger)])
        assert ledger.release("c") is False
    assert [books(ledger) for ledger in tenants] == [(0.3, 0)] * 3


def test_on_a_cluster_it_can_be_awaited(cluster: str) -> None:
    ledger = connect(f"{cluster}?cluster=1&tenant=awaited&timeout_ms=5000")
    defined(ledger, strict())

    async def spend() -> None:
        await ledger.asettle(await ledger.areserve("c", U, usd(0.4)), usd(0.3))

    asyncio.run(spend())
    assert books(ledger) == (0.3, 0)


def test_on_a_cluster_leases_of_several_breakers_lie_in_one_slot_whatever_their_keys(cluster: str) -> None:
    leases = leases_at(f"{cluster}?cluster=1&tenant=leases&timeout_ms=5000", None)
    assert leases is not None
    both = Breaker("session:{of} a \udcff", 1, 1), Breaker("agent:a", 7, 1)
    assert leases.take("first", both, 60) is None
    assert leases.take("first", both, 60) is None, "asked again, as after an answer that was lost"
    denied = leases.take("second", both[::-1], 60)
    assert denied is not None
    assert (denied.nth, 50 < denied.wait_s <= 60) == (0, True)
    leases.give_back("first", both)
    assert leases.take("second", both, 60) is None


def test_a_script_that_was_flushed_is_loaded_again(ledger: RedisLedger, redis_service: RedisService) -> None:
    defined(ledger, strict())
    with redis.Redis.from_url(redis_service.url) as client:
        client.script_flush()
        hold = ledger.reserve("c", U, usd(0.4))
        client.script_flush()
        asyncio.run(ledger.asettle(hold, usd(0.3)))
    assert books(ledger) == (0.3, 0)


def test_tenants_know_nothing_of_each_other(redis_service: RedisService) -> None:
    one, other = (RedisLedger(redis_service.url, next(_tenants), timeout_s=5) for _ in range(2))
    defined(one, strict())
    one.reserve("c", U, usd(0.4))
    assert other.budgets() == ()
    assert other.accounts() == []


def test_periods_are_those_of_the_servers_clock(redis_service: RedisService) -> None:
    """A client whose clock is a day off is told so, and asks again."""
    tenant = next(_tenants)
    right = RedisLedger(redis_service.url, tenant, timeout_s=5)
    defined(right, strict(period="daily"))
    wrong = RedisLedger(redis_service.url, tenant, timeout_s=5)
    wrong._steps._now_ns = lambda: time.time_ns() - 24 * 3600 * 10**9
    for ledger in (right, wrong):
        ledger.reserve(str(id(ledger)), U, usd(0.3))
    (found,) = right.accounts("user:u")
    assert found.held == 600_000_000


def test_money_is_held_until_the_server_says_that_its_time_is_over(ledger: RedisLedger) -> None:
    defined(ledger, strict())
    ledger.reserve("dead", U, usd(1), 0.3)
    assert refused(ledger, "b", 1)
    wait_until(lambda: not refused(ledger, "b", 1), 5)


def test_books_outlive_a_restart(redis_service: RedisService, ledger: RedisLedger) -> None:
    if not redis_service.managed:
        pytest.skip("the server of SPANFUSE_TEST_REDIS is not ours to restart")
    defined(ledger, strict())
    hold = ledger.reserve("c", U, usd(0.4))
    redis_service.restart()
    ledger.settle(hold, usd(0.3))
    assert books(ledger) == (0.3, 0)


def test_a_fleet_goes_on_within_its_allowance_while_redis_is_down_and_settles_later(
    redis_service: RedisService,
) -> None:
    """Nothing is counted twice, and nothing is lost: of 9 dollars left, each process may spend 45 cents."""
    if not redis_service.managed:
        pytest.skip("the server of SPANFUSE_TEST_REDIS is not ours to restart")
    tenant = next(_tenants)
    book = RedisLedger(redis_service.url, tenant, timeout_s=5)
    defined(book, strict(limit_usd=10))
    # Each with a ledger of its own, as processes have.
    guards = [Guard(MemorySubscriber(), ledger=RedisLedger(redis_service.url, tenant, timeout_s=0.5)) for _ in range(5)]
    for guard in guards:
        _spend(guard, 0.2)
    redis_service.kill()
    admitted = sum(_passes(guard, 0.1) for guard in guards for _ in range(10))
    redis_service.start()
    wait_until(lambda: not any(_purse_away(guard) for guard in guards), 30)
    assert 4 * len(guards) <= admitted <= 5 * len(guards)
    assert books(book)[0] == pytest.approx(1 + 0.1 * admitted)
    assert books(book)[1] == 0
    for guard in guards:
        guard.close()


def _spend(guard: Guard, dollars: float) -> None:
    with guard.call(cost_usd=dollars, user="u"):
        pass


def _passes(guard: Guard, dollars: float) -> bool:
    try:
        _spend(guard, dollars)
    except OverBudget:
        return False
    return True


def _purse_away(guard: Guard) -> bool:
    assert guard.purse is not None
    return bool(guard.purse.away)


def test_strict_budgets_overshoot_by_the_error_of_estimates_alone(ledger: Ledger) -> None:
    """The contract in docs/budgets.md: calls that cost a tenth more than was held for them exceed the limit by at most that."""
    defined(ledger, strict(limit_usd=1))
    holds, n = [], 0
    while not refused(ledger, str(n), 0.03):
        holds.append(str(n))
        n += 1
    for call in holds:
        ledger.settle(call, usd(0.033))
    spent, held = books(ledger)
    assert (len(holds), held) == (33, 0)
    assert spent - 1 <= sum(0.003 for _ in holds)
    assert spent == pytest.approx(33 * 0.033)
    assert refused(ledger, "next", 0)


def test_a_call_id_is_one_call_for_all_processes(ledger: RedisLedger, redis_service: RedisService) -> None:
    other = RedisLedger(redis_service.url, ledger.store.keys[0].partition("{")[2].partition("}")[0], timeout_s=5)  # type: ignore[attr-defined]
    defined(ledger, strict())
    ledger.reserve("c", U, usd(0.4))
    other.reserve("c", U, Amounts(10**8))
    assert books(other) == (0, 0.4)
