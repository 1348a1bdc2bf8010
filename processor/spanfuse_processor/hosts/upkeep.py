"""What time does to the state, and another configuration: blocks that end, sessions and scopes that are over."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from spanfuse_processor.core import breaker
from spanfuse_processor.core.pipeline import Outcome
from spanfuse_processor.core.scopes.stage import ScopeOutcome
from spanfuse_processor.core.scopes.state import KINDS, ScopeState
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import StateError
from spanfuse_processor.hosts.workspace import Workspace, told
from spanfuse_schemas import Decision, Policy

AT_ONCE: Final = 500
"""Sessions or scopes looked at in one transaction, some 5 ms."""
MAX_RESUMED: Final = 2_000
"""Scopes of each kind looked at when the host starts, those last at work."""


class Upkeep:
    """Looks after the state, at the start and from time to time.

    Args:
        work: the state.
    """

    def __init__(self, work: Workspace) -> None:
        self._work = work

    def follow(self, policy: Policy) -> None:
        """Work by another policy from now on.

        Raises:
            UnavailableError: the storage failed; the policy holds, but not all that stands was looked at.
        """
        self._work.pipeline.policy = self._work.stage.policy = policy
        self.follow_mode()
        self.follow_budgets()

    def follow_mode(self) -> None:
        """Decisions of a run in the other mode are made anew: who goes back to `observe` wants nothing enforced."""
        work, mode = self._work, self._work.pipeline.policy.mode
        for decision in [d for d in work.board.decisions() if d.mode != mode]:
            kind, _, name = decision.key.partition(":")
            state = work.sessions.load(name) if kind == "session" else work.scopes.load(decision.key)
            state.epoch = max(state.epoch, decision.epoch) + 1
            again = decision.model_copy(update={"mode": mode, "epoch": state.epoch})
            if isinstance(state, SessionState):
                state.decision = again
                first, second = Outcome(decisions=[again], touched={state.key: state}), ScopeOutcome()
            else:
                state.stand_again(again)
                first, second = Outcome(), ScopeOutcome(decisions=[again], touched={state.key: state})
            work.commit(first, second, {"decisions": 1}, time.time_ns())

    def follow_budgets(self) -> None:
        """Blocks of budgets under another policy: a limit that was raised, or is gone, holds nobody back."""
        held = [d.key for d in self._work.board.decisions() if d.rule.startswith("budget.")]
        for at in range(0, len(held), AT_ONCE):
            self._look(held[at : at + AT_ONCE], time.time_ns())

    def resume(self) -> None:
        """What time was to change when the host ended, it changes now."""
        for kind in KINDS:
            for data in self._work.store.scopes(kind, MAX_RESUMED):
                due = ScopeState.stored_due(data)
                if due is not None and due.at_ns:
                    with suppress(StateError):  # of another version: it starts afresh when it comes up
                        self._work.due[ScopeState.restore(data).key] = due.at_ns

    def tick(self, now_ns: int) -> None:
        """Release what budgets hold back no longer, and hold what an extension held up."""
        due = [key for key, at_ns in self._work.due.items() if at_ns <= now_ns][:AT_ONCE]
        if due:
            self._look(due, now_ns)

    def _look(self, keys: Sequence[str], now_ns: int) -> None:
        sessions = [key.removeprefix("session:") for key in keys if key.startswith("session:")]
        with self._work.together():
            first = self._look_at_sessions(sessions, now_ns)
            scopes = [self._work.scopes.load(key) for key in keys if not key.startswith("session:")]
            second = self._work.stage.tick(scopes, now_ns)
            self._work.commit(first, second, told(first, second), now_ns)

    def _look_at_sessions(self, sessions: Sequence[str], now_ns: int) -> Outcome:
        found = Outcome()
        for name in sessions:
            state = self._work.sessions.load(name)
            released = self._work.pipeline.look(state, now_ns)
            if released is not None:
                found.decisions.append(released)
                found.touched[name] = state
            self._work.due.pop(f"session:{name}", None)
        return found

    def expire(self, now_ns: int) -> int:
        """Forget some sessions and scopes of which nothing was heard for too long.

        Returns:
            How many of the more; with `AT_ONCE` there may be others.
        """
        return max(self._expire_sessions(now_ns), self._expire_scopes(now_ns))

    def _expire_scopes(self, now_ns: int) -> int:
        work = self._work
        over = work.store.over(now_ns, AT_ONCE)
        if not over:
            return 0
        closed = [work.stage.over(work.scopes.load(scope), now_ns) for scope in over if scope in work.board]
        for scope in over:
            work.due.pop(scope, None)
        counts = {"expired_scopes": len(over), "decisions": len(closed)}
        work.scopes.rolled_back()
        work.scopes.forget(over)
        work.store.forget_scopes(over, closed, counts)
        self._forgotten(closed, counts)
        return len(over)

    def _expire_sessions(self, now_ns: int) -> int:
        work = self._work
        before_ns = now_ns - int(work.pipeline.policy.idle_timeout_s * 1e9)
        idle = work.store.idle(before_ns, AT_ONCE)
        if not idle:
            return 0
        closed = [self._ended(session, now_ns) for session in idle if f"session:{session}" in work.board]
        counts = {"expired_sessions": len(idle), "decisions": len(closed)}
        work.sessions.forget(idle)
        work.store.forget(idle, closed, counts)
        self._forgotten(closed, counts)
        return len(idle)

    def _forgotten(self, closed: Sequence[Decision], counts: dict[str, int]) -> None:
        self._work.counters.add(counts)
        self._work.board.tell(closed, ())
        self._work.recorder.found(closed, ())

    def _ended(self, session: str, now_ns: int) -> Decision:
        sessions = self._work.sessions
        state = sessions.known(session) or sessions.fresh(session)
        return breaker.close(state, now_ns, "The session is over.", self._work.pipeline.policy.mode)
