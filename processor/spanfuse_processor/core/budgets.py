"""What accounts say of their budgets: which shares are reached, whether all is spent, when it will be, and how it is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from spanfuse_processor.core.accounts import Account, Accounts
from spanfuse_processor.core.finding import Finding, action_of
from spanfuse_schemas import Budget, BudgetOrder, Charge, Evidence
from spanfuse_schemas.budget import ALL, ANYBODY, NANO, Audited, Share, Unit, dollars
from spanfuse_schemas.charge import QUARTER_NS
from spanfuse_schemas.periods import FOREVER_NS, Period, zone

Amounts = tuple[int, int, int]
"""Cost (nano-dollars), tokens, calls."""
_OF_UNIT: Final[dict[Unit, int]] = {"usd": 0, "tokens": 1, "steps": 2}
_UNITS: Final[dict[Unit, str]] = {"usd": "USD", "tokens": "tokens", "steps": "calls"}
LEAST_S: Final = 60
"""A rate is taken over at least this long, seconds: the first two calls of a day tell nothing of the day."""


@dataclass(slots=True, frozen=True)
class Ordered:
    """What became of an operator's order."""

    order: BudgetOrder
    done: bool
    """Carried out now."""
    why: str = ""
    """If not: why."""
    account: dict[str, Any] = field(default_factory=dict)
    """The account afterwards; see `row`."""

    def audited(self) -> Audited:
        """As it is kept."""
        return Audited(order=self.order, done=self.done, why=self.why, account=self.account)


def parts_of(charge: Charge) -> Iterator[tuple[int, Amounts]]:
    """What a charge spends, and when: its sums, those apart that belong to other quarters of an hour."""
    cost, tokens, calls = charge.cost_nano_usd, charge.input_tokens + charge.output_tokens, charge.calls
    for quarter, (c, t, n) in charge.earlier.items():
        cost, tokens, calls = cost - c, tokens - t, calls - n
        yield quarter * QUARTER_NS, (c, t, n)
    yield charge.at_ns, (cost, tokens, calls)


def amount_of(budget: Budget, amounts: Amounts) -> int:
    """What of it the budget counts."""
    return amounts[_OF_UNIT[budget.unit]]


def reached(accounts: Accounts, share: Share, period: Period) -> list[Finding]:
    """What has to be told of a period: each share of the limit once."""
    budget = share.budget
    limit = accounts.limit(budget)
    spent = accounts.spent(budget, period) * ALL
    if spent < budget.levels[0] * limit:
        return []
    account = accounts.at(budget, period)
    new = [level for level in budget.levels if account.told < level and spent >= level * limit]
    if not new:
        return []
    accounts.tell(budget, period, new[-1])
    return [_finding(accounts, share, period, account, level) for level in new]


def untell(accounts: Accounts, budget: Budget, period: Period) -> None:
    """After an order: shares that are not reached any more are told again when they are."""
    account, limit = accounts.at(budget, period), accounts.limit(budget)
    still = max((level for level in budget.levels if account.spent * ALL >= level * limit), default=0)
    if account.told > still:
        accounts.tell(budget, period, still)


def exhausted(accounts: Accounts, budget: Budget) -> bool:
    """Whether all of the running period is spent."""
    return accounts.spent(budget, budget.period_at(accounts.clock_ns)) >= accounts.limit(budget)


def asking(accounts: Accounts, shares: Iterable[Share]) -> list[Share]:
    """The budgets that hold somebody back: all of their running period is spent."""
    return [s for s in shares if s.budget.mode in ("block", "nudge") and exhausted(accounts, s.budget)]


def spent_up(accounts: Accounts, share: Share) -> Finding:
    """That all of the running period is spent, as a block tells it."""
    period = share.budget.period_at(accounts.clock_ns)
    return _finding(accounts, share, period, accounts.at(share.budget, period), ALL)


def projected_ns(account: Account, limit: int, now_ns: int, period: Period) -> int | None:
    """When the limit will be reached, if spending goes on as in this period so far.

    `now + (limit - spent) × elapsed / spent`, where `elapsed` is the time from the end of the first call of the period, at
    least `LEAST_S`. None: not before the period is over, or it is reached already.
    """
    if not account.spent or account.spent >= limit:
        return None
    elapsed_ns = max(now_ns - account.first_s * NANO, LEAST_S * NANO)
    at_ns = now_ns + (limit - account.spent) * elapsed_ns // account.spent
    return at_ns if at_ns < period.end_ns else None


def row(accounts: Accounts | None, share: Share, now_ns: int) -> dict[str, Any]:
    """An account as it is listed. `used` is a share of the limit; `status` is `ok`, `warning` (a threshold is reached) or
    `exhausted`; `projected_ns` see there."""
    accounts = accounts or Accounts()
    period = share.budget.period_at(max(now_ns, accounts.clock_ns))
    return row_of(share, period, accounts.at(share.budget, period), accounts.limit(share.budget), now_ns)


def row_of(share: Share, period: Period, account: Account, limit: int, now_ns: int) -> dict[str, Any]:
    """The same of an account at hand."""
    budget = share.budget
    warns = any(account.spent * ALL >= level * limit for level in budget.levels)
    status = "exhausted" if account.spent >= limit else "warning" if warns else "ok"
    return {
        "account": share.key(period),
        "scope": share.scope,
        "budget": budget.name,
        "unit": budget.unit,
        "spent": account.spent,
        "limit": limit,
        "remaining": max(0, limit - account.spent),
        "used": account.spent / limit,
        "status": status,
        "period_start_ns": period.start_ns,
        "period_end_ns": None if period.end_ns == FOREVER_NS else period.end_ns,
        "projected_ns": projected_ns(account, limit, max(now_ns, account.first_s * NANO), period),
    }


def amount(unit: Unit, value: int) -> str:
    """An amount for people."""
    return dollars(value) if unit == "usd" else f"{value:,} {_UNITS[unit]}"


def named(shares: Iterable[Share], name: str) -> Share | None:
    """The budget of that name, if it holds here."""
    return next((share for share in shares if share.budget.name == name), None)


def ordered_by(order: BudgetOrder) -> str:
    """What is said of an order that has released something."""
    by = f" by {order.actor}" if order.actor else ""
    return f"Budget `{order.budget}`: {order.action}{by}."


def described(budget: Budget) -> str:
    """A budget for people, such as `each user $5.0000 daily (Europe/Berlin), soft, block`."""
    named = f"{budget.scope} {budget.match}" if budget.match != ANYBODY else f"each {budget.scope}"
    whose = "all together" if budget.scope == "global" else named
    when = "in all" if budget.period == "total" else f"{budget.period} ({budget.time_zone})"
    return f"{whose} {amount(budget.unit, budget.limit)} {when}, {budget.strength}, {budget.mode}"


def moment(at_ns: int, time_zone: str) -> str:
    """A moment for people."""
    return f"{datetime.fromtimestamp(at_ns / NANO, zone(time_zone)):%Y-%m-%d %H:%M} {time_zone}"


def _finding(accounts: Accounts, share: Share, period: Period, account: Account, level: int) -> Finding:
    budget, limit = share.budget, accounts.limit(share.budget)
    over, usd, past = level == ALL, budget.unit == "usd", period.end_ns <= accounts.clock_ns
    scale = NANO if usd else 1
    ends = "" if period.end_ns == FOREVER_NS else f" until {moment(period.end_ns, budget.time_zone)}"
    said = f"{_who(share.scope)} spent {amount(budget.unit, account.spent)} of {amount(budget.unit, limit)}{ends}"
    if past:
        told = f"{level / 100:g} % of budget `{budget.name}` was reached in a period that is over: {said}."
    elif over:
        anew = "when its period ends, or " if ends else ""
        told = f"All of budget `{budget.name}` is spent: {said}. It is released {anew}when it is raised or reset."
    else:
        told = f"{level / 100:g} % of budget `{budget.name}` is reached: {said}.{_outlook(accounts, budget, account, period)}"
    return Finding(
        rule=f"budget.{budget.name}",
        mode=budget.mode,
        action=action_of(budget.mode) if over and not past else "warn",
        message=told,
        evidence=Evidence(
            count=0 if usd else account.spent,
            threshold=level * limit / (ALL * scale),
            value=account.spent / scale,
            unit=_UNITS[budget.unit],
            since_ns=max(period.start_ns, account.first_s * NANO),
            cost_nano_usd=account.spent if usd else 0,
        ),
    )


def _outlook(accounts: Accounts, budget: Budget, account: Account, period: Period) -> str:
    at_ns = projected_ns(account, accounts.limit(budget), accounts.clock_ns, period)
    return f" As it goes, all is spent at {moment(at_ns, budget.time_zone)}." if at_ns and at_ns < _LAST_NS else ""


_LAST_NS: Final = 253_370_764_800 * NANO
"""The year 9999: no calendar goes further."""


def _who(scope: str) -> str:
    kind, _, name = scope.partition(":")
    return "All together" if kind == "global" else f"{kind.capitalize()} `{name}`"
