"""The way of a model call into the process's books and out of them: decisions, caps, the ledger, and who listens."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from spanfuse import context
from spanfuse.blocked import Blocked
from spanfuse.bounded import Bounded
from spanfuse.calls.model_call import AT_HAND, ModelCall
from spanfuse.calls.reservation import Reservation
from spanfuse.context import call
from spanfuse.decisions.verdict import Verdict

if TYPE_CHECKING:
    from spanfuse.guard import Guard
    from spanfuse_schemas import Decision

MAX_NUDGED: Final = 10_000
"""Keys, by session, whose last nudge is remembered, so that it is given once."""


class Admission:
    """What a Guard does around its calls.

    Args:
        guard: the Guard.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._nudged: Bounded[tuple[str, str | None], int] = Bounded(MAX_NUDGED)
        self._lock = threading.Lock()

    def after_fork(self) -> None:
        """The lock may have been held by a thread that does not exist in this process."""
        self._lock = threading.Lock()

    def enter(self, made: ModelCall) -> bool:
        """Find out whose call it is; False where there is nothing to do: the Guard is off, or the call is part of another, or
        under way. One that is over begins anew."""
        outer = AT_HAND.get()
        # One that is over may still stand in a context that nobody came back to, as of a generator that was left.
        if self._guard.disabled:
            return False
        if outer is not None and outer.guard is self._guard and not outer.ended_ns and not outer.made_inside:
            made.outer = outer
            return False
        if made.ended_ns:
            made.renew()
        elif made.counted:
            return False
        made.who = context.whose(made.names)
        made.scope = call(made.who)
        return True

    @contextmanager
    def admitting(self, made: ModelCall) -> Iterator[None]:
        """Around all that may refuse a call. What else goes wrong there is counted, and lets it pass."""
        try:
            yield
        except Blocked as refusal:
            self._withdraw(made)
            self._guard.tell("refused", refusal.decision, made.who)
            raise
        except Exception:
            self._guard.failed()
        except BaseException:
            self._withdraw(made)
            raise

    def count(self, made: ModelCall) -> Reservation | None:
        """Count the call with its session; what it has to reserve, if there is a ledger.

        Raises:
            Blocked: a cap of the session refuses it.
        """
        guard, session = self._guard, made.who.session
        if session is not None:
            ruled = guard.ruled(made.who)
            if ruled.budget is not None or guard.caps.capped(session):
                made.held = self._estimated(made)
            refusal = guard.caps.admit(session, made.held, ruled)
            if refusal is not None:
                made.verdict = guard.refuse(refusal, enforced=(guard.mode or refusal.mode) == "enforce")
                guard.caps.observe(session, made.held)
        made.counted = True
        if guard.purse is not None:
            made.reservation = Reservation(guard, guard.purse, made.call_id, made.who)
        return made.reservation

    def _estimated(self, made: ModelCall) -> int:
        """What the call may cost, nano-dollars. Where that cannot be told it is counted all the same, for nothing."""
        try:
            return made.guess().usd
        except Exception:
            self._guard.failed()
            return 0

    def observed(self, made: ModelCall, refusal: Decision | None) -> None:
        """A budget would have refused the call, were it enforced."""
        if refusal is not None:
            self._guard.count("would_block", rule=refusal.rule, key=refusal.key)
            made.verdict = Verdict(would_block=True, nudge=made.verdict.nudge, decision=refusal)

    def begun(self, made: ModelCall) -> None:
        """The call is admitted."""
        made.counted = True
        made.began_ns = self._guard.now_ns()
        try:
            made.messages = made.asked.listed()
        except Exception:  # a sequence of who knows which library
            self._guard.failed()
        if made.verdict.nudge and made.asked.operation != "embeddings":  # there nobody would read it
            made.nudge = self._nudge(made.verdict, made.who.session)
        self._guard.tell("began", made)

    def ended(self, made: ModelCall) -> None:
        """The call is over, and its cost is known."""
        guard, session = self._guard, made.who.session
        try:
            due = made.due
            if due is not None:
                made.cost_nano_usd = due.usd
            if session is not None:
                guard.caps.settle(session, made.held, due.usd if due else 0, due.tokens if due else 0)
        except Exception:
            guard.failed()
        guard.tell("ended", made)

    def _withdraw(self, made: ModelCall) -> None:
        self._guard.give_back(made.scope)
        if made.counted and made.who.session is not None:
            self._guard.caps.withdraw(made.who.session, made.held)
        made.counted = False

    def _nudge(self, verdict: Verdict, session: str | None) -> str:
        """The text, once in each session that the decision applies to."""
        decision = verdict.decision
        if decision is None:
            return ""
        with self._lock:
            if self._nudged.get((decision.key, session)) == decision.epoch:
                return ""
            self._nudged[decision.key, session] = decision.epoch
        return verdict.nudge
