"""What a host does about the ledger beside its work: it publishes budgets, compares, and outlives what fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.hosts import ledger_watch
from spanfuse_processor.hosts.ledger import Comparison
from spanfuse_processor.hosts.ledger_watch import Booked, LedgerWatch, Rows, looked_up
from tests.support.loops import in_loop, until

BOOKED: Booked = {"user:u": {"user:u/daily": 5}}


class FakeLink:
    """A ledger that a test takes away."""

    def __init__(self) -> None:
        self.away = False
        self.published = 0
        self.compared: list[tuple[Booked, Rows]] = []
        self.comparison = Comparison()

    def define(self) -> None:
        if self.away:
            raise UnavailableError("the ledger: away")
        self.published += 1

    def booked(self) -> Booked | None:
        self.comparison = Comparison(at_ns=1, reachable=not self.away)
        return None if self.away else BOOKED

    def compare(self, booked: Booked, rows: Rows) -> None:
        self.compared.append((booked, rows))


@asynccontextmanager
async def watched(link: FakeLink, compared: Any, tell: Callable[[], None] = lambda: None) -> AsyncIterator[LedgerWatch]:
    watch = LedgerWatch(link, compared, 0.001, tell)  # type: ignore[arg-type]
    task = asyncio.create_task(watch.run())
    try:
        yield watch
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def both(booked: Booked) -> tuple[Booked, Rows]:
    return booked, [{"scope": "user:u"}]


@in_loop
async def test_budgets_are_published_once_and_what_was_settled_is_compared_all_the_time() -> None:
    link = FakeLink()
    async with watched(link, both):
        await until(lambda: len(link.compared) > 2)
    assert (link.published, link.compared[0]) == (1, (BOOKED, [{"scope": "user:u"}]))


@in_loop
async def test_a_ledger_that_was_away_is_told_the_budgets_when_it_is_back() -> None:
    link = FakeLink()
    link.away = True
    told: list[bool | None] = []
    async with watched(link, both, lambda: told.append(link.comparison.reachable)) as watch:
        await until(lambda: told)
        assert (link.published, link.compared, watch.counts()["ledger"]["reachable"]) == (0, [], False)
        link.away = False
        await until(lambda: link.compared)
    assert (link.published, told) == (1, [False, True])


@in_loop
async def test_one_comparison_that_fails_ends_none_of_the_next(caplog: pytest.LogCaptureFixture) -> None:
    link, failures = FakeLink(), [ZeroDivisionError("state"), UnavailableError("storage")]

    async def failing(booked: Booked) -> tuple[Booked, Rows]:
        if failures:
            raise failures.pop()
        return booked, []

    async with watched(link, failing):
        await until(lambda: link.compared)
    assert [record.message for record in caplog.records] == ["the ledger cannot be compared: storage"]


@in_loop
async def test_scopes_that_live_elsewhere_are_passed_over_and_of_many_the_first_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger_watch, "MAX_COMPARED", 2)
    asked: list[str] = []

    def accounts(scope: str) -> Rows | None:
        asked.append(scope)
        return None if scope == "user:b" else [{"scope": scope}]

    assert await looked_up(["user:a", "user:a", "user:b", "user:c"], accounts) == {"user:a": [{"scope": "user:a"}]}
    assert asked == ["user:a", "user:b"]
