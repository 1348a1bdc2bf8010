"""Agents under budgets that are kept from their spans: each asks a Guard, calls, and is seen some time after it has ended."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from spanfuse import Blocked, Guard
from spanfuse.testing import MemorySubscriber
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.scopes.stage import ScopeOutcome, ScopeStage
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Budget, BudgetOrder, Call, CallBatch, Decision, Detection
from tests.support.agents import SECOND, START_NS
from tests.support.purse import USD, under


@dataclass(frozen=True)
class Wish:
    """A call that somebody wants to make."""

    at: float
    usd: float
    lasts: float
    who: tuple[tuple[str, Any], ...]


class Fleet:
    """A deployment on paper, with its Guards.

    Args:
        budgets: what may be spent.
        lag_s: from the end of a call until what it led to has reached the Guards, seconds.
        guards: how many processes ask, in turn.
    """

    def __init__(self, *budgets: Budget, lag_s: float = 0, guards: int = 1) -> None:
        policy = under(*budgets)
        self.pipeline, self.stage = Pipeline(policy), ScopeStage(policy)
        self.sessions, self.scopes = dict[str, SessionState](), dict[str, ScopeState]()
        self.subscribers = [MemorySubscriber() for _ in range(guards)]
        self.guards = [Guard(s, mode="enforce", now_ns=lambda: self.now_ns) for s in self.subscribers]
        self.detections: list[Detection] = []
        self.decisions: list[Decision] = []
        self.lag_s, self.now_ns = lag_s, START_NS
        self.admitted = 0
        self.spent = 0
        self.most_in_flight = self._in_flight = 0
        self._ids, self._turn = itertools.count(1), itertools.cycle(range(guards))

    def wish(self, usd: float, *, at: float = 0, lasts: float = 0, **who: Any) -> Wish:
        """A call that costs so much and ends `lasts` seconds after it was begun, `at` seconds."""
        return Wish(at, usd, lasts, tuple(who.items()))

    def play(self, wishes: Iterable[Wish]) -> list[Blocked | None]:
        """Make the calls that are let through, and see them: what each was told."""
        told: dict[int, Blocked | None] = {}
        events: list[tuple[float, int, int, Wish]] = []
        for i, wish in enumerate(wishes):
            heapq.heappush(events, (wish.at, 1, i, wish))
        while events:
            now, kind, i, wish = heapq.heappop(events)
            self.now_ns = START_NS + round(now * SECOND)
            if kind == 1:
                told[i] = self._ask(dict(wish.who))
                if told[i] is None:
                    heapq.heappush(events, (now + wish.lasts + self.lag_s, 0, i, wish))
            else:
                self._see(wish)
        return [told[i] for i in sorted(told)]

    def call(self, usd: float, *, at: float = 0, **who: Any) -> Blocked | None:
        """One call; none: it was let through."""
        return self.play([self.wish(usd, at=at, **who)])[0]

    def order(self, scope: str, budget: str, action: str, usd: float = 0, *, at: float = 0) -> None:
        """An operator's order."""
        made = {"id": str(next(self._ids)), "at_ns": START_NS + round(at * SECOND), "amount": round(usd * USD)}
        order = BudgetOrder(**{"scope": scope, "budget": budget, "action": action, **made})
        if scope.startswith("session:"):
            out = self.pipeline.process(CallBatch(orders=(order,)), self._session, source="f", offset=next(self._ids))
            self._publish(out.detections, out.decisions)
        else:
            self._tell(self.stage.carry_out([order], self._scope))

    def reset(self, key: str, *, at: float = 0) -> Decision:
        """An operator's reset of the key."""
        decision = self.stage.reset(self._scope(key), START_NS + round(at * SECOND), "ops")
        self._publish([], [decision])
        return decision

    def rows(self, *scopes: str) -> list[dict[str, Any]]:
        """The accounts of these scopes."""
        return [row for s in scopes for row in self.stage.accounts(s, self.scopes.get(s), self.now_ns)]

    def _ask(self, who: dict[str, Any]) -> Blocked | None:
        asked = self.guards[next(self._turn)]
        try:
            asked.check(**{k: v for k, v in who.items() if k in ("session", "trace", "agent", "user", "team")})
        except Blocked as refusal:
            return refusal
        self.admitted += 1
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        return None

    def _see(self, wish: Wish) -> None:
        who = dict(wish.who)
        start = START_NS + round(wish.at * SECOND)
        cost = round(wish.usd * USD)
        self.spent += cost
        self._in_flight -= 1
        number = next(self._ids)
        call = Call(
            trace_id=who.pop("trace", f"{number:032x}"), span_id=f"{number:016x}", response=f"{number:016x}",
            parent_span_id=who.pop("parent", ""), session=who.pop("session", f"s{number}"), session_source="explicit",
            start_ns=start, end_ns=start + round(wish.lasts * SECOND), operation="chat", cost_nano_usd=cost,
            content="structure", **who,
        )  # fmt: skip
        out = self.pipeline.process(CallBatch(calls=(call,)), self._session, source="f", offset=number)
        self._publish(out.detections, out.decisions)
        self._tell(self.stage.process(out.charges, self._scope))

    def _session(self, key: str) -> SessionState:
        return self.sessions.setdefault(key, SessionState(key))

    def _scope(self, key: str) -> ScopeState:
        return self.scopes.setdefault(key, ScopeState(key))

    def _tell(self, out: ScopeOutcome) -> None:
        self._publish(out.detections, out.decisions)

    def _publish(self, detections: list[Detection], decisions: list[Decision]) -> None:
        self.detections += detections
        self.decisions += decisions
        for decision in decisions:
            for subscriber in self.subscribers:
                subscriber.publish(decision)
