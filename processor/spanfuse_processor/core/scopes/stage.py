"""The second stage of the core: charges in, what they led to out.

The first stage judges sessions; what they add up to for an agent, a trace, a team, a model or all together comes here as
charges. For each: is it new to its scope (`ScopeState.applies`), what does it add (`ScopeState.add`), which rules fire, and
what does that change about the breaker of the scope (`breaker.judge`). It knows no clock and no host: time comes with the
charge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from spanfuse_processor.core.circuit import is_told, reset_by
from spanfuse_processor.core.finding import Finding
from spanfuse_processor.core.rules import RuleBook
from spanfuse_processor.core.scopes import adaptive, agent_breaker, breaker, fanout, retries
from spanfuse_processor.core.scopes.state import KINDS, ScopeState
from spanfuse_schemas import Charge, Decision, Detection, Policy, Rules

Rule = Callable[[ScopeState, Charge, Rules], Finding | None]

RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "agent": (agent_breaker.detect, retries.detect),
    "trace": (fanout.detect,),
    "team": (retries.detect,),
    "global": (retries.detect,),
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

    def process(self, charges: Iterable[Charge], load: Callable[[str], ScopeState | None]) -> ScopeOutcome:
        """Apply charges in order; those of scopes without a state are passed over.

        Args:
            load: gives the live state of a scope, a new one included; none if the host has applied the message before.
        """
        out = ScopeOutcome()
        for charge in charges:
            kind, _, name = charge.scope.partition(":")
            if kind not in KINDS:
                continue
            state = load(charge.scope)
            if state is None or not state.applies(charge):
                out.redelivered += 1
                continue
            out.touched[charge.scope] = state
            state.add(charge)
            self._judge(state, charge, self._rules(kind, name), out)
        return out

    def reset(self, state: ScopeState, at_ns: int, actor: str = "") -> Decision:
        """Close a scope's breaker and forget what had led to it; what was spent, and its baseline, stay."""
        decision = breaker.close(state, at_ns, reset_by(actor), self._policy.mode)
        state.forget()
        return decision

    def over(self, state: ScopeState, at_ns: int) -> Decision:
        """The last decision of a scope that is forgotten."""
        return breaker.close(state, at_ns, "Nothing was heard of it for long.", self._policy.mode)

    def kept_ns(self, state: ScopeState) -> int:
        """How long a scope is remembered without a call, nanoseconds."""
        return int(state.kept_s(self._policy.idle_timeout_s) * 1e9)

    def _rules(self, kind: str, name: str) -> Rules:
        """Settings for an agent or a team by its name; the other scopes are many agents' and have the general ones."""
        return self._book.of(name if kind == "agent" else "", name if kind == "team" else "")

    def _judge(self, state: ScopeState, charge: Charge, rules: Rules, out: ScopeOutcome) -> None:
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
            decision = breaker.judge(state, charge, asking, rules.breaker, self._policy.mode)
            if decision is not None:
                out.decisions.append(decision)


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
