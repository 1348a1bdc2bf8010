"""The second stage of the core: charges in, what they led to out.

The first stage judges sessions; what they add up to for an agent, a trace, a user, a team, a model or all together comes here
as charges. For each: is it new to its scope (`ScopeState.applies`), what does it add (`ScopeState.add`), which rules fire, and
what does that change about the breaker of the scope (`breaker.judge`). Where there are budgets: what it spends of them
(`budgets.spend`), and which of breaker and budget stands (`budgets.settle`). It knows no clock and no host: time comes with the
charge, or with a tick.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from spanfuse_processor.core.budgets import Ordered, named, ordered_by, row
from spanfuse_processor.core.circuit import is_told, reset_by
from spanfuse_processor.core.finding import Finding
from spanfuse_processor.core.rules import RuleBook
from spanfuse_processor.core.scopes import adaptive, agent_breaker, breaker, budgets, coverage, fanout, retries
from spanfuse_processor.core.scopes.state import KINDS, ScopeState
from spanfuse_schemas import BudgetBook, BudgetOrder, Charge, Decision, Detection, Policy, Rules
from spanfuse_schemas.budget import Share

Rule = Callable[[ScopeState, Charge, Rules], Finding | None]

RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "agent": (agent_breaker.detect, retries.detect, coverage.detect),
    "trace": (fanout.detect,),
    "team": (retries.detect, coverage.detect),
    "global": (retries.detect, coverage.detect),
}
"""Kind of scope → its rules, in order; the first that asks for something decides. `adaptive` judges sessions of agents, and so
has another shape."""


@dataclass(slots=True)
class ScopeOutcome:
    """What charges led to."""

    detections: list[Detection] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    redelivered: int = 0
    """Charges that had been applied to their scope before."""
    touched: dict[str, ScopeState] = field(default_factory=dict)
    """The scopes whose state changed."""
    orders: list[Ordered] = field(default_factory=list)
    """What became of orders about budgets."""
    reports: Counter[str] = field(default_factory=Counter)
    """What is counted of reports of Guards, by the names of `telemetry`."""


class ScopeStage:
    """The stage under one policy."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    @property
    def policy(self) -> Policy:
        """The policy; assign another to reload the rules."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._policy = policy
        self._book = RuleBook(policy)
        self._budgets = BudgetBook(policy.budgets)

    def process(self, charges: Iterable[Charge], load: Callable[[str], ScopeState | None]) -> ScopeOutcome:
        """Apply charges in order; those of scopes without a state are passed over.

        Args:
            load: gives the live state of a scope, a new one included; none if the host has applied the message before.
        """
        out = ScopeOutcome()
        for charge in charges:
            kind, _, name = charge.scope.partition(":")
            shares = self._budgets.of(kind, name)
            if kind not in KINDS or (kind == "user" and not shares):
                continue
            state = load(charge.scope)
            if state is None or not state.applies(charge):
                out.redelivered += 1
                continue
            out.touched[charge.scope] = state
            state.add(charge)
            if shares or state.blocked is not None:
                self._account(state, charge, shares, self.rules(kind, name), out)
            else:
                decision = self._judge(state, charge, self.rules(kind, name), out)
                if decision is not None:
                    out.decisions.append(decision)
            if charge.told and kind == "global":
                out.reports.update(+state.coverage.counts)
        return out

    def carry_out(self, orders: Iterable[BudgetOrder], load: Callable[[str], ScopeState | None]) -> ScopeOutcome:
        """Do what operators have ordered about budgets, each order once; one about a budget that does not hold for its scope
        makes no state.

        Args:
            load: as for `process`.
        """
        out = ScopeOutcome()
        for order in orders:
            shares = self._shares(order.scope)
            share = named(shares, order.budget)
            state = load(order.scope) if share is not None else None
            if share is None or state is None:
                why = f"no budget {order.budget} holds for {order.scope}" if share is None else "done before"
                out.orders.append(Ordered(order, False, why))
                continue
            before, done = state.standing, budgets.carry_out(state, order, share.budget)
            if done:
                self._look(state, before, shares, order.at_ns, ordered_by(order), out)
            why = "" if done else "done before"
            out.orders.append(Ordered(order, done, why, row(state.budgets, share, order.at_ns)))
        return out

    def tick(self, states: Iterable[ScopeState], now_ns: int) -> ScopeOutcome:
        """Time has passed, or the policy was changed: release what is over, hold what is exceeded, and tell whose spans
        have not come.

        Args:
            states: those that are due (`ScopeState.due_ns`).
        """
        out = ScopeOutcome()
        for state in states:
            out.touched[state.key] = state
            shares = self._shares(state.key)
            if shares or state.budgets is not None or state.blocked is not None:
                self._look(state, state.standing, shares, now_ns, "Its period is over.", out)
            if state.coverage.due_ns:
                self._cover(state, now_ns, out)
        return out

    def _cover(self, state: ScopeState, now_ns: int, out: ScopeOutcome) -> None:
        rules = self.rules(state.kind, state.name)
        found = coverage.look(state, now_ns, rules)
        if found is not None and is_told(state, found, now_ns, rules.breaker.cooldown_s):
            out.detections.append(_spent(state, now_ns, found, f"@{now_ns}"))

    def accounts(self, scope: str, state: ScopeState | None, now_ns: int) -> list[dict[str, Any]]:
        """The accounts of a scope in the running periods, also of one that was never seen; see `core.budgets.row`.

        Args:
            scope: such as `user:u-7`.
            state: its state, if there is one.
        """
        return [row(state.budgets if state is not None else None, share, now_ns) for share in self._shares(scope)]

    def _shares(self, scope: str) -> tuple[Share, ...]:
        kind, _, name = scope.partition(":")
        return self._budgets.of(kind, name) if kind in KINDS else ()

    def reset(self, state: ScopeState, at_ns: int, actor: str = "", *, now_ns: int | None = None) -> Decision:
        """Close a scope's breaker and forget what had led to it; its baseline stays, and what was spent, except of budgets
        that held the scope back: these begin anew, so that the next call does not undo the reset.

        Args:
            at_ns: when it was ordered, by the operator's clock; who ordered it knows the decision by it.
            now_ns: by the host's clock, beyond which no account is moved. Default: the operator's is trusted.
        """
        names = budgets.begin_anew(state, self._shares(state.key), at_ns if now_ns is None else min(at_ns, now_ns))
        anew = f" Begun anew: {', '.join(names)}." if names else ""
        decision = self._closed(state, at_ns, reset_by(actor) + anew, reset=True)
        state.forget()
        return decision

    def over(self, state: ScopeState, at_ns: int) -> Decision:
        """The last decision of a scope that is forgotten."""
        return self._closed(state, at_ns, "Nothing was heard of it for long.")

    def _closed(self, state: ScopeState, at_ns: int, message: str, *, reset: bool = False) -> Decision:
        """Nothing stands against it any more, neither of the breaker's nor of a budget."""
        rule = state.standing.rule if state.standing is not None else ""
        state.blocked = None
        closed = breaker.close(state, at_ns, message, self._policy.mode)
        return closed.model_copy(update={"rule": rule, "reset": reset})

    def kept_ns(self, state: ScopeState) -> int:
        """How long a scope is remembered without a call, nanoseconds."""
        return int(state.kept_s(self._policy.idle_timeout_s) * 1e9)

    def rules(self, kind: str, name: str) -> Rules:
        """Settings for an agent or a team by its name; the other scopes are many agents' and have the general ones."""
        return self._book.of(name if kind == "agent" else "", name if kind == "team" else "")

    def _account(
        self, state: ScopeState, charge: Charge, shares: tuple[Share, ...], rules: Rules, out: ScopeOutcome
    ) -> None:
        """Judge, spend, and settle which of breaker and budget stands."""
        before = state.standing
        told = self._judge(state, charge, rules, out)
        for found in budgets.spend(state, shares, charge):
            out.detections.append(_spent(state, charge.at_ns, found, f"{charge.source}@{charge.offset}"))
        mode = self._policy.mode
        decision = budgets.settle(state, before, shares, charge.at_ns, mode, told, "Its period is over.")
        if decision is not None:
            out.decisions.append(decision)

    def _look(
        self,
        state: ScopeState,
        before: Decision | None,
        shares: tuple[Share, ...],
        now_ns: int,
        why: str,
        out: ScopeOutcome,
    ) -> None:
        """The same where nothing was spent."""
        for found in budgets.look(state, shares, now_ns):
            out.detections.append(_spent(state, now_ns, found, f"@{now_ns}"))
        decision = budgets.settle(state, before, shares, now_ns, self._policy.mode, None, why)
        if decision is not None:
            out.decisions.append(decision)
        out.touched[state.key] = state

    def _judge(self, state: ScopeState, charge: Charge, rules: Rules, out: ScopeOutcome) -> Decision | None:
        asking: Finding | None = None
        for detect in RULES.get(state.kind, ()):
            found = detect(state, charge, rules)
            if found is None:
                continue
            asking = asking or found
            if is_told(state, found, state.last_ns, rules.breaker.cooldown_s):
                out.detections.append(_detection(state, charge, found))
        for grown in charge.grown:
            found = adaptive.detect(state, grown, rules)
            if found is not None:
                out.detections.append(_detection(state, charge, found, session=grown.session, call=grown.calls - 1))
        if asking is not None or state.decision is not None:
            return breaker.judge(state, charge, asking, rules.breaker, self._policy.mode)
        return None


def _detection(
    state: ScopeState, charge: Charge, found: Finding, *, session: str = "", call: int | None = None
) -> Detection:
    identity = f"{charge.source}@{charge.offset}-{found.rule}-{found.action}"
    return Detection(
        id=f"{state.key}-{identity}{f'-{session}' if session else ''}",
        rule=found.rule,
        action=found.action,
        mode=found.mode,
        session=session,
        scope=state.key,
        agent=state.name if state.kind == "agent" else "",
        team=state.name if state.kind == "team" else "",
        call=state.calls - charge.calls if call is None else call,
        at_ns=charge.at_ns,
        message=found.message,
        evidence=found.evidence,
    )


def _spent(state: ScopeState, at_ns: int, found: Finding, led_to_it: str) -> Detection:
    """What is told of a budget, or because time has passed."""
    kind, name = state.kind, state.name
    return Detection(
        id=f"{state.key}-{led_to_it}-{found.rule}-{found.evidence.threshold:g}",
        rule=found.rule,
        action=found.action,
        mode=found.mode,
        session="",
        scope=state.key,
        agent=name if kind == "agent" else "",
        user=name if kind == "user" else "",
        team=name if kind == "team" else "",
        call=state.calls,
        at_ns=at_ns,
        message=found.message,
        evidence=found.evidence,
    )
