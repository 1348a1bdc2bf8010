"""What every ledger does, in SQLite as in Redis."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest

from spanfuse.ledger import Amounts, InvalidAmount, Ledger, LedgerError, Refused, UnknownCall, nano
from spanfuse.ledger.ledger import StoredLedger
from spanfuse.testing import FakeClock
from tests.support.budgets import account, books, defined, order, refused, strict, usd

U = {"user": "u"}


def test_an_estimate_is_held_and_what_was_taken_is_charged(ledger: Ledger) -> None:
    defined(ledger, strict())
    hold = ledger.reserve("c", U, usd(0.4))
    assert books(ledger) == (0, 0.4)
    assert ledger.settle(hold, usd(0.1)) == (True, "held")
    assert books(ledger) == (0.1, 0)


def test_the_last_nano_dollar_can_be_spent_and_no_more(ledger: Ledger) -> None:
    defined(ledger, strict())
    ledger.settle(ledger.reserve("a", U, usd(0.999_999_999)), usd(0.999_999_999))
    assert refused(ledger, "b", 0.000_000_002)
    assert not refused(ledger, "c", 0.000_000_001)
    assert account(ledger).remaining == 0


def test_amounts_beyond_what_a_double_holds_are_exact(ledger: Ledger) -> None:
    """A billion dollars, of which a nano-dollar is left."""
    million, limit = 10**15, 10**18
    defined(ledger, strict(limit_usd=1e9))
    ledger.reserve("a", U, usd(1))
    ledger.rebuild([account(ledger).__class__("user:u|user", "user:u", "user", "usd", limit - 10**9 - million)])
    assert not refused(ledger, "b", 999_999.999_999_999)
    assert refused(ledger, "c", 0.000_000_002)
    assert not refused(ledger, "d", 0.000_000_001)
    assert account(ledger).remaining == 0


def test_all_scopes_are_held_together_or_none_and_the_tightest_is_named(ledger: Ledger) -> None:
    """R059: who spends more than their own budget is told so, however much their team has left."""
    defined(ledger, strict(), strict("team", "team", limit_usd=100), strict("all", "global", limit_usd=1000))
    who = {"user": "u", "team": "t"}
    ledger.settle(ledger.reserve("a", who, usd(0.9)), usd(0.9))
    with pytest.raises(Refused, match=r"budget user of user:u has \$0\.1000 left of \$1\.0000") as caught:
        ledger.reserve("b", who, usd(0.11))
    refusal = caught.value.refusal
    assert (refusal.scope, refusal.budget, refusal.spent, refusal.held) == ("user:u", "user", nano(0.9), 0)
    assert (refusal.limit, refusal.remaining, refusal.asked, refusal.until_ns) == (nano(1), nano(0.1), nano(0.11), None)
    assert books(ledger, "team:t", "team") == books(ledger, "global:*", "all") == (0.9, 0)


def test_of_several_without_room_the_one_exceeded_furthest_is_named(ledger: Ledger) -> None:
    defined(ledger, strict(limit_usd=0.2), strict("team", "team", limit_usd=0.1))
    refusal = refused(ledger, "a", 0.3, user="u", team="t")
    assert refusal is not None
    assert refusal.refusal.scope == "team:t"


@pytest.mark.parametrize(("unit", "limit"), [("limit_tokens", 1000), ("limit_steps", 2)])
def test_tokens_and_steps_are_budgets_too(ledger: Ledger, unit: str, limit: Any) -> None:
    limits: dict[str, Any] = {unit: limit}
    defined(ledger, strict(**limits))
    for call in ("a", "b"):
        ledger.settle(ledger.reserve(call, U, Amounts(0, 500)), Amounts(0, 500))
    with pytest.raises(Refused, match=f"0 {unit[6:]} left of {limit:,} {unit[6:]}"):
        ledger.reserve("c", U, Amounts(0, 1))


def test_a_budget_that_is_soft_or_off_has_no_account_and_one_that_only_warns_refuses_nothing(ledger: Ledger) -> None:
    soft = strict("soft").model_copy(update={"strength": "soft"})
    defined(ledger, soft, strict("off", mode="off", limit_usd=0.1), strict("warns", mode="warn", period="daily"))
    hold = ledger.reserve("a", U, usd(5))
    assert [claim.budget.name for claim in hold.claims] == ["warns"]
    assert hold.observed is not None
    assert (hold.observed.budget, hold.observed.asked) == ("warns", nano(5))


def test_what_is_only_observed_is_counted_and_told(ledger: Ledger) -> None:
    defined(ledger, strict(), mode="observe")
    hold = ledger.reserve("a", U, usd(5))
    assert hold.observed is not None
    ledger.settle(hold, usd(5))
    assert books(ledger) == (5, 0)


def test_whoever_has_no_budget_is_let_through(ledger: Ledger) -> None:
    defined(ledger, strict())
    hold = ledger.reserve("a", {"agent": "x"}, usd(1000))
    assert hold.claims == ()
    assert ledger.settle(hold, usd(1000)) == (False, "none")
    assert ledger.accounts() == []


def test_a_scope_that_nobody_knows_is_let_through(ledger: Ledger) -> None:
    defined(ledger, strict())
    assert ledger.reserve("a", {"planet": "x"}, usd(1)).claims == ()


def test_nothing_defined_holds_nothing(ledger: Ledger) -> None:
    assert ledger.reserve("a", U, usd(1)).claims == ()


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -0.01, "1", None, True, 1e300, 1_000_001])
def test_what_is_no_amount_of_money_is_an_error(wrong: Any) -> None:
    with pytest.raises(InvalidAmount):
        nano(wrong)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1, 1.5, 10**15 + 1, "1", None, True])
@pytest.mark.parametrize("unit", ["usd", "tokens", "steps"])
def test_what_is_no_amount_changes_nothing(ledger: Ledger, wrong: Any, unit: str) -> None:
    """A NaN never disables a budget."""
    defined(ledger, strict())
    hold = ledger.reserve("a", U, usd(0.5))
    amounts = Amounts()._replace(**{unit: wrong})
    with pytest.raises(InvalidAmount):
        ledger.reserve("b", U, amounts)
    with pytest.raises(InvalidAmount):
        ledger.settle(hold, amounts)
    assert books(ledger) == (0, 0.5)
    assert refused(ledger, "c", 0.6)


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf, 86_401])
def test_money_is_held_for_a_time_that_makes_sense(ledger: Ledger, wrong: float) -> None:
    defined(ledger, strict())
    with pytest.raises(InvalidAmount):
        ledger.reserve("a", U, usd(0.1), wrong)


def test_nothing_is_admitted_where_it_costs_nothing_and_refused_once_more_than_the_limit_was_spent(
    ledger: Ledger,
) -> None:
    defined(ledger, strict())
    ledger.settle(ledger.reserve("a", U, usd(1)), usd(1))
    assert not refused(ledger, "free", 0)
    ledger.settle("late", usd(0.01), U)
    assert refused(ledger, "also free", 0)


def test_reserving_twice_holds_once(ledger: Ledger) -> None:
    """The answer may have been lost; the first estimate stands."""
    defined(ledger, strict())
    ledger.reserve("a", U, usd(0.5))
    hold = ledger.reserve("a", U, usd(0.9))
    assert hold.state == "held"
    assert books(ledger) == (0, 0.5)


def test_settling_twice_charges_once(ledger: Ledger) -> None:
    """R054: a settlement that is delivered three times costs once."""
    defined(ledger, strict())
    hold = ledger.reserve("a", U, usd(0.5))
    assert [ledger.settle(hold, usd(0.1)).charged for _ in range(3)] == [True, False, False]
    assert ledger.settle("a", usd(0.2)) == (False, "settled")
    assert books(ledger) == (0.1, 0)


def test_a_call_that_was_paid_is_not_held_again(ledger: Ledger) -> None:
    defined(ledger, strict())
    ledger.settle(ledger.reserve("a", U, usd(0.5)), usd(0.5))
    again = ledger.reserve("a", U, usd(0.5))
    assert again.state == "settled"
    assert not ledger.settle(again, usd(0.5)).charged
    assert books(ledger) == (0.5, 0)


def test_a_hold_that_expires_gives_the_money_back(ledger: Ledger, clock: FakeClock) -> None:
    """R055: of a process that was killed nothing stays held."""
    defined(ledger, strict())
    ledger.reserve("a", U, usd(1), 5)
    assert refused(ledger, "b", 1)
    clock.advance(5)
    assert not refused(ledger, "b", 1)
    assert books(ledger) == (0, 1)


def test_many_holds_that_expire_at_once_are_all_given_back(ledger: Ledger, clock: FakeClock) -> None:
    """More than one run sweeps."""
    defined(ledger, strict(limit_steps=350))
    for n in range(350):
        ledger.reserve(f"dead-{n}", U, Amounts(), 5)
    clock.advance(5)
    ledger.reserve("alive", U, Amounts(steps=350))
    assert account(ledger).held == 350


@pytest.mark.parametrize("swept", [True, False])
def test_what_was_spent_is_charged_after_the_hold_expired(ledger: Ledger, clock: FakeClock, swept: bool) -> None:
    defined(ledger, strict())
    hold = ledger.reserve("a", U, usd(1), 5)
    clock.advance(6)
    if swept:
        ledger.accounts()
    assert ledger.settle(hold, usd(0.8)) == (True, "expired" if swept else "held")
    assert books(ledger) == (0.8, 0)


def test_a_call_may_be_reserved_again_after_its_hold_expired_or_was_released(ledger: Ledger, clock: FakeClock) -> None:
    defined(ledger, strict())
    ledger.reserve("a", U, usd(1), 5)
    ledger.release("a")
    ledger.reserve("a", U, usd(0.6), 5)
    clock.advance(5)
    ledger.reserve("a", U, usd(0.7), 5)
    assert books(ledger) == (0, 0.7)


def test_a_hold_that_expired_is_given_back_once_whoever_notices(ledger: Ledger, clock: FakeClock) -> None:
    defined(ledger, strict())
    ledger.reserve("a", U, usd(0.6), 5)
    clock.advance(5)
    assert refused(ledger, "a", 1.1)
    assert refused(ledger, "b", 1.1)
    assert books(ledger) == (0, 0)


def test_a_call_that_failed_gives_all_back_once(ledger: Ledger) -> None:
    defined(ledger, strict())
    ledger.reserve("a", U, usd(1))
    assert [ledger.release("a"), ledger.release("a"), ledger.release("never")] == [True, False, False]
    assert books(ledger) == (0, 0)


def test_what_was_spent_is_charged_after_a_release_and_a_release_after_that_changes_nothing(ledger: Ledger) -> None:
    defined(ledger, strict())
    hold = ledger.reserve("a", U, usd(1))
    ledger.release("a")
    assert ledger.settle(hold, usd(0.3)) == (True, "released")
    assert not ledger.release("a")
    assert books(ledger) == (0.3, 0)


def test_what_was_never_reserved_is_charged_where_it_is_said_to_whom(ledger: Ledger) -> None:
    defined(ledger, strict())
    with pytest.raises(UnknownCall):
        ledger.settle("a", usd(0.3))
    assert ledger.settle("a", usd(0.3), U) == (True, "none")
    assert ledger.settle("a", usd(0.3), U) == (False, "settled")
    assert books(ledger) == (0.3, 0)


def test_a_call_that_costs_more_than_its_estimate_is_charged_in_full(ledger: Ledger) -> None:
    """R135: with 0.99 of 1.00 spent, the call in flight ends at 1.04; the next is refused, and an extension resumes."""
    defined(ledger, strict())
    ledger.settle(ledger.reserve("a", U, usd(0.99)), usd(0.99))
    ledger.settle(ledger.reserve("b", U, usd(0.01)), usd(0.05))
    assert books(ledger) == (1.04, 0)
    refusal = refused(ledger, "c", 0.01)
    assert refusal is not None
    assert refusal.refusal.remaining == 0
    ledger.order(order("o", "extend", 1))
    assert not refused(ledger, "c", 0.01)


def test_a_call_counts_in_the_period_in_which_it_was_reserved(ledger: Ledger, clock: FakeClock) -> None:
    defined(ledger, strict(period="daily", time_zone="Europe/Berlin"))
    hold = ledger.reserve("a", U, usd(0.9))
    clock.advance(24 * 3600)
    assert not refused(ledger, "b", 0.9)
    ledger.settle(hold, usd(0.8))
    yesterday, today = ledger.accounts("user:u")
    assert (yesterday.spent, yesterday.held, today.spent, today.held) == (nano(0.8), 0, 0, nano(0.9))
    assert yesterday.period_end_ns == today.period_start_ns


def test_a_refusal_says_when_the_period_ends(ledger: Ledger, clock: FakeClock) -> None:
    """R063: by the calendar of its zone; the first second of the new day is free."""
    defined(ledger, strict(period="daily", time_zone="Asia/Singapore"))
    refusal = refused(ledger, "a", 1.1)
    assert refusal is not None
    until_ns = refusal.refusal.until_ns
    assert until_ns == 1_800_028_800 * 10**9
    ledger.reserve("b", U, usd(1))
    clock.advance((until_ns - clock.now_ns()) / 1e9)
    assert not refused(ledger, "c", 1)


def test_clocks_that_jump_lose_no_money(ledger: Ledger, clock: FakeClock) -> None:
    """Forwards, holds expire early and are charged all the same; backwards, an earlier period goes on where it was."""
    defined(ledger, strict(period="hourly"))
    hold = ledger.reserve("a", U, usd(0.6), 60)
    clock.advance(7200)
    assert not refused(ledger, "b", 0.5)
    clock.advance(-7200)
    ledger.settle(hold, usd(0.6))
    assert refused(ledger, "c", 0.5)
    assert sum(a.spent for a in ledger.accounts()) == nano(0.6)


def test_a_limit_that_is_lowered_below_what_is_held_refuses_until_it_fits(ledger: Ledger) -> None:
    defined(ledger, strict(limit_usd=10))
    hold = ledger.reserve("a", U, usd(8))
    defined(ledger, strict(limit_usd=5))
    assert account(ledger).remaining == -3 * 10**9
    assert refused(ledger, "b", 0.01)
    ledger.settle(hold, usd(4))
    assert not refused(ledger, "c", 1)


def test_a_limit_that_is_raised_holds_with_the_next_call(ledger: Ledger) -> None:
    defined(ledger, strict())
    assert refused(ledger, "a", 2)
    defined(ledger, strict(limit_usd=3))
    assert not refused(ledger, "a", 2)


def test_what_another_process_defines_holds_for_the_very_next_call(
    ledger: Ledger, make: Callable[[], StoredLedger]
) -> None:
    other = make()
    defined(ledger, strict(limit_usd=10))
    other.reserve("a", U, usd(2))
    defined(ledger, strict(limit_usd=1))
    assert refused(other, "b", 0.5)
    defined(ledger)
    assert not refused(other, "b", 100)


def test_who_lives_in_another_period_is_told_the_time(make: Callable[[], StoredLedger], clock: FakeClock) -> None:
    """The first moment of a period is its own, whatever a client believes."""
    late = make()
    defined(late, strict(period="hourly"))
    late._steps._now_ns = lambda: clock.now_ns() - 3600 * 10**9
    late.reserve("a", U, usd(0.3), 7200)
    late._steps._ahead_ns = -1
    late._steps._now_ns = clock.now_ns
    clock.advance(3600)
    late.reserve("b", U, usd(0.4))
    late.order(order("o", "reset"))
    assert [found.held for found in late.accounts()] == [nano(0.3), nano(0.4)]


def test_operators_set_extend_and_reset_each_once_by_id(ledger: Ledger, clock: FakeClock) -> None:
    defined(ledger, strict())
    ledger.settle(ledger.reserve("a", U, usd(1)), usd(1))
    assert ledger.order(order("1", "set", 2))
    until = clock.now_ns() + 60 * 10**9
    assert [ledger.order(order("2", "extend", 1, expires_at_ns=until)) for _ in range(2)] == [True, False]
    found = account(ledger)
    assert (found.limit, found.extra, found.remaining) == (nano(3), nano(1), nano(2))
    assert not refused(ledger, "b", 2)
    clock.advance(60)
    assert account(ledger).limit == nano(2)
    assert ledger.order(order("3", "reset"))
    assert books(ledger) == (0, 2)
    assert ledger.order(order("4", "set"))
    assert account(ledger).limit == nano(1)


def test_an_extension_without_an_end_lasts_to_the_end_of_the_period(ledger: Ledger, clock: FakeClock) -> None:
    defined(ledger, strict(period="hourly"))
    ledger.order(order("1", "extend", 4))
    assert not refused(ledger, "a", 5)
    clock.advance(3600)
    assert refused(ledger, "b", 1.1)
    assert not refused(ledger, "c", 1)


@pytest.mark.parametrize("expires_at_ns", [0, 1, 999_999])
def test_an_extension_that_ended_long_ago_is_none(ledger: Ledger, expires_at_ns: int) -> None:
    defined(ledger, strict())
    assert ledger.order(order("1", "extend", 4, expires_at_ns=expires_at_ns))
    assert refused(ledger, "a", 1.1)


def test_an_order_about_a_budget_that_is_not_defined_is_an_error(ledger: Ledger) -> None:
    defined(ledger, strict())
    with pytest.raises(LedgerError, match="no budget 'team'"):
        ledger.order(order("1", "extend", 1, budget="team"))


def test_rebuilding_sets_and_never_adds(ledger: Ledger) -> None:
    """R053: three workers that restart with 5.0 spent come to 5.0; what is held stays."""
    defined(ledger, strict(limit_usd=6))
    ledger.reserve("a", U, usd(0.5))
    spent = [account(ledger)]
    for _ in range(3):
        ledger.rebuild([found.__class__(**{**_fields(found), "spent": nano(5)}) for found in spent])
    assert books(ledger) == (5, 0.5)
    assert refused(ledger, "b", 0.6)


def test_books_that_were_lost_are_rebuilt_before_anybody_spends(ledger: Ledger) -> None:
    defined(ledger, strict(), strict("day", "team", period="daily"))
    who = {"user": "u", "team": "t"}
    ledger.settle(ledger.reserve("a", who, usd(0.7)), usd(0.7))
    known = ledger.accounts()
    lost = [found.__class__(**{**_fields(found), "spent": 0}) for found in known]
    ledger.rebuild(lost)
    ledger.rebuild(known)
    assert ledger.accounts() == known


def test_accounts_tell_apart_names_that_look_alike(ledger: Ledger) -> None:
    defined(ledger, strict(limit_usd=5))
    for name in ("u", "u|user", "u*", "u 1", "ü\0x", "[u]"):
        ledger.reserve(name, {"user": name}, usd(1))
        (found,) = ledger.accounts(f"user:{name}")
        assert (found.scope, found.held) == (f"user:{name}", nano(1))
    assert len(ledger.accounts()) == 6


def test_accounts_of_sessions_and_old_periods_are_forgotten_and_those_for_good_are_not(
    ledger: Ledger, clock: FakeClock
) -> None:
    defined(ledger, strict(), strict("session", "session"), strict("day", "team", period="daily"))
    who = {"user": "u", "team": "t", "session": "s"}
    ledger.settle(ledger.reserve("a", who, usd(0.7)), usd(0.7))
    clock.advance(34 * 24 * 3600)
    ledger.settle(ledger.reserve("b", who, usd(0.2)), usd(0.2))
    clock.advance(20 * 24 * 3600)
    assert [(a.scope, a.spent) for a in ledger.accounts() if a.budget != "day"] == [
        ("session:s", nano(0.9)),
        ("user:u", nano(0.9)),
    ]
    assert len([a for a in ledger.accounts() if a.budget == "day"]) == 1
    clock.advance(36 * 24 * 3600)
    assert [(a.scope, a.spent) for a in ledger.accounts()] == [("user:u", nano(0.9))]


def test_defining_the_same_again_changes_nothing(ledger: Ledger) -> None:
    defined(ledger, strict())
    before = ledger.book
    defined(ledger, strict())
    assert ledger.book is before
    assert [budget.name for budget in ledger.budgets()] == ["user"]


def test_what_is_awaited_does_the_same(ledger: Ledger) -> None:
    """On one event loop after another."""
    defined(ledger, strict())

    async def spend(call: str) -> None:
        hold = await ledger.areserve(call, U, usd(0.5))
        with pytest.raises(Refused):
            await ledger.areserve("x", U, usd(0.6))
        await ledger.asettle(hold, usd(0.1))
        await ledger.areserve("y" + call, U, usd(0.1))
        assert await ledger.arelease("y" + call)

    asyncio.run(spend("a"))
    asyncio.run(spend("b"))
    assert books(ledger) == (0.2, 0)


def _fields(found: Any) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__dataclass_fields__}
