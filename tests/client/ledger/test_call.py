"""`with guard.call(…)`: what is held before a call, what is charged after it, and what a refusal says."""

from __future__ import annotations

import asyncio
import math
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from spanfuse import Blocked, Guard
from spanfuse.ledger import Amounts, Ledger, SqliteLedger, nano
from spanfuse.over_budget import OverBudget
from spanfuse.testing import FakeClock, MemorySubscriber, block
from tests.support.budgets import account, books, defined, order, strict

DOLLAR_A_TOKEN = {"m": (10**15, 10**15)}
"""Prices, nano-dollars per million tokens."""


@pytest.fixture
def sqlite(tmp_path: Path, clock: FakeClock) -> Iterator[Ledger]:
    made = SqliteLedger(tmp_path / "l.sqlite", now_ns=clock.now_ns)
    yield made
    made.close()


def guarded(ledger: Ledger, *decisions: Any, **more: Any) -> Guard:
    return Guard(MemorySubscriber(*decisions), ledger=ledger, **more)


@pytest.fixture
def guard(sqlite: Ledger) -> Guard:
    """With a budget of 100 dollars for each user, and a model of a dollar a token."""
    defined(sqlite, strict(limit_usd=100), prices=DOLLAR_A_TOKEN)
    return guarded(sqlite)


def test_a_call_holds_its_input_by_size_and_all_that_it_may_answer(guard: Guard, sqlite: Ledger) -> None:
    """Four characters are a token, and each that is not ASCII is one."""
    messages = [{"role": "user", "content": "x" * 36 + "犬"}]
    with guard.call(model="m", messages=messages, max_output_tokens=30, user="u") as call:
        assert call.estimate == Amounts(nano(40), 40, 1)
        assert books(sqlite) == (0, 40)
        call.settle(input_tokens=12, output_tokens=3)
    assert books(sqlite) == (15, 0)


@pytest.mark.parametrize(
    ("said", "charged"),
    [
        ({"cost_usd": 0.25}, 0.25),
        ({"tokens": 14}, 14),
        ({"tokens": 3}, 3),
        ({"input_tokens": 7}, 27),
        ({"output_tokens": 7}, 17),
        ({"cost_usd": 0.0}, 0),
        ({}, 30),
        ({"cost_usd": math.nan}, 30),
        ({"cost_usd": -1.0}, 30),
        ({"cost_usd": math.inf, "tokens": 5}, 5),
        ({"tokens": -4}, 30),
        ({"output_tokens": 2.5}, 30),
    ],
)
def test_what_is_said_is_charged_and_where_it_is_no_amount_the_estimate(
    guard: Guard, sqlite: Ledger, said: dict[str, Any], charged: float
) -> None:
    with guard.call(model="m", prompt="x" * 40, max_output_tokens=20, user="u") as call:
        call.settle(**said)
    assert books(sqlite) == (charged, 0)


def test_a_stream_that_tells_no_usage_is_charged_what_was_seen_of_it(guard: Guard, sqlite: Ledger) -> None:
    with guard.call(model="m", prompt="x" * 40, max_output_tokens=50, user="u") as call:
        for _ in range(4):
            call.seen("12345678")
    assert books(sqlite) == (18, 0)


def test_a_call_of_which_nothing_is_known_is_charged_its_estimate(guard: Guard, sqlite: Ledger) -> None:
    with guard.call(model="m", prompt="x" * 40, max_output_tokens=50, user="u"):
        pass
    assert books(sqlite) == (60, 0)


@pytest.mark.parametrize(
    ("error", "seen", "charged"),
    [(ValueError(), "", 0), (ValueError(), "x" * 8, 12), (KeyboardInterrupt(), "", 10), (GeneratorExit(), "x" * 4, 11)],
)
def test_a_call_that_failed_costs_nothing_and_one_that_was_broken_off_what_it_sent_and_brought(
    guard: Guard, sqlite: Ledger, error: BaseException, seen: str, charged: float
) -> None:
    def fails() -> None:
        with guard.call(model="m", prompt="x" * 40, max_output_tokens=50, user="u") as call:
            call.seen(seen)
            raise error

    with pytest.raises(type(error)):
        fails()
    assert books(sqlite) == (charged, 0)


def test_a_refusal_says_scope_budget_amounts_until_when_and_how_to_extend(sqlite: Ledger) -> None:
    """R066: every number that decided, and where it comes from."""
    defined(sqlite, strict("user/daily", period="daily", limit_usd=10), prices=DOLLAR_A_TOKEN)
    guard = guarded(sqlite)
    guard.call(model="m", cost_usd=6, user="u").begin()
    with pytest.raises(OverBudget) as caught:
        guard.call(model="m", cost_usd=5, user="u").begin()
    refusal = caught.value
    assert isinstance(refusal, Blocked)
    assert (refusal.key, refusal.scope, refusal.budget, refusal.rule) == (
        "user:u",
        "user",
        "user/daily",
        "budget.user/daily",
    )
    assert (refusal.spent, refusal.held, refusal.limit, refusal.asked) == (0, nano(6), nano(10), nano(5))
    assert (refusal.remaining, refusal.unit) == (nano(4), "usd")
    assert refusal.until == datetime(2027, 1, 16, tzinfo=UTC)
    assert (refusal.retryable, refusal.status_code, refusal.code) == (False, 403, "spanfuse_blocked")
    assert str(refusal) == (
        "user:u is blocked by budget.user/daily: budget user/daily of user:u has $4.0000 left of $10.0000 ($0 spent and "
        "$6.0000 held for calls under way), the call may take $5.0000. Evidence: 6 of 10 USD. Its period ends 2027-01-16 "
        "00:00:00 UTC. To extend it: spanfuse budget extend user:u user/daily AMOUNT."
    )
    again = pickle.loads(pickle.dumps(refusal))
    assert (str(again), again.remaining) == (str(refusal), refusal.remaining)
    assert guard.counters.by_rule == {"budget.user/daily": 1}
    assert guard.counters.blocked == 1


def test_the_spend_that_a_refusal_names_is_that_of_the_accounts(guard: Guard, sqlite: Ledger) -> None:
    """R066: the list shows the same numbers, from the same books."""
    with guard.call(model="m", user="u", cost_usd=70):
        pass
    with pytest.raises(OverBudget) as caught, guard.call(model="m", user="u", cost_usd=31):
        pass
    found = account(sqlite)
    assert (found.spent, found.held, found.limit) == (caught.value.spent, caught.value.held, caught.value.limit)


def test_whoever_is_paused_resumes_once_the_limit_is_raised(guard: Guard, sqlite: Ledger) -> None:
    """R135: nothing of the session is lost."""
    with guard.call(model="m", user="u", cost_usd=100):
        pass
    with pytest.raises(OverBudget), guard.call(model="m", user="u", cost_usd=5):
        pass
    sqlite.order(order("o", "extend", 5))
    with guard.call(model="m", user="u", cost_usd=5):
        pass
    assert books(sqlite) == (105, 0)


def test_a_user_never_seen_has_the_default_budget_from_the_first_call_on(sqlite: Ledger) -> None:
    defined(sqlite, strict(limit_usd=1e-9))
    guard = guarded(sqlite)
    for _ in range(8):
        with pytest.raises(OverBudget), guard.call(user="new", prompt="x"):
            pass


def test_identity_comes_from_the_block_around_the_call(sqlite: Ledger) -> None:
    scopes = ("session", "agent", "user", "team", "trace")
    defined(sqlite, *(strict(scope, scope) for scope in scopes), strict("all", "global"))
    guard = guarded(sqlite)
    with guard.session("s", agent="a", user="u", team="t", trace="f" * 32), guard.call(cost_usd=0.5, user="v") as call:
        call.settle(cost_usd=0.25)
    assert {found.scope for found in sqlite.accounts()} == {
        "session:s", "agent:a", "user:v", "team:t", f"trace:{'f' * 32}", "global:*",
    }  # fmt: skip


def test_a_call_without_a_session_is_under_the_budget_of_its_trace_as_session(sqlite: Ledger) -> None:
    defined(sqlite, strict("session", "session", limit_steps=5))
    guard = guarded(sqlite)
    for _ in range(5):
        with guard.call(trace="f" * 32):
            pass
    with pytest.raises(OverBudget, match=f"session:trace:{'f' * 32}"), guard.call(trace="f" * 32):
        pass


def test_a_stopped_session_reserves_nothing(sqlite: Ledger) -> None:
    defined(sqlite, strict())
    guard = guarded(sqlite, block("session:s"))
    with pytest.raises(Blocked, match=r"repeat\.no_progress"), guard.call(session="s", user="u"):
        pass
    assert sqlite.accounts() == []


@pytest.mark.parametrize("address", ["kafka://127.0.0.1:1", "http://127.0.0.1:1"])
def test_strict_budgets_hold_while_no_decision_can_be_heard(sqlite: Ledger, address: str) -> None:
    """They need neither Kafka nor the API."""
    defined(sqlite, strict())
    guard = Guard(address, ledger=sqlite)
    call = guard.call(user="u", cost_usd=0.6)
    call.begin()
    with pytest.raises(OverBudget):
        guard.call(user="u", cost_usd=0.6).begin()
    call.end()
    assert guard.state == "connecting"
    guard.close()
    assert books(sqlite) == (0.6, 0)


def test_observed_budgets_refuse_nothing_and_say_so(sqlite: Ledger) -> None:
    defined(sqlite, strict(), mode="observe")
    with guarded(sqlite).call(user="u", cost_usd=2) as call:
        assert call.verdict.would_block
        assert call.verdict.decision is not None
        assert call.verdict.decision.rule == "budget.user"
    assert books(sqlite) == (2, 0)


def test_the_mode_of_a_guard_overrides_that_of_the_ledger(sqlite: Ledger) -> None:
    defined(sqlite, strict())
    observing = guarded(sqlite, mode="observe")
    with observing.call(user="u", cost_usd=2) as call:
        assert call.verdict.would_block
    assert observing.counters.would_block == 1
    defined(sqlite, strict(), mode="observe")
    with pytest.raises(OverBudget), guarded(sqlite, mode="enforce").call(user="u", cost_usd=2):
        pass


def test_a_price_function_comes_first_and_one_that_fails_is_passed_over(sqlite: Ledger) -> None:
    defined(sqlite, strict(limit_usd=100), prices=DOLLAR_A_TOKEN)
    with guarded(sqlite, price=lambda model, sent, brought: 0.5).call(model="m", user="u", max_output_tokens=7) as c:
        assert c.estimate.usd == nano(0.5)

    def broken(model: str, sent: int, brought: int) -> float:
        raise KeyError(model)

    for price in (broken, lambda *_: math.nan, lambda *_: -1.0):
        with guarded(sqlite, price=price).call(model="m", user="u", max_output_tokens=7) as c:
            assert c.estimate.usd == nano(7)
            c.settle(cost_usd=0)


def test_a_model_that_nobody_knows_has_the_fallback_price(sqlite: Ledger) -> None:
    """It is never free: 5 and 15 dollars per million tokens, as on the stream."""
    defined(sqlite, strict(limit_usd=100))
    with guarded(sqlite).call(model="new-x-9", user="u", prompt="x" * 4_000_000, max_output_tokens=100_000) as call:
        assert call.estimate.usd == nano(5 + 1.5)


def test_the_first_call_of_a_process_is_estimated_at_the_published_price_too(sqlite: Ledger, tmp_path: Path) -> None:
    """At the fallback's of 15 dollars per million tokens it would not fit."""
    defined(sqlite, strict(limit_usd=0.001), prices={"m": (nano(1), nano(1))})

    async def first() -> None:
        guard = guarded(SqliteLedger(tmp_path / "l.sqlite"))
        async with guard.call(model="m", user="u", max_output_tokens=500) as call:
            assert call.estimate.usd == nano(0.0005)
            call.settle(cost_usd=0)

    asyncio.run(first())
    with guarded(SqliteLedger(tmp_path / "l.sqlite")).call(model="m", user="u", max_output_tokens=500) as call:
        assert call.estimate.usd == nano(0.0005)


@pytest.mark.parametrize("name", ["gpt-4o-2024-08-06", "openai/gpt-4o", "GPT-4o-latest", "vendor/gpt-4o-20240806-v2:0"])
def test_editions_of_a_model_have_its_price(sqlite: Ledger, name: str) -> None:
    defined(sqlite, strict(limit_usd=100), prices={"gpt-4o": (10**15, 10**15), "gpt-4": (1, 1)})
    with guarded(sqlite).call(model=name, user="u", max_output_tokens=7) as call:
        assert call.estimate.usd == nano(7)


def test_one_id_is_one_call(guard: Guard, sqlite: Ledger) -> None:
    for _ in range(3):
        with guard.call(user="u", cost_usd=40, call_id="request-1"):
            pass
    assert books(sqlite) == (40, 0)


def test_without_a_ledger_a_call_is_only_checked() -> None:
    guard = Guard(MemorySubscriber(block("session:s")))
    with guard.call(session="other") as call:
        call.settle(cost_usd=1)
    with pytest.raises(Blocked), guard.call(session="s"):
        pass


def test_the_ledger_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "named.sqlite"
    defined(SqliteLedger(path), strict())
    monkeypatch.setenv("SPANFUSE_LEDGER", f"sqlite:///{path}?timeout_ms=100")
    with pytest.raises(OverBudget), Guard(MemorySubscriber()).call(user="u", cost_usd=2):
        pass
    monkeypatch.setenv("SPANFUSE_DISABLED", "1")
    with Guard(MemorySubscriber()).call(user="u", cost_usd=2):
        pass


def test_an_address_of_something_else_is_an_error() -> None:
    with pytest.raises(ValueError, match="redis://"):
        Guard(MemorySubscriber(), ledger="http://127.0.0.1:1")


def test_awaited_it_does_the_same_and_the_event_loop_goes_on(guard: Guard, sqlite: Ledger) -> None:
    async def calls() -> None:
        call = guard.call(model="m", user="u", cost_usd=60)
        await call.abegin()
        with pytest.raises(OverBudget):
            async with guard.call(model="m", user="u", cost_usd=60):
                pass
        call.settle(cost_usd=20)
        await call.aend()
        with pytest.raises(asyncio.CancelledError):
            async with guard.call(model="m", user="u", prompt="x" * 40, max_output_tokens=5):
                raise asyncio.CancelledError
        with pytest.raises(ValueError, match="provider"):
            async with guard.call(model="m", user="u", cost_usd=60):
                raise ValueError("provider")

    asyncio.run(calls())
    assert books(sqlite) == (30, 0)


def test_what_is_odd_is_counted_and_not_free(guard: Guard, sqlite: Ledger) -> None:
    """A Guard raises nothing but `Blocked`."""

    class Odd:
        def model_dump(self) -> Any:
            raise RuntimeError

    with guard.call(model="m", messages=[Odd()], user="u", cost_usd=3) as call:
        call.seen(Odd())
        call.settle(tokens="many", cost_usd="much")  # type: ignore[arg-type]
    assert guard.counters.errors == 3
    with pytest.raises(OverBudget), guard.call(model="m", messages=[Odd()], user="u"):
        pass
