"""Budgets in the stream host: orders travel as charges do, and what is over is released on the way of the expiry."""

from __future__ import annotations

import time
from typing import Any

import pytest

from spanfuse_processor.config import KafkaSettings
from spanfuse_processor.hosts.stream.app import new_app
from spanfuse_processor.hosts.stream.expiry import SessionExpiry
from spanfuse_processor.hosts.stream.offsets import Offsets
from spanfuse_processor.hosts.stream.table import StateTable, Stored
from spanfuse_schemas import Budget, BudgetOrder, Call, CallBatch, ChargeBatch, Decision, Reset
from spanfuse_schemas.topics import CONTROL, DETECTIONS
from tests.hosts.test_stream_scopes import Bench
from tests.hosts.test_stream_sessions import Bench as SessionBench
from tests.support.agents import SECOND, START_NS, prompt
from tests.support.charges import charge
from tests.support.loops import in_loop
from tests.support.purse import USD, budget, under

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

    async def order(
        self, action: str, amount: int = 0, *, name: str = "user/hourly", id: str = "", at_ns: int = NOW + 10
    ) -> None:
        self.at += 1
        order = BudgetOrder(
            id=id or str(self.at), scope="user:u", budget=name, action=action, amount=amount, at_ns=at_ns
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
async def test_the_clock_of_an_operator_who_is_a_year_ahead_ends_no_period() -> None:
    purse = Purse(limit_steps=3)
    ahead_ns = time.time_ns() + 365 * 24 * HOUR_NS
    await purse.order("extend", 1, at_ns=ahead_ns)
    purse.at += 1
    await purse.take(purse.at, value=ChargeBatch(resets=(Reset(key="user:u", at_ns=ahead_ns),)).to_json())
    await purse.call(at_ns=time.time_ns(), calls=3)
    assert ("user:u", "open") not in purse.told()
    await purse.call(at_ns=time.time_ns(), calls=1)
    assert purse.told()[-1] == ("user:u", "open")


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


@in_loop
async def test_what_cannot_be_looked_at_ends_no_worker_and_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    purse = Purse()
    await purse.call(at_ns=NOW - 2 * HOUR_NS, calls=3)
    purse.at += 1
    await purse.take(purse.at, charge("user:bad", calls=3, at_ns=NOW - 2 * HOUR_NS))
    tick = purse.stage.tick

    def failing(states: Any, now_ns: int) -> Any:
        if states[0].key == "user:bad":
            raise OverflowError("nobody foresaw this")
        return tick(states, now_ns)

    monkeypatch.setattr(purse.stage, "tick", failing)
    await purse.round()
    assert purse.counters["unexpected_errors"] >= 1
    assert ("user:u", "closed") in purse.told()
    assert ("user:bad", "closed") not in purse.told()


class Sessions(SessionBench):
    """A detector under a policy with budgets of sessions."""

    def __init__(self, *budgets: Budget) -> None:
        super().__init__(StateTable.create(new_app(KafkaSettings(), 4, print), KafkaSettings(), 4))
        self.detector.pipeline.policy = under(*budgets)
        waiting: Any = self.outbox
        self.expiry = SessionExpiry(
            self.sessions._table, self.sessions, self.detector.pipeline, waiting, self.writeback,
            Offsets(self._commit), self.counters,
        )  # fmt: skip

    async def round(self) -> None:
        await self.writeback.flush()
        for _ in range(3):
            await self.expiry.turn()
        await self.writeback.flush()

    def told(self) -> list[str]:
        return [Decision.from_json(value or b"").state for value in self.outbox.values.get(CONTROL, [])]


def spent(ago_ns: int) -> Call:
    """A call of the session that ended so long ago."""
    at = (NOW - ago_ns - START_NS) / SECOND
    return prompt("What is it?", at=at, lasts=0, cost=2 * USD)


@in_loop
async def test_what_is_ordered_for_somebody_who_has_not_called_yet_is_kept() -> None:
    """Nothing was heard of them, and that is not long ago."""
    purse = Purse()
    await purse.order("extend", 5)
    await purse.take(2, charge("global:*", at_ns=NOW))
    for _ in range(2):  # the second one knows the clock of the partition
        await purse.round()
    (hourly, _) = purse.stage.accounts("user:u", purse.scopes.at("user:u", 1), NOW)
    assert (hourly["limit"], purse.counters["expired_scopes"]) == (7, 0)


@in_loop
async def test_an_hour_of_a_session_that_is_over_is_told_without_a_call() -> None:
    bench = Sessions(budget("session/hourly", limit_usd=1, period="hourly"))
    await bench.take(0, spent(2 * HOUR_NS))
    await bench.round()
    await bench.round()
    assert bench.told() == ["open", "closed"]


@in_loop
async def test_orders_about_sessions_come_with_their_calls_and_are_counted() -> None:
    bench = Sessions(budget("session/all", limit_usd=1))
    await bench.take(0, spent(0))
    for offset, (scope, name) in enumerate([("session:s", "session/all"), ("session:x", "session/all")], 1):
        order = BudgetOrder(id=str(offset), scope=scope, budget=name, action="extend", amount=5 * USD, at_ns=NOW)
        await bench.take(offset, value=CallBatch(orders=(order,)).to_json())
    assert bench.told() == ["open", "closed"]
    assert (bench.counters["budget_orders"], bench.counters["refused_orders"]) == (1, 1)


@in_loop
async def test_a_session_that_a_raised_limit_holds_no_longer_is_released_in_the_first_round() -> None:
    bench = Sessions(budget("session/all", limit_usd=1))
    await bench.take(0, spent(0))
    await bench.round()
    assert bench.told() == ["open"]
    bench.detector.pipeline.policy = under(budget("session/all", limit_usd=9))
    await bench.round()
    assert bench.told() == ["open"], "a policy changes with a start, and then all is read anew"
    bench.expiry.forget()
    await bench.round()
    assert bench.told() == ["open", "closed"]
