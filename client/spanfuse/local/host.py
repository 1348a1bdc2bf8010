"""The local host: calls of this process go through the core as they end, and what it decides holds for the next one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from spanfuse.bounded import Bounded
from spanfuse.calls.caps import NONE, Given
from spanfuse.decisions.table import Entry
from spanfuse.local.records import of_model_call, of_tool_call
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.pricing import Prices
from spanfuse_processor.core.rules import MAX_CACHED
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Call, Decision, Policy, Rules
from spanfuse_schemas import Tokens as CallTokens

if TYPE_CHECKING:
    from spanfuse.calls.estimate import Tokens
    from spanfuse.calls.model_call import ModelCall
    from spanfuse.calls.tool_call import ToolCall
    from spanfuse.context import Identity

MAX_SESSIONS: Final = 4_096
"""Sessions whose steps are remembered, some 10 KB each; beyond it the one that was at work longest ago begins anew."""
MAX_HELD: Final = 100_000
"""Sessions that something is held against; as a Guard knows at most."""

_NANO: Final = 10**9


class LocalHost:
    """Runs the core. A listener of its Guard.

    Args:
        policy: the rules.
        released: is told of a session that an operator has reset.
        obeys: it takes the rules of the server in place of these.
    """

    def __init__(self, policy: Policy, released: Callable[[str], None], *, obeys: bool) -> None:
        self._released, self._obeys = released, obeys
        self._pipeline = Pipeline(policy)
        self._caps: dict[int, tuple[Rules, Given]] = {}
        self._prices = Prices()
        # Now, and not in the first call, which an event loop may make: reading the lists of prices takes 0.1 s.
        self._prices.cost("openai", "gpt-4o", CallTokens(), 0)
        self._states: Bounded[str, SessionState] = Bounded(MAX_SESSIONS)
        self._lock = threading.Lock()
        self.held: Bounded[str | None, Entry] = Bounded(MAX_HELD)
        """Session → what stands against it. Read without a lock."""

    def after_fork(self) -> None:
        """The lock may have been held by a thread that does not exist in this process."""
        self._lock = threading.Lock()

    @property
    def policy(self) -> Policy:
        """The rules; assign others to change them from the next call on."""
        return self._pipeline.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        with self._lock:
            self._pipeline.policy = policy

    def caps(self, who: Identity) -> Given:
        """The caps that the rules set: with all calls in flight, which the core sees only as they end."""
        rules = self._pipeline.rules(who.agent or "", who.team or "")
        known = self._caps.get(id(rules))
        if known is None or known[0] is not rules:
            if len(self._caps) >= MAX_CACHED:
                self._caps.clear()
            known = self._caps[id(rules)] = rules, _given(rules, self.policy.mode)
        return known[1]

    def ended(self, call: ModelCall) -> None:
        """A model call is over."""
        if call.who.session is not None:
            self._step(of_model_call(call, drift=self._pipeline.policy.rules.drift.mode == "block"))

    def tool_ended(self, tool: ToolCall) -> None:
        """A tool execution is over."""
        if tool.who.session is not None:
            self._step(of_tool_call(tool))

    def governed(self, policy: Policy) -> None:
        """The operators have changed the rules."""
        if self._obeys:
            self.policy = policy

    def decided(self, decision: Decision) -> None:
        """A decision has arrived: what a reset on the server forgets of a session is forgotten here, too."""
        kind, _, session = decision.key.partition(":")
        if kind == "session" and decision.reset:
            with self._lock:
                self._states.pop(session, None)
                self.held.pop(session, None)
            self._released(session)

    def decisions(self) -> list[Decision]:
        """What stands against sessions."""
        with self._lock:
            return [entry.decision for entry in self.held.values()]

    def price(self, provider: str, model: str, tokens: Tokens) -> int | None:
        """List price of a call, nano-dollars; None for a model that no list has."""
        cost, source = self._prices.cost(provider, model, CallTokens.made(**tokens._asdict()), 0)
        return cost if source == "computed" else None

    def _step(self, call: Call) -> None:
        session = call.session
        with self._lock:
            state = self._states.get(session)
            if state is None:
                state = self._states[session] = SessionState(session)
            self._pipeline.step(state, call)
            self._hold(session, state.decision)

    def _hold(self, session: str, decision: Decision | None) -> None:
        known = self.held.peek(session)
        if decision is None or decision.action == "allow":
            if known is not None:
                del self.held[session]
        elif known is None or known.decision is not decision:
            self.held[session] = Entry(decision, local=True)


def _given(rules: Rules, mode: Literal["observe", "enforce"]) -> Given:
    """The caps in the rules; the shared `NONE` where there are none."""
    limits, purse = rules.limits, rules.budget_session
    own = limits.mode == "block"
    budget = purse.limit_usd if purse.mode == "block" else None
    found = Given(
        None if budget is None else round(budget * _NANO),
        limits.max_steps if own else None,
        limits.max_duration_s if own else None,
    )
    return NONE if found == NONE else found._replace(mode=mode)


def policy_of(local: Policy | Mapping[str, Any] | bool) -> Policy:
    """The policy of a local host.

    Args:
        local: a policy, its rules by name, or True for the default rules. These are enforced: who turns them on in code wants
            them to hold.

    Raises:
        pydantic.ValidationError: the rules cannot be.
    """
    if isinstance(local, Policy):
        return local
    rules = dict(local) if isinstance(local, Mapping) else {}
    return Policy(mode="enforce", rules=Rules.model_validate(rules))
