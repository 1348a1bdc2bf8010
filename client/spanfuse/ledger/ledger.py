"""A ledger: reserve before a call, settle after it, and no budget is ever exceeded by more than an estimate was wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

from spanfuse.ledger.amounts import UNITS, Amounts
from spanfuse.ledger.book import Book, Definitions
from spanfuse.ledger.records import Account, Claim, Hold, Settled
from spanfuse.ledger.steps import HOLD_S, Step, Steps
from spanfuse.ledger.store import Row, Store
from spanfuse_schemas.budget import NANO, Budget, BudgetOrder
from spanfuse_schemas.periods import TOTAL, Period

T = TypeVar("T")


class Ledger(Protocol):
    """What `RedisLedger` and `SqliteLedger` both are. Safe under threads and forks. What is prefixed with `a` is to be awaited,
    and does the same.

    Every method raises `Unavailable` where the books cannot be reached in time, and `InvalidAmount` for what is no amount.
    """

    @property
    def book(self) -> Book | None:
        """The definitions as last read; None before the first."""

    def claims(self, identities: Mapping[str, str]) -> tuple[Claim, ...]:
        """The accounts of a call as far as they are known without asking."""

    def define(self, definitions: Definitions) -> None:
        """Publish budgets, mode and prices for all. The same again changes nothing; the latest holds."""

    def budgets(self) -> tuple[Budget, ...]:
        """All budgets as published now."""

    def reserve(
        self,
        call_id: str,
        identities: Mapping[str, str],
        amounts: Amounts,
        hold_s: float = HOLD_S,
        *,
        enforce: bool | None = None,
    ) -> Hold:
        """Hold an estimate on every strict budget of a call, or on none.

        Asked again with the same id, the first hold stands; after a settlement the call is paid; after a release or an expiry
        it is a new call. What is held comes back by itself after `hold_s`.

        Args:
            call_id: names the call; up to 256 characters.
            identities: kind → name, such as `{"session": "s-1", "user": "u-7"}`.
            amounts: the most that the call may take.
            hold_s: until when it is held, seconds from now, at most a day.
            enforce: False: hold it whether there is room or not; True: enforce budgets that the definitions only observe;
                None: as they say.

        Raises:
            Refused: a budget has no room; the tightest is named.
        """

    def settle(self, call: Hold | str, amounts: Amounts, identities: Mapping[str, str] | None = None) -> Settled:
        """Charge what a call took to the periods in which it was reserved, whatever its estimate, and give the rest back.

        Once per call: a second settlement changes nothing. After an expiry or a release the money is charged all the same.

        Args:
            call: the hold; or the id of a call.
            amounts: what it took.
            identities: whom to charge now, where nothing was reserved under the id.

        Raises:
            UnknownCall: nothing is known under an id, and there are no identities.
        """

    def release(self, call_id: str) -> bool:
        """Give back what is held for a call that was not made; whether anything was."""

    def order(self, order: BudgetOrder) -> bool:
        """Carry out an operator's order, once per its id within 90 days; False: it had been.

        Raises:
            LedgerError: no such budget is defined.
        """

    def accounts(self, scope: str | None = None) -> list[Account]:
        """The accounts of one scope such as `user:u-7`, or all, with those of past periods for 35 days."""

    def rebuild(self, accounts: Iterable[Account]) -> None:
        """Set what was spent to given totals; the same again changes nothing. What is held stays."""

    def close(self) -> None:
        """Let connections go."""

    async def areserve(
        self,
        call_id: str,
        identities: Mapping[str, str],
        amounts: Amounts,
        hold_s: float = HOLD_S,
        *,
        enforce: bool | None = None,
    ) -> Hold: ...

    async def asettle(
        self, call: Hold | str, amounts: Amounts, identities: Mapping[str, str] | None = None
    ) -> Settled: ...

    async def arelease(self, call_id: str) -> bool: ...


class StoredLedger:
    """A ledger whose books lie in a store.

    Args:
        store: where.
        steps: what is asked of it.
    """

    def __init__(self, store: Store, steps: Steps) -> None:
        self.store: Final = store
        self._steps: Final = steps

    def _do(self, step: Step[T]) -> T:
        try:
            asked = next(step)
            while True:
                asked = step.send(self.store.run(*asked))
        except StopIteration as done:
            result: T = done.value
            return result

    async def _ado(self, step: Step[T]) -> T:
        try:
            asked = next(step)
            while True:
                asked = step.send(await self.store.arun(*asked))
        except StopIteration as done:
            result: T = done.value
            return result

    @property
    def book(self) -> Book | None:
        return self._steps.book

    def claims(self, identities: Mapping[str, str]) -> tuple[Claim, ...]:
        return self.book.claims(identities, self._steps.server_ns()) if self.book else ()

    def define(self, definitions: Definitions) -> None:
        self._do(self._steps.define(definitions))

    def budgets(self) -> tuple[Budget, ...]:
        return self._do(self._steps.read()).definitions.budgets

    def reserve(
        self,
        call_id: str,
        identities: Mapping[str, str],
        amounts: Amounts,
        hold_s: float = HOLD_S,
        *,
        enforce: bool | None = None,
    ) -> Hold:
        return self._do(self._steps.reserve(call_id, identities, amounts, hold_s, enforce))

    async def areserve(
        self,
        call_id: str,
        identities: Mapping[str, str],
        amounts: Amounts,
        hold_s: float = HOLD_S,
        *,
        enforce: bool | None = None,
    ) -> Hold:
        return await self._ado(self._steps.reserve(call_id, identities, amounts, hold_s, enforce))

    def settle(self, call: Hold | str, amounts: Amounts, identities: Mapping[str, str] | None = None) -> Settled:
        return self._do(self._steps.settle(call, amounts, identities))

    async def asettle(self, call: Hold | str, amounts: Amounts, identities: Mapping[str, str] | None = None) -> Settled:
        return await self._ado(self._steps.settle(call, amounts, identities))

    def release(self, call_id: str) -> bool:
        return self._do(self._steps.release(call_id))

    async def arelease(self, call_id: str) -> bool:
        return await self._ado(self._steps.release(call_id))

    def order(self, order: BudgetOrder) -> bool:
        return self._do(self._steps.order(order))

    def rebuild(self, accounts: Iterable[Account]) -> None:
        self._do(self._steps.rebuild(accounts))

    def accounts(self, scope: str | None = None) -> list[Account]:
        self._do(self._steps.sweep())
        book, now_ms = self._do(self._steps.read()), self._steps.server_ns() // 1_000_000
        found = {
            account.account: account for row in self.store.rows(scope) for account in [_account(row, book, now_ms)]
        }
        return sorted(found.values(), key=lambda a: a.account)

    def close(self) -> None:
        self.store.close()


def _account(row: Row, book: Book, now_ms: int) -> Account:
    what: list[Any] = json.loads(row.what)
    scope, name, unit, start, end = what
    period = Period(int(start) * NANO, int(end) * NANO) if end else TOTAL
    budget = book.by_name.get(name)
    set_to, *more = row.orders.split() or ["-"]
    extras = [extra.split(":") for extra in more]
    extra = sum(int(amount) for until, amount in extras if until == "0" or int(until) > now_ms)
    limit = (int(set_to) if set_to != "-" else budget.limit) + extra if budget else 0
    key = f"{scope}|{name}" + (f"|{start}" if end else "")
    return Account(key, scope, name, UNITS[unit - 1], row.spent, period.start_ns, period.end_ns, row.held, limit, extra)
