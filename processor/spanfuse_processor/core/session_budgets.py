"""Budgets of sessions: what a call spends of them, what they hold back, and what operators order.

The rule `budget.session` compares the session's own sums and can differ by agent and team; the budgets here are those of
`Policy.budgets`, with a unit, a period and shares that are told. Operators order about both, by name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spanfuse_processor.core import breaker, budgets
from spanfuse_processor.core.accounts import Account, accounts_of
from spanfuse_processor.core.budgets import Ordered
from spanfuse_processor.core.circuit import Mode
from spanfuse_processor.core.detectors import budget_session
from spanfuse_processor.core.finding import Finding
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Budget, BudgetBook, BudgetOrder, Call, Decision, Policy, Rules
from spanfuse_schemas.budget import NANO, Share
from spanfuse_schemas.periods import FOREVER_NS, TOTAL


class SessionBudgets:
    """The budgets of sessions under one policy."""

    def __init__(self, policy: Policy) -> None:
        self._mode: Mode = policy.mode
        self._book = BudgetBook(tuple(budget for budget in policy.budgets if budget.scope == "session"))

    def spend(self, session: SessionState, call: Call, calls: int = 1) -> list[Finding]:
        """Add a model call that was counted: what is told of it.

        Args:
            calls: 0: it was, and this is what it cost more than was known.
        """
        shares = self._book.of("session", session.key)
        if not shares:
            return []
        accounts = accounts_of(session, call.end_ns)
        amounts = call.cost_nano_usd, call.tokens.input + call.tokens.output, calls
        found: list[Finding] = []
        for share in shares:
            period = accounts.add(share.budget, call.end_ns, budgets.amount_of(share.budget, amounts))
            if period is not None:
                found += budgets.reached(accounts, share, period)
        return found

    def asked(self, session: SessionState, now_ns: int) -> Finding | None:
        """What the budgets hold back, that which does so longest; none: nothing."""
        accounts, shares = session.budgets, self._book.of("session", session.key)
        if accounts is None or not shares:
            return None
        accounts.clock_ns = max(accounts.clock_ns, now_ns)
        asking = budgets.asking(accounts, shares)
        if not asking:
            return None
        share = max(asking, key=lambda s: (s.budget.mode == "block", s.budget.period_at(accounts.clock_ns).end_ns))
        end_ns = share.budget.period_at(accounts.clock_ns).end_ns
        found = budgets.spent_up(accounts, share)
        return replace(found, until="reset") if end_ns == FOREVER_NS else replace(found, until="period", ends_ns=end_ns)

    def carry_out(self, session: SessionState, order: BudgetOrder, rules: Rules) -> tuple[Ordered, list[Decision]]:
        """Do what an operator has ordered, once, and what follows from it at once.

        Args:
            rules: settings for the session's agent.
        """
        shares = (*self._book.of("session", session.key), *self._rule(session, rules))
        share = budgets.named(shares, order.budget)
        if share is None or not (session.calls or session.tools):
            why = f"no budget {order.budget} holds for {order.scope}" if share is None else "nothing is known of it"
            return Ordered(order, False, why), []
        accounts = accounts_of(session, order.at_ns)
        done = accounts.carry_out(order, share.budget)
        told: list[Decision] = []
        if done:
            budgets.untell(accounts, share.budget, share.budget.period_at(accounts.clock_ns))
            if order.action == "reset" and share.budget.name == budget_session.NAME:
                session.forget()
            told = self._follow(session, order, rules)
        row = next(r for r in self._rows(session, shares, order.at_ns) if r["budget"] == order.budget)
        return Ordered(order, done, "" if done else "done before", row), told

    def look(self, session: SessionState, rules: Rules, now_ns: int) -> Decision | None:
        """Release a session that a budget holds back no longer: its period is over, or its limit was raised or is gone. Of
        `budget.session`, only a limit that was raised is known to be one for this session."""
        held = session.decision
        if held is None or not held.rule.startswith("budget."):
            return None
        if held.rule == "budget.session":
            raised = (rules.budget_session.limit_usd or 0) > held.evidence.threshold
            released = raised and self._rule_asks(session, rules) is None
        else:
            asked = self.asked(session, now_ns)
            released = asked is None or asked.rule != held.rule
        return breaker.close(session, now_ns, "It is not spent up any more.", self._mode) if released else None

    def accounts(self, session: SessionState, rules: Rules, now_ns: int) -> list[dict[str, Any]]:
        """The accounts of a session in the running periods; see `core.budgets.row`."""
        shares = (*self._book.of("session", session.key), *self._rule(session, rules))
        return self._rows(session, shares, now_ns)

    def _follow(self, session: SessionState, order: BudgetOrder, rules: Rules) -> list[Decision]:
        """What an order changes about the breaker: what held by a budget alone is released, what is exceeded is held."""
        held, mode = session.decision, self._mode
        asked = [f for f in (self.asked(session, order.at_ns), self._rule_asks(session, rules)) if f is not None]
        told = []
        if held is not None and held.rule.startswith("budget.") and held.rule not in {f.rule for f in asked}:
            told.append(breaker.close(session, order.at_ns, budgets.ordered_by(order), mode))
        blocking = [f for f in asked if f.action == "block"]
        if blocking and session.decision is None:
            strongest = max(blocking, key=lambda f: (f.until == "reset", f.ends_ns))
            told.append(breaker.hold(session, order.at_ns, strongest, rules.breaker, mode))
        return told

    def _rule_asks(self, session: SessionState, rules: Rules) -> Finding | None:
        for share in self._rule(session, rules):
            limit = self._limit(session, share)
            if session.cost_nano_usd >= limit and share.budget.mode == "block":
                return budget_session.spent_up(session, limit, share.budget.mode)
        return None

    def _rule(self, session: SessionState, rules: Rules) -> list[Share]:
        """The rule `budget.session` as a budget; where it is set for a team only, its limit is known once it has blocked."""
        held, rule = session.decision, rules.budget_session
        limit = rule.limit_usd
        if limit is None and held is not None and held.rule == "budget.session":
            limit = held.evidence.threshold
        if not limit or rule.mode == "off":
            return []
        budget = Budget(name=budget_session.NAME, scope="session", limit_usd=limit, thresholds=(), mode=rule.mode)
        return [Share(budget, f"session:{session.key}")]

    def _limit(self, session: SessionState, share: Share) -> int:
        return session.budgets.limit(share.budget) if session.budgets is not None else share.budget.limit

    def _rows(self, session: SessionState, shares: tuple[Share, ...], now_ns: int) -> list[dict[str, Any]]:
        found = []
        for share in shares:
            if share.budget.name != budget_session.NAME:
                found.append(budgets.row(session.budgets, share, now_ns))
                continue
            own = Account(0, session.cost_nano_usd, 0, session.first_ns // NANO)
            found.append(budgets.row_of(share, TOTAL, own, self._limit(session, share), now_ns))
        return found
