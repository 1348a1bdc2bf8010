"""A scope that spends its budgets, on paper."""

from __future__ import annotations

from typing import Any

from spanfuse_processor.core.budgets import Ordered
from spanfuse_processor.core.scopes.stage import ScopeOutcome
from spanfuse_schemas import Budget, BudgetOrder, Charge, Decision, Policy
from tests.support.agents import SECOND, START_NS, policy
from tests.support.charges import Scope, charge

USD = 10**9
HOUR = 3600
DAY = 24 * HOUR
MIDNIGHT = DAY - (START_NS // SECOND) % DAY
"""The next midnight by UTC, seconds from the start."""


def budget(name: str, **fields: Any) -> Budget:
    """A budget; its scope is what its name begins with."""
    return Budget(**{"name": name, "scope": name.partition("/")[0], **fields})


def under(*budgets: Budget, **rules: dict[str, Any]) -> Policy:
    """A policy in enforce mode with these budgets."""
    return policy(**rules).model_copy(update={"budgets": budgets})


class Purse(Scope):
    """One scope with budgets."""

    def __init__(self, key: str, *budgets: Budget, **rules: dict[str, Any]) -> None:
        super().__init__(key, under(*budgets, **rules))
        self.ordered = 0

    def spend(self, usd: float, *, at: float = 0, **fields: Any) -> ScopeOutcome:
        """One call that ended `at` seconds."""
        return self.take(self.bill(usd, at=at, **fields))

    def bill(self, usd: float, *, at: float = 0, **fields: Any) -> Charge:
        """Its charge."""
        return charge(self.state.key, at=at, cost_nano_usd=round(usd * USD), **fields)

    def tick(self, at: float) -> ScopeOutcome:
        """It is `at` seconds."""
        return self.stage.tick([self.state], START_NS + round(at * SECOND))

    def order(self, name: str, action: str, amount: int = 0, *, at: float = 0, **fields: Any) -> ScopeOutcome:
        """An operator's order."""
        self.ordered += 1
        made = {"id": f"o{self.ordered}", "at_ns": START_NS + round(at * SECOND), "actor": "ops"}
        found = BudgetOrder(
            **{"scope": self.state.key, "budget": name, "action": action, "amount": amount, **made, **fields}
        )
        return self.stage.carry_out([found], lambda _: self.state)

    def did(self, outcome: ScopeOutcome) -> Ordered:
        """What became of one."""
        (ordered,) = outcome.orders
        return ordered

    @property
    def standing(self) -> Decision | None:
        """What stands against it."""
        return self.state.standing

    def spent(self, name: str, *, at: float = 0) -> int:
        """What was spent of a budget in the period that runs `at` seconds."""
        rows = self.stage.accounts(self.state.key, self.state, START_NS + round(at * SECOND))
        return next(int(row["spent"]) for row in rows if row["budget"] == name)
