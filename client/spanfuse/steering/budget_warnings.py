"""Tells an agent's code that a budget runs out, while there is something left to finish with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from spanfuse.bounded import Bounded

if TYPE_CHECKING:
    from spanfuse.calls.caps import Given, Spent
    from spanfuse.calls.model_call import ModelCall
    from spanfuse.context import Identity
    from spanfuse.ledger.records import Claim, Room

FRACTIONS: Final = (0.5, 0.2, 0.1)
"""Shares of the limit that are left when it is told: half of it, and twice where one call more may be the last."""
MAX_ACCOUNTS: Final = 10_000
"""Accounts whose last warning is remembered; beyond it the one told of longest ago may be told of again."""
_NANO: Final = 10**9


class BudgetWarning(NamedTuple):
    """A budget is used so far."""

    key: str
    """Whose: `session:run-1`, or the scope of a budget of the ledger, such as `user:u-7`."""
    budget: str
    """`budget_usd` or `max_steps` that the session was given, `budget.session` or `limits.max_steps` that the rules of a local
    host set, or the name of a strict budget."""
    fraction: float
    """The smallest of the fractions under which the rest has fallen."""
    left: float
    """What is left, in `unit`; never negative."""
    limit: float
    """The limit, in `unit`."""
    unit: str
    """`USD`, `tokens` or `calls`."""
    session: str | None
    """Session of the call after which it is told."""


class BudgetWarnings:
    """A listener of a Guard: after each call it looks at the caps of its session, and at the strict budgets that the ledger
    told of when the call was admitted. Each fraction is told once an account and period; of several passed at once, the
    smallest.

    Args:
        callback: is called in the thread of the call.
        fractions: shares of a limit that are left, between 0 and 1.
        spent: gives what a session has used.
        ruled: gives the caps that rules set for a call.

    Raises:
        ValueError: a fraction is none.
    """

    def __init__(
        self,
        callback: Callable[[BudgetWarning], object],
        fractions: Iterable[float],
        spent: Callable[[str], Spent],
        ruled: Callable[[Identity], Given],
    ) -> None:
        self._fractions = sorted(fractions)
        if not self._fractions or not 0 < self._fractions[0] <= self._fractions[-1] < 1:
            raise ValueError("fractions are shares of a limit, between 0 and 1")
        self._callback, self._spent, self._ruled = callback, spent, ruled
        self._told: Bounded[tuple[str, str, float], float] = Bounded(MAX_ACCOUNTS)
        self.after_fork()

    def after_fork(self) -> None:
        """The lock may have been held by a thread that does not exist in this process."""
        self._lock = threading.Lock()

    def ended(self, call: ModelCall) -> None:
        """A model call is over."""
        session = call.who.session
        due = [*self._of_session(session, self._ruled(call.who))] if session is not None else []
        if call.reservation is not None:
            due += [_of_account(claim, room, session) for claim, room in call.reservation.accounts()]
        for account, warning in due:
            self._tell(account, warning)

    def _of_session(self, session: str, ruled: Given) -> Iterator[tuple[str, BudgetWarning]]:
        spent, key = self._spent(session), f"session:{session}"
        for budget, used, limit, unit in (
            ("budget_usd", spent.cost_usd, spent.budget_usd, "USD"),
            ("max_steps", spent.steps, spent.max_steps, "calls"),
            ("budget.session", spent.cost_usd, (ruled.budget or 0) / _NANO, "USD"),
            ("limits.max_steps", spent.steps, ruled.max_steps, "calls"),
        ):
            if limit:
                yield key, BudgetWarning(key, budget, 1.0, max(0.0, limit - used), limit, unit, session)

    def _tell(self, account: str, warning: BudgetWarning) -> None:
        share = warning.left / warning.limit
        passed = next((fraction for fraction in self._fractions if share <= fraction + 1e-9), None)
        if passed is None:
            return
        of = (account, warning.budget, warning.limit)
        with self._lock:
            before = self._told.get(of)
            if before is not None and before <= passed:
                return
            self._told[of] = passed
        self._callback(warning._replace(fraction=passed))


def _of_account(claim: Claim, room: Room, session: str | None) -> tuple[str, BudgetWarning]:
    unit = {"usd": "USD", "steps": "calls"}.get(claim.budget.unit, claim.budget.unit)
    scale = _NANO if unit == "USD" else 1
    left, limit = max(0, room.limit - room.spent) / scale, room.limit / scale
    return claim.account, BudgetWarning(claim.scope, claim.budget.name, 1.0, left, limit or 1.0, unit, session)
