"""The ledger is away: what is let through meanwhile, and that all of it is charged once when it is back."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spanfuse import Blocked, Guard
from spanfuse.ledger import Ledger, RedisLedger, SqliteLedger, Unavailable, bills, nano
from spanfuse.ledger import purse as purse_module
from spanfuse.ledger.allowance import SHARE
from spanfuse.ledger.bills import Bill
from spanfuse.ledger.purse import REMEMBERED_S, Purse
from spanfuse.over_budget import OverBudget
from spanfuse.testing import FakeClock, MemorySubscriber
from tests.client.test_fork import forked, succeeded
from tests.client.waiting import wait_until
from tests.support.budgets import books, defined, strict, usd

U = {"user": "u"}


class Line:
    """The way to a store, which can be cut before or after an operation is done."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.cut = ""
        self.asked = 0

    def run(self, operation: str, *arguments: str) -> str:
        self.asked += 1
        if self.cut == "before":
            raise Unavailable("no route")
        answer: str = self.store.run(operation, *arguments)
        if self.cut == "after":
            raise Unavailable("the answer is lost")
        return answer

    async def arun(self, operation: str, *arguments: str) -> str:
        return self.run(operation, *arguments)

    def rows(self, scope: str | None) -> Any:
        return self.store.rows(scope)

    def close(self) -> None:
        self.store.close()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purse_module, "FIRST_TRY_S", 0.01)
    monkeypatch.setattr(purse_module, "LAST_TRY_S", 0.01)


@pytest.fixture
def books_of(tmp_path: Path, clock: FakeClock) -> Ledger:
    """A second way to the same books."""
    return SqliteLedger(tmp_path / "l.sqlite", now_ns=clock.now_ns)


@pytest.fixture
def ledger(tmp_path: Path, clock: FakeClock) -> SqliteLedger:
    return SqliteLedger(tmp_path / "l.sqlite", now_ns=clock.now_ns)


@pytest.fixture
def line(ledger: SqliteLedger) -> Line:
    found = Line(ledger.store)
    ledger.store = found  # type: ignore[misc]
    return found


@pytest.fixture
def guard(ledger: SqliteLedger, line: Line) -> Iterator[Guard]:
    """With a budget of 100 dollars for each user."""
    defined(ledger, strict(limit_usd=100))
    made = Guard(MemorySubscriber(), ledger=ledger)
    yield made
    line.cut = ""
    made.close()


def purse_of(guard: Guard) -> Purse:
    assert guard.purse is not None
    return guard.purse


def spend(guard: Guard, dollars: float, **names: Any) -> None:
    with guard.call(cost_usd=dollars, **(names or U)):
        pass


def back(guard: Guard, line: Line) -> None:
    line.cut = ""
    wait_until(lambda: not purse_of(guard).away, what="the ledger is used again")


def test_a_share_of_what_was_left_is_let_through_and_charged_later(guard: Guard, line: Line, books_of: Ledger) -> None:
    """R050: a fleet does not stampede. Of 80 dollars left 4 are let through."""
    spend(guard, 20)
    line.cut = "before"
    for _ in range(4):
        spend(guard, 80 * SHARE / 4)
    with pytest.raises(OverBudget, match=r"cannot be reached \(no route\); budget user of user:u has \$0 left") as e:
        spend(guard, 0.01)
    assert (e.value.rule, e.value.limit, e.value.until) == ("unavailable", nano(4), None)
    assert "passes again once the ledger can be reached" in str(e.value)
    assert books(books_of) == (20, 0)
    back(guard, line)
    assert books(books_of) == (24, 0)
    spend(guard, 76)


def test_what_costs_less_than_its_estimate_leaves_more_of_the_allowance(guard: Guard, line: Line) -> None:
    line.cut = "before"
    for _ in range(3):
        with guard.call(cost_usd=4, user="u") as call:
            call.settle(cost_usd=0.5)
    with pytest.raises(OverBudget):
        spend(guard, 4)


def test_an_identity_never_seen_has_a_share_of_its_limit(guard: Guard, line: Line) -> None:
    line.cut = "before"
    spend(guard, 5, user="new")
    with pytest.raises(OverBudget):
        spend(guard, 0.01, user="new")


def test_a_budget_that_is_closed_lets_nothing_through(ledger: Ledger, guard: Guard, line: Line) -> None:
    defined(ledger, strict(on_unavailable="closed"), strict("team", "team"))
    line.cut = "before"
    spend(guard, 0.01, team="t")
    with pytest.raises(OverBudget) as caught:
        spend(guard, 0.01, user="u")
    assert (caught.value.key, caught.value.rule, caught.value.budget) == ("user:u", "unavailable", "user")


@pytest.mark.parametrize(("mode", "refused"), [("open", False), ("closed", True)])
def test_before_any_budget_is_known_the_guards_own_mode_decides(
    ledger: SqliteLedger, line: Line, books_of: Ledger, mode: Any, refused: bool
) -> None:
    defined(books_of, strict(limit_usd=100))
    line.cut = "before"
    subscriber = MemorySubscriber()
    guard = Guard(subscriber, ledger=ledger, on_unavailable=mode)
    assert guard.wait_ready()
    if refused:
        with pytest.raises(Blocked, match="unavailable"):
            spend(guard, 1)
    else:
        spend(guard, 1)
    back(guard, line)
    if not refused:
        assert books(books_of) == (1, 0)


def test_a_ledger_that_is_away_is_not_asked_for_each_call(
    guard: Guard, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purse_module, "FIRST_TRY_S", 60)
    spend(guard, 1)
    line.cut, before = "before", line.asked
    for _ in range(50):
        spend(guard, 0.01)
    assert line.asked == before + 1


@pytest.mark.parametrize("lost", ["reserve", "settle"])
def test_an_answer_that_is_lost_charges_nothing_twice(guard: Guard, line: Line, books_of: Ledger, lost: str) -> None:
    """R054: what was asked had been done."""
    spend(guard, 1)
    if lost == "reserve":
        line.cut = "after"
        spend(guard, 2)
    else:
        with guard.call(cost_usd=2, user="u"):
            line.cut = "after"
    wait_until(lambda: line.asked > 6)
    back(guard, line)
    assert books(books_of) == (3, 0)


def test_a_refusal_that_is_lost_lets_through_no_more_than_the_allowance(
    guard: Guard, line: Line, books_of: Ledger
) -> None:
    spend(guard, 100)
    line.cut = "after"
    with pytest.raises(OverBudget):
        spend(guard, 1)
    back(guard, line)
    assert books(books_of) == (100, 0)


def test_a_reservation_that_is_lost_is_given_back_where_the_call_is_refused(
    ledger: Ledger, guard: Guard, line: Line, books_of: Ledger
) -> None:
    defined(ledger, strict(on_unavailable="closed"))
    line.cut = "after"
    with pytest.raises(OverBudget):
        spend(guard, 0.5)
    assert books(books_of) == (0, 0.5)
    back(guard, line)
    assert books(books_of) == (0, 0)


def test_a_settlement_in_doubt_is_charged_where_the_books_were_lost_and_not_where_they_have_forgotten(
    guard: Guard, line: Line, ledger: SqliteLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for age_s, charged in ((1.0, 1), (REMEMBERED_S + 1, 0)):
        purse = Purse(ledger)
        hold = ledger.reserve(f"c-{age_s}", U, usd(1))
        line.store._connection().execute("DELETE FROM calls")
        line.store._connection().execute("UPDATE accounts SET held = 0, spent = 0")
        purse._pay(Bill(hold, U, usd(1), time.monotonic() - age_s))
        assert books(ledger) == (charged, 0)
        assert purse.lost == 1 - charged


def test_what_is_under_way_when_the_ledger_is_back_is_held(guard: Guard, line: Line, books_of: Ledger) -> None:
    spend(guard, 1)
    line.cut = "before"
    with guard.call(cost_usd=2, user="u") as call:
        back(guard, line)
        assert books(books_of) == (1, 2)
        call.settle(cost_usd=1.5)
    assert books(books_of) == (2.5, 0)


def test_a_call_that_fails_without_the_ledger_gives_its_allowance_back(
    guard: Guard, line: Line, books_of: Ledger
) -> None:
    spend(guard, 1)
    line.cut = "before"
    for _ in range(3):
        with pytest.raises(ValueError, match="provider"), guard.call(cost_usd=4, user="u"):
            raise ValueError("provider")
    back(guard, line)
    assert books(books_of) == (1, 0)


def test_closing_settles_what_can_be_settled(
    guard: Guard, line: Line, books_of: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purse_module, "FIRST_TRY_S", 60)
    spend(guard, 1)
    line.cut = "before"
    spend(guard, 2)
    line.cut = ""
    guard.close()
    assert books(books_of) == (3, 0)


def test_settlements_that_wait_are_bounded_and_those_dropped_are_counted(
    guard: Guard, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bills, "MAX_PENDING", 3)
    monkeypatch.setattr(purse_module, "FIRST_TRY_S", 60)
    line.cut = "before"
    for _ in range(5):
        spend(guard, 0.01)
    assert (purse_of(guard).pending, purse_of(guard).lost) == (3, 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_connections_of_its_own_and_owes_nothing(
    guard: Guard, line: Line, books_of: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purse_module, "FIRST_TRY_S", 60)
    spend(guard, 1)
    line.cut = "before"
    spend(guard, 2)
    line.cut = ""

    def child() -> bool:
        spend(guard, 4)
        return not purse_of(guard).pending

    assert succeeded(forked(child))
    assert books(books_of) == (5, 0)
    guard.close()
    assert books(books_of) == (7, 0)


def test_a_server_that_does_not_answer_costs_milliseconds_and_only_once() -> None:
    """It takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ledger = RedisLedger(f"redis://127.0.0.1:{server.getsockname()[1]}/0", timeout_s=0.05)
        guard = Guard(MemorySubscriber(), ledger=ledger)
        begin = time.monotonic()
        for _ in range(20):
            spend(guard, 1)
        assert time.monotonic() - begin < 1
        assert "cannot be reached (TimeoutError" in purse_of(guard).away
        guard.close()


def test_an_event_loop_goes_on_while_a_server_does_not_answer() -> None:
    import asyncio

    async def ticks(ledger: RedisLedger) -> int:
        guard, count = Guard(MemorySubscriber(), ledger=ledger), 0

        async def call() -> None:
            async with guard.call(cost_usd=1, user="u"):
                pass

        task = asyncio.create_task(call())
        while not task.done():
            count += 1
            await asyncio.sleep(0.001)
        await task
        guard.close()
        return count

    with socket.create_server(("127.0.0.1", 0)) as server:
        ledger = RedisLedger(f"redis://127.0.0.1:{server.getsockname()[1]}/0", timeout_s=0.2)
        assert asyncio.run(ticks(ledger)) > 20


def test_threads_that_lose_the_ledger_together_share_one_allowance(guard: Guard, line: Line, books_of: Ledger) -> None:
    """R050: ten calls at once of 20 cents each, with a dollar let through."""
    spend(guard, 80)
    line.cut = "before"
    admitted = []

    def call() -> None:
        try:
            spend(guard, 0.2)
            admitted.append(1)
        except Blocked:
            return

    threads = [threading.Thread(target=call) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(admitted) == 5
    back(guard, line)
    assert books(books_of) == (81, 0)


@pytest.mark.parametrize("when", ["reserve", "settle"])
def test_a_call_that_is_cancelled_while_the_ledger_is_asked_leaves_nothing_held(
    ledger: SqliteLedger, line: Line, guard: Guard, books_of: Ledger, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task is cancelled before the answer has come; what was reserved is given back, what was spent is settled."""
    import asyncio

    stopped = asyncio.Event()

    async def slow(operation: str, *arguments: str) -> str:
        answer = line.run(operation, *arguments) if operation != "settle" else ""
        if operation == when:
            stopped.set()
            await asyncio.Event().wait()
        return answer or line.run(operation, *arguments)

    monkeypatch.setattr(line, "arun", slow)

    async def call() -> None:
        async with guard.call(cost_usd=2, user="u") as spending:
            spending.settle(cost_usd=1.5)

    async def cancelled() -> None:
        task = asyncio.create_task(call())
        await stopped.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    wait_until(lambda: books(books_of) == ((1.5 if when == "settle" else 0), 0))
