"""What was spent of budgets, by period: of a scope, or of a session. Bounded, and plain fields only.

Money belongs to the period in which its call ended. The newest `PERIODS` periods of a budget are kept, so that what comes late
is added to its own period and never to the one that runs; what is older than these is over, and is not counted.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

from spanfuse_schemas import Budget, BudgetOrder
from spanfuse_schemas.budget import NANO
from spanfuse_schemas.periods import FOREVER_NS, Period

PERIODS: Final = 2
"""Accounts kept of a budget: the period that runs, and the one before, for charges that come late."""
MAX_BUDGETS: Final = 64
"""Budgets of which accounts are kept; a policy that was changed leaves some behind, and the one touched first goes."""
MAX_EXTENSIONS: Final = 16
"""Extensions of one budget that hold at a time; of more, those that were ordered last."""
MAX_ORDERS: Final = 32
"""Orders remembered by their ids, so that each is carried out once."""
_FIELDS: Final = 4


class Account(NamedTuple):
    """What was spent of a budget in one period."""

    start_s: int
    """Begin of the period, seconds since the Unix epoch."""
    spent: int
    """In the budget's unit."""
    told: int
    """The highest share of the limit that was told, parts of `ALL`."""
    first_s: int
    """End of the first call in it, seconds since the Unix epoch."""


class Accounts:
    """The accounts of one scope, and what operators have ordered about them."""

    __slots__ = ("clock_ns", "extended", "limits", "orders", "sums")

    def __init__(self) -> None:
        self.sums: dict[str, list[int]] = {}
        """Unit and budget → fields of `Account`, of each period in turn, the newest first."""
        self.limits: dict[str, int] = {}
        """Budget → the limit that was ordered instead of the configured one."""
        self.extended: dict[str, list[list[int]]] = {}
        """Budget → by how much, and until when (ns)."""
        self.orders: list[str] = []
        """Ids of the last orders carried out."""
        self.clock_ns = 0
        """By which the running period is known: the newest call, or the host's clock; never goes back."""

    def at(self, budget: Budget, period: Period) -> Account:
        """The account of a period; an empty one if nothing was spent in it."""
        start, found = period.start_ns // NANO, self.sums.get(budget.slot, ())
        for i in range(0, len(found), _FIELDS):
            if found[i] == start:
                return Account(*found[i : i + _FIELDS])
        return Account(start, 0, 0, 0)

    def spent(self, budget: Budget, period: Period) -> int:
        """What was spent in a period, in the budget's unit."""
        fields = self.sums.get(budget.slot)
        if fields is not None and fields[0] * NANO == period.start_ns:
            return fields[1]
        return self.at(budget, period).spent

    def add(self, budget: Budget, at_ns: int, amount: int) -> Period | None:
        """Spend.

        Args:
            at_ns: end of the call, nanoseconds since the Unix epoch.
            amount: in the budget's unit.

        Returns:
            The period that it belongs to; none: one that is over for so long that it is kept no more.
        """
        period, at_s = budget.period_at(at_ns), at_ns // NANO
        fields = self.sums.get(budget.slot)
        if fields is not None and fields[0] * NANO == period.start_ns:  # as nearly always: of the running period
            fields[1] += amount
            fields[3] = min(fields[3] or at_s, at_s)
            return period
        account = self.at(budget, period)
        first = min(account.first_s or at_s, at_s)
        kept = self._put(budget, account._replace(spent=account.spent + amount, first_s=first))
        return period if kept else None

    def tell(self, budget: Budget, period: Period, told: int) -> None:
        """Note up to which share of the limit it was told."""
        self._put(budget, self.at(budget, period)._replace(told=told))

    def empty(self, budget: Budget, period: Period) -> None:
        """What was spent in a period counts no more."""
        self._put(budget, Account(period.start_ns // NANO, 0, 0, 0))

    def limit(self, budget: Budget) -> int:
        """The limit as it is now, in the budget's unit."""
        if not (self.extended or self.limits):
            return budget.limit
        return self.limit_of(budget.name, budget.limit)

    def limit_of(self, name: str, configured: int) -> int:
        """The same by the name of the budget."""
        more = sum(amount for amount, until in self.extended.get(name, ()) if until > self.clock_ns)
        return self.limits.get(name, configured) + more

    def forget(self) -> None:
        """Forget what was spent, and not what was ordered."""
        self.sums = {}

    def extensions_end(self) -> list[int]:
        """When extensions that hold now end, nanoseconds since the Unix epoch."""
        clock = self.clock_ns
        return [until for found in self.extended.values() for _, until in found if clock < until < FOREVER_NS]

    def carry_out(self, order: BudgetOrder, budget: Budget) -> bool:
        """Do what an operator has ordered; false if it was done before."""
        if order.id in self.orders:
            return False
        self.orders = [*self.orders[-(MAX_ORDERS - 1) :], order.id]
        name, period = budget.name, budget.period_at(max(order.at_ns, self.clock_ns))
        if order.action == "reset":
            self.empty(budget, period)
        elif order.action == "extend":
            until = period.end_ns if order.expires_at_ns is None else order.expires_at_ns
            kept = [one for one in self.extended.get(name, ()) if one[1] > self.clock_ns]
            self.extended[name] = [*kept[-(MAX_EXTENSIONS - 1) :], [order.amount, until]]
        elif order.amount:
            self.limits[name] = order.amount
        else:
            self.limits.pop(name, None)
        return True

    def take_over(self, other: Accounts) -> None:
        """Add what was spent under another name."""
        self.clock_ns = max(self.clock_ns, other.clock_ns)
        for slot, found in other.sums.items():
            for i in range(0, len(found), _FIELDS):
                start, spent, told, first = found[i : i + _FIELDS]
                mine = next((a for a in _accounts(self.sums.get(slot, [])) if a.start_s == start), None)
                if mine is not None:
                    spent, told = spent + mine.spent, max(told, mine.told)
                    first = min(first or mine.first_s, mine.first_s or first)
                self._keep(slot, Account(start, spent, told, first))

    def _put(self, budget: Budget, account: Account) -> bool:
        return self._keep(budget.slot, account)

    def _keep(self, slot: str, account: Account) -> bool:
        """Keep an account, and of its budget the newest; false if it is too old."""
        kept = [a for a in _accounts(self.sums.get(slot, [])) if a.start_s != account.start_s]
        kept = sorted((account, *kept), reverse=True)[:PERIODS]
        if slot not in self.sums and len(self.sums) >= MAX_BUDGETS:
            del self.sums[next(iter(self.sums))]
        self.sums[slot] = [field for one in kept for field in one]
        return account in kept

    def lasting_s(self) -> float:
        """How long they have to be remembered without a call, seconds: as long as the longest period, and a day for what
        comes late; a year where a period never ends, or an operator has set a limit."""
        if self.limits or any(until == FOREVER_NS for found in self.extended.values() for _, until in found):
            return _YEAR_S
        return max((_LASTS_S[slot[:1]] for slot in self.sums), default=0.0)


class Holder(Protocol):
    """A scope or a session."""

    budgets: Accounts | None


def accounts_of(holder: Holder, now_ns: int) -> Accounts:
    """The accounts of a scope or a session, which has some from the first use on; by a time that never goes back."""
    accounts = holder.budgets
    if accounts is None:
        accounts = holder.budgets = Accounts()
    accounts.clock_ns = max(accounts.clock_ns, now_ns)
    return accounts


def _accounts(fields: list[int]) -> list[Account]:
    return [Account(*fields[i : i + _FIELDS]) for i in range(0, len(fields), _FIELDS)]


_DAY_S: Final = 24 * 3600.0
_YEAR_S: Final = 366 * _DAY_S
_LASTS_S: Final = {
    "t": _YEAR_S, "h": 2 * _DAY_S, "d": 3 * _DAY_S, "w": 9 * _DAY_S, "m": 33 * _DAY_S,
}  # fmt: skip
"""By the first letter of the period."""


def dumped(accounts: Accounts) -> list[Any]:
    """Accounts as plain fields."""
    return [getattr(accounts, name) for name in Accounts.__slots__]


def loaded(fields: list[Any]) -> Accounts:
    """The inverse of `dumped`."""
    found = Accounts()
    for name, value in zip(Accounts.__slots__, fields, strict=True):
        setattr(found, name, value)
    return found
