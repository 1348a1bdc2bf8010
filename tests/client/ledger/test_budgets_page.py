"""docs/budgets.md says what is so, and both kinds of ledger go by the same times."""

from __future__ import annotations

import re
from pathlib import Path

from spanfuse.calls.estimate import OUTPUT_TOKENS
from spanfuse.ledger import MAX_AMOUNT, allowance, bills, purse, redis, sqlite, sqlite_books
from spanfuse.ledger.book import KEPT_S
from spanfuse.ledger.steps import HOLD_S

PAGE = (Path(__file__).parents[3] / "docs" / "budgets.md").read_text()


def test_the_numbers_of_the_page_are_the_numbers_in_force() -> None:
    assert f"within {redis.TIMEOUT_S * 1000:.0f} ms (`?timeout_ms=`; SQLite: {sqlite.TIMEOUT_S:.0f} s)" in PAGE
    assert f"after {purse.FIRST_TRY_S:g} s, then at most {purse.LAST_TRY_S:.0f} s apart" in PAGE
    assert f"spend {allowance.SHARE:.0%}".replace("%", " %") in PAGE
    assert f"A process keeps {bills.MAX_PENDING:,} settlements" in PAGE
    assert f"({OUTPUT_TOKENS:,} where it is not given)" in PAGE
    assert f"has expired ({HOLD_S / 60:.0f} minutes)" in PAGE
    assert f"more than ${MAX_AMOUNT / 1e9:,.0f} a call" in PAGE
    assert f"kept {KEPT_S / 86_400:.0f} days" in PAGE


def test_redis_and_sqlite_remember_as_long_as_the_page_says() -> None:
    found = re.search(r"SETTLED_MS, ENDED_MS, ORDER_MS, SWEPT = (\d+), (\d+), (\d+), (\d+)", redis.SCRIPT)
    assert found is not None
    settled_ms, ended_ms, order_ms, swept = map(int, found.groups())
    assert (settled_ms, ended_ms, order_ms, swept) == (
        sqlite_books.SETTLED_MS, sqlite_books.ENDED_MS, sqlite_books.ORDER_MS, sqlite_books.SWEPT,
    )  # fmt: skip
    assert settled_ms == purse.REMEMBERED_S * 1000
    assert "for an hour after it" in PAGE
    assert settled_ms == 3_600_000
    assert f"remembered for {order_ms / 86_400_000:.0f} days" in PAGE
