"""Budgets and what is claimed of them, in the shortest words."""

from __future__ import annotations

from typing import Any

from spanfuse.ledger import Account, Amounts, Definitions, Ledger, Refused, nano
from spanfuse_schemas.budget import Budget, BudgetOrder


def strict(name: str = "user", scope: str = "user", **more: Any) -> Budget:
    """A strict budget; of one dollar, if nothing is said."""
    given = more if any(key.startswith("limit") for key in more) else {"limit_usd": 1, **more}
    return Budget.model_validate({"name": name, "scope": scope, "strength": "strict", **given})


def usd(dollars: float, tokens: int = 0) -> Amounts:
    """The amounts of one call."""
    return Amounts(nano(dollars), tokens)


def defined(ledger: Ledger, *budgets: Budget, **more: Any) -> Ledger:
    """The ledger with these budgets and no others."""
    ledger.define(Definitions(budgets=budgets, **more))
    return ledger


def account(ledger: Ledger, scope: str = "user:u", budget: str = "user") -> Account:
    """The latest account of a budget."""
    return [a for a in ledger.accounts(scope) if a.budget == budget][-1]


def books(ledger: Ledger, scope: str = "user:u", budget: str = "user") -> tuple[float, float]:
    """Dollars spent and held."""
    found = account(ledger, scope, budget)
    return found.spent / 1e9, found.held / 1e9


def refused(ledger: Ledger, call_id: str, dollars: float, **who: str) -> Refused | None:
    """The refusal that a call meets, None where it is admitted."""
    try:
        ledger.reserve(call_id, who or {"user": "u"}, usd(dollars))
    except Refused as refusal:
        return refusal
    return None


def order(
    ident: str, action: str, dollars: float = 0, *, scope: str = "user:u", budget: str = "user", **more: Any
) -> Any:
    """An operator's order."""
    return BudgetOrder.model_validate(
        {"id": ident, "scope": scope, "budget": budget, "action": action, "amount": nano(dollars), "at_ns": 0, **more}
    )
