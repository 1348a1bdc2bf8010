"""Budgets of a scope: what a charge spends, what stands against the scope for it, and what operators order.

A key has one decision at a time, and both the breaker and a budget may ask for it. Each keeps its own; what Guards are told is
the stronger of the two (`ScopeState.standing`): a block before a nudge, and of two blocks the one that holds longer. When that
ends, the other is told, as far as it still holds: none unlocks the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from spanfuse_processor.core import budgets
from spanfuse_processor.core.accounts import Accounts, accounts_of
from spanfuse_processor.core.circuit import Mode, over
from spanfuse_processor.core.finding import Finding
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_schemas import Budget, BudgetOrder, Charge, Decision
from spanfuse_schemas.budget import Share
from spanfuse_schemas.periods import FOREVER_NS, Period

Shares = Sequence[Share]


def spend(state: ScopeState, shares: Shares, charge: Charge) -> list[Finding]:
    """Add a charge to the accounts: what is told of it."""
    accounts = accounts_of(state, charge.at_ns)
    parts = [*budgets.parts_of(charge)]
    found: list[Finding] = []
    for share in shares:
        touched: dict[Period, None] = {}
        for at_ns, amounts in parts:
            spent = budgets.amount_of(share.budget, amounts)
            if spent and (period := accounts.add(share.budget, at_ns, spent)) is not None:
                touched[period] = None
        for period in touched:
            found += budgets.reached(accounts, share, period)
    return found


def look(state: ScopeState, shares: Shares, now_ns: int) -> list[Finding]:
    """Time has passed, or a limit has changed: what is told of the running periods."""
    accounts = accounts_of(state, now_ns)
    return [
        found
        for share in shares
        for found in budgets.reached(accounts, share, share.budget.period_at(accounts.clock_ns))
    ]


def carry_out(state: ScopeState, order: BudgetOrder, budget: Budget) -> bool:
    """Do what an operator has ordered; false if it was done before."""
    accounts = accounts_of(state, order.at_ns)
    if not accounts.carry_out(order, budget):
        return False
    budgets.untell(accounts, budget, budget.period_at(accounts.clock_ns))
    return True


def begin_anew(state: ScopeState, shares: Shares, now_ns: int) -> list[str]:
    """For a reset of the whole scope: empty the accounts that hold it back, and name their budgets."""
    accounts = state.budgets
    if accounts is None:
        return []
    accounts.clock_ns = max(accounts.clock_ns, now_ns)
    emptied = [share.budget for share in budgets.asking(accounts, shares)]
    for budget in emptied:
        accounts.empty(budget, budget.period_at(accounts.clock_ns))
    return [budget.name for budget in emptied]


def settle(
    state: ScopeState, before: Decision | None, shares: Shares, at_ns: int, mode: Mode, told: Decision | None, why: str
) -> Decision | None:
    """What Guards are told, once the breaker and the accounts have changed.

    Args:
        before: what stood until now.
        told: what the breaker has to tell.
        why: what is said if nothing stands any more.
    """
    if state.decision is not None and state.decision.lapses and over(state.decision, at_ns):
        state.decision = None  # of a state that was lost
    state.blocked = _block(state, shares, at_ns, mode)
    after = state.standing
    if after is before:
        return None
    if after is not None and after is told:
        return told
    if after is None and told is not None:
        return told
    state.epoch += 1
    if after is None:
        rule = before.rule if before is not None else ""
        return Decision(
            key=state.key, state="closed", mode=mode, rule=rule, message=why, issued_at_ns=at_ns, epoch=state.epoch
        )
    again = after.model_copy(update={"epoch": state.epoch, "issued_at_ns": at_ns, "mode": mode})
    state.stand_again(again)
    return again


def _block(state: ScopeState, shares: Shares, at_ns: int, mode: Mode) -> Decision | None:
    """What the budgets hold against the scope: the one that does so longest, and of several the one that is exceeded most."""
    accounts = state.budgets
    if accounts is None:
        return None
    asking = budgets.asking(accounts, shares)
    if not asking:
        return None
    share = max(asking, key=lambda s: _weight(s, accounts))
    end_ns = share.budget.period_at(accounts.clock_ns).end_ns
    expires = None if end_ns == FOREVER_NS else end_ns
    held, rule = state.blocked, f"budget.{share.budget.name}"
    if held is not None and (held.rule, held.expires_at_ns, held.mode) == (rule, expires, mode):
        return held
    found, block = budgets.spent_up(accounts, share), share.budget.mode == "block"
    return Decision(
        key=state.key,
        state="open" if block else "closed",
        action="block" if block else "nudge",
        mode=mode,
        rule=rule,
        message=found.message,
        evidence=found.evidence,
        issued_at_ns=at_ns,
        expires_at_ns=expires,
        lapses=expires is not None,
    )


def _weight(share: Share, accounts: Accounts) -> tuple[bool, int, float]:
    budget = share.budget
    period = budget.period_at(accounts.clock_ns)
    used = accounts.at(budget, period).spent / accounts.limit(budget)
    return budget.mode == "block", period.end_ns, used
