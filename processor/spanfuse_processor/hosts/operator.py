"""What operators order: a breaker to be closed, a budget to be changed."""

from __future__ import annotations

from spanfuse_processor.core.budgets import Ordered
from spanfuse_processor.core.pipeline import Outcome
from spanfuse_processor.core.scopes.stage import ScopeOutcome
from spanfuse_processor.hosts.workspace import Workspace, told
from spanfuse_schemas import BudgetOrder, CallBatch, Decision


class Operator:
    """Carries orders out.

    Args:
        work: the state that they change.
    """

    def __init__(self, work: Workspace) -> None:
        self._work = work

    def reset(self, key: str, actor: str, at_ns: int) -> Decision | None:
        """Close a breaker, and forget what had led to its opening.

        Args:
            key: of the breaker, such as `session:checkout-42` or `agent:research`.

        Returns:
            The decision; none if nothing is known of the key.

        Raises:
            UnavailableError: the storage failed; nothing is changed.
        """
        kind, _, name = key.partition(":")
        work, of_session = self._work, kind == "session"
        known = work.sessions.known(name) if of_session else work.scopes.known(key)
        if known is None and key not in work.board:
            return None
        with work.together():
            first, second = Outcome(), ScopeOutcome()
            if of_session:
                session = work.sessions.load(name)
                decision = work.pipeline.reset(session, at_ns, actor)
                first = Outcome(decisions=[decision], touched={name: session})
            else:
                scope = work.scopes.load(key)
                decision = work.stage.reset(scope, at_ns, actor)
                second = ScopeOutcome(decisions=[decision], touched={key: scope})
            work.commit(first, second, {"decisions": 1}, at_ns)
        return decision

    def order(self, order: BudgetOrder) -> Ordered:
        """Do what an operator has ordered about a budget.

        Returns:
            What became of it, and the account afterwards.

        Raises:
            UnavailableError: the storage failed; nothing is changed.
        """
        work, first, second = self._work, Outcome(), ScopeOutcome()
        with work.together():
            if order.scope.startswith("session:"):
                first = work.process(CallBatch.model_construct(orders=(order,)))
            else:
                second = work.stage.carry_out([order], work.scopes.load)
            (ordered,) = (*first.orders, *second.orders)
            if ordered.done:
                work.commit(first, second, told(first, second), order.at_ns)
            else:
                work.rolled_back()
        work.counters.add({"budget_orders" if ordered.done else "refused_orders": 1})
        return ordered
