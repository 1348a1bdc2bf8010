"""Budgets in the stream host: orders travel as charges do, and what is over is released on the way of the expiry."""

from __future__ import annotations

import time
from typing import Any

from spanfuse_processor.hosts.stream.table import Stored
from spanfuse_schemas import BudgetOrder, ChargeBatch, Decision
from spanfuse_schemas.topics import CONTROL, DETECTIONS
from tests.hosts.test_stream_scopes import Bench
from tests.support.charges import charge
from tests.support.loops import in_loop
from tests.support.purse import budget, under

NOW = time.time_ns()
HOUR_NS = 3600 * 10**9


class Purse(Bench):
    """A combiner under a policy with budgets."""

    def __init__(self, **limits: Any) -> None:
        super().__init__()
        self.stage.policy = under(
            budget("user/hourly", **{"limit_steps": 2, "period": "hourly", **limits}), budget("user", limit_steps=9)
        )
        self.at = 0

    async def call(self, *, at_ns: int = NOW, calls: int = 1) -> None:
        self.at += 1
        await self.take(self.at, charge("user:u", calls=calls, at_ns=at_ns))

    async def order(self, action: str, amount: int = 0, *, name: str = "user/hourly", id: str = "") -> None:
        self.at += 1
        order = BudgetOrder(
            id=id or str(self.at), scope="user:u", budget=name, action=action, amount=amount, at_ns=NOW + 10
        )
        await self.take(self.at, value=ChargeBatch(orders=(order,)).to_json())

    async def round(self) -> None:
        """The expiry looks at all that is stored."""
        await self.writeback.flush()
        for _ in range(3):
            await self.expiry.turn()
        await self.writeback.flush()

    def spent(self) -> int:
        state = self.scopes.at("user:u", 1)
        return int(self.stage.accounts("user:u", state, NOW)[0]["spent"])


@in_loop
async def test_a_budget_that_is_spent_up_is_told_at_once_and_released_when_its_period_is_over() -> None:
    purse = Purse()
    await purse.call(at_ns=NOW - 2 * HOUR_NS, calls=3)
    assert purse.told() == [("user:u", "open")]
    assert purse.outbox.values[DETECTIONS]
    await purse.round()
    assert purse.told() == [("user:u", "open"), ("user:u", "closed")]
    await purse.round()
    assert len(purse.told()) == 2
    purse.scopes.clear()
    state = purse.scopes.at("user:u", 1)
    assert (state.standing, state.epoch) == (None, 2)


@in_loop
async def test_orders_are_carried_out_once_and_at_once() -> None:
    purse = Purse(limit_steps=3)
    await purse.order("set", 1, id="lower")
    await purse.call()
    assert purse.told() == [("user:u", "open")]
    await purse.order("set", 5, id="raise")
    await purse.order("set", 1, id="lower")
    assert purse.told() == [("user:u", "open"), ("user:u", "closed")]
    await purse.order("extend", 1, name="nobody's")
    assert (purse.counters["budget_orders"], purse.counters["refused_orders"]) == (2, 2)


@in_loop
async def test_a_message_with_orders_that_comes_again_changes_nothing() -> None:
    purse = Purse(limit_steps=3)
    await purse.call(calls=3)
    await purse.order("reset")
    await purse.writeback.flush()
    purse.scopes.clear()
    purse.at -= 1
    await purse.order("reset")
    assert purse.told() == [("user:u", "open"), ("user:u", "closed")]


@in_loop
async def test_a_worker_with_another_policy_releases_in_its_first_round_what_is_held_no_longer() -> None:
    purse = Purse()
    await purse.call(calls=2)
    await purse.writeback.flush()
    purse.stage.policy = under(budget("user/hourly", limit_steps=7, period="hourly"))
    purse.scopes.clear()
    purse.expiry.forget()
    await purse.round()
    assert purse.told() == [("user:u", "open"), ("user:u", "closed")]


@in_loop
async def test_what_is_released_is_told_before_it_is_stored() -> None:
    purse = Purse()
    await purse.call(at_ns=NOW - 2 * HOUR_NS, calls=3)
    await purse.round()
    (value,) = [purse.table.fetch(b"user:u")]
    assert Stored.unpack(value or b"").epoch == 2
    last = Decision.from_json(purse.outbox.values[CONTROL][-1] or b"")
    assert (last.epoch, last.rule) == (2, "budget.user/hourly")
