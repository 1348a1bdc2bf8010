"""The second stage of a replay: what all sessions add up to, in one order, and which calls that would have refused.

The lanes' charges are applied in the order of the batches that they end with, and of one batch in that of the lanes, whatever
process was first. A decision of a scope stands against the calls of all later batches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from heapq import nsmallest
from itertools import chain
from typing import Any, Final, Self

from spanfuse_processor.core.scopes import leaderboard
from spanfuse_processor.core.scopes.stage import ScopeStage
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.hosts.replay.report import ScopeFound, SessionReport
from spanfuse_processor.hosts.replay.sessions import MAX_ACCOUNTS, Row, Take, fullest, stands
from spanfuse_processor.hosts.replay.states import MAX_LIVE_SESSIONS, States
from spanfuse_schemas import Charge, Decision, Detection, Policy

_RULES: Final = {"agent.breaker": "agent_breaker", "fanout": "fanout", "retries": "retries", "coverage": "coverage"}
"""Rules that can block a scope, and their fields in `Rules`."""


class Scopes:
    """The stage under one policy. Use it as a context manager.

    Args:
        live: scopes held in memory.
    """

    def __init__(self, policy: Policy, live: int = MAX_LIVE_SESSIONS) -> None:
        self.found: list[ScopeFound] = []
        """What was said of scopes, in order."""
        self.of_sessions: list[Detection] = []
        """What was said of sessions by what others are."""
        self.rules: Counter[str] = Counter()
        self._policy = policy
        self._stage = ScopeStage(policy)
        self._states = States(ScopeState, live)
        self._stood: defaultdict[str, list[tuple[int, Decision | None]]] = defaultdict(list)
        """Scope → from which batch on what has stood; only of those that were ever blocked."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget all."""
        self._states.close()

    def take(self, ordinal: int, charges: Iterable[Charge]) -> None:
        """Apply the charges of a batch."""
        out = self._stage.process(charges, self._states.get)
        for detection in out.detections:
            self.rules[detection.rule] += 1
            if detection.session:
                self.of_sessions.append(detection)
            else:
                self.found.append(ScopeFound.of(detection))
        for scope, state in out.touched.items():
            standing = state.standing
            if scope in self._stood or (standing is not None and standing.action == "block"):
                self._stood[scope].append((ordinal, standing))
        self._states.trim()

    @property
    def refuses(self) -> bool:
        """Whether a scope was ever blocked."""
        return bool(self._stood)

    def refusing(self, row: Row) -> str:
        """The rule of the narrowest scope that would have refused a call; empty: none would."""
        for scope in row.scopes:
            stood = self._stood.get(scope)
            at = bisect_left(stood, row.ordinal, key=lambda one: one[0]) if stood else 0
            if stood and at and (held := stood[at - 1][1]) is not None and stands(held, row.start_ns):
                return held.rule
        return ""

    def agents(self) -> list[dict[str, Any]]:
        """What each agent came to, dearest first."""
        return leaderboard.agents(self._states.of_kind("agent:"), self._policy.rules.adaptive)

    def models(self) -> list[dict[str, Any]]:
        """What each model came to, dearest first."""
        return leaderboard.models(self._states.of_kind("model:"))

    def accounts(self, of_sessions: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """The accounts as they stood in the end of each, the fullest first.

        Args:
            of_sessions: those of sessions.
        """
        kinds = sorted({budget.scope for budget in self._policy.budgets})
        states = chain.from_iterable(self._states.of_kind(f"{kind}:") for kind in kinds)
        shared = (row for state in states for row in self._stage.accounts(state.key, state, state.last_ns))
        return nsmallest(MAX_ACCOUNTS, chain(shared, of_sessions), key=fullest)


def may_refuse(policy: Policy) -> bool:
    """Whether a scope can be blocked under a policy."""
    modes = [getattr(policy.rules, field).mode for field in _RULES.values()]
    modes += [override.rules.get(name, {}).get("mode", "off") for override in policy.overrides for name in _RULES]
    return "block" in modes or any(b.scope != "session" and b.mode == "block" for b in policy.budgets)


def stopped(rows: Iterable[Row | Take], scopes: Scopes) -> Iterator[SessionReport]:
    """Where sessions would have been stopped, by their own breaker or by a scope; nothing else is in these reports."""
    found: dict[str, SessionReport] = {}
    for row in rows:
        if isinstance(row, Take):
            if row.origin in found:
                found.setdefault(row.into, SessionReport(row.into)).takes(found.pop(row.origin))
            continue
        session = found.get(row.session) or found.setdefault(row.session, SessionReport(row.session))
        session.spent(row.cost_nano_usd, row.refused_by or scopes.refusing(row))
    yield from found.values()
