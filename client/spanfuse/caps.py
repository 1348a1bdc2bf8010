"""What each session has used in this process, and the caps that its own code gave it: exact, with all calls in flight."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from spanfuse.bounded import Bounded

if TYPE_CHECKING:
    from spanfuse_schemas import Decision

MAX_SESSIONS: Final = 100_000
"""Sessions remembered; beyond it the one that was used longest ago is forgotten, some 500 bytes each."""

_NANO: Final = 10**9


class Spent(NamedTuple):
    """What a session has used in this process."""

    steps: int = 0
    """Model calls admitted."""
    cost_usd: float = 0.0
    """Cost of those that have ended, USD."""
    tokens: int = 0
    """Their input and output tokens."""
    budget_usd: float | None = None
    """The most that it may spend, USD; None: no cap."""
    max_steps: int | None = None
    """The most calls that it may make; None: no cap."""
    deadline: float | None = None
    """When its time is up, by the Guard's clock that never goes back, seconds; None: never."""


class _Tally:
    __slots__ = ("began", "budget", "deadline", "held", "max_steps", "spent", "steps", "tokens")

    def __init__(self, began: float) -> None:
        self.began = began
        self.steps = self.spent = self.held = self.tokens = 0
        self.budget: int | None = None
        self.max_steps: int | None = None
        self.deadline: float | None = None


class Caps:
    """Counts the calls of each session, and refuses those beyond a cap.

    Args:
        now_ns: wall clock, nanoseconds since the Unix epoch.
        monotonic: clock that never goes back, seconds.
    """

    def __init__(self, now_ns: Callable[[], int], monotonic: Callable[[], float]) -> None:
        self._now_ns, self._monotonic = now_ns, monotonic
        self._tallies: Bounded[str, _Tally] = Bounded(MAX_SESSIONS)
        self.set_any = False
        """Whether a cap was ever set: only then a call has to be estimated for them."""
        self._lock = threading.Lock()

    def after_fork(self) -> None:
        """The lock may have been held by a thread that does not exist in this process."""
        self._lock = threading.Lock()

    def set(self, session: str, budget_usd: float | None, max_steps: int | None, deadline_s: float | None) -> None:
        """Cap a session; what is None stays as it was. The deadline is counted from its first mention.

        Raises:
            ValueError: a cap is negative, or no number.
        """
        for cap in (budget_usd, max_steps, deadline_s):
            if cap is not None and not 0 <= cap < float("inf"):
                raise ValueError(f"a cap is a number from 0 on, not {cap!r}")
        with self._lock:
            tally = self._of(session)
            if budget_usd is not None:
                tally.budget = round(budget_usd * _NANO)
            if max_steps is not None:
                tally.max_steps = int(max_steps)
            if deadline_s is not None:
                tally.deadline = tally.began + deadline_s
            self.set_any = True

    def _of(self, session: str) -> _Tally:
        found = self._tallies.get(session)
        if found is None:
            found = self._tallies[session] = _Tally(self._monotonic())
        return found

    def capped(self, session: str) -> bool:
        """Whether a session has a cap on money."""
        found = self._tallies.peek(session)
        return found is not None and found.budget is not None

    def admit(self, session: str, estimate: int) -> Decision | None:
        """Count a call that is about to be made, unless a cap refuses it: that refusal.

        Args:
            estimate: what it may cost, nano-dollars.
        """
        with self._lock:
            tally = self._of(session)
            refusal = self._refusal(session, tally)
            if refusal is None:
                tally.steps += 1
                tally.held += estimate
        return refusal

    def observe(self, session: str, estimate: int) -> None:
        """Count a call in spite of a cap, which is only observed."""
        with self._lock:
            tally = self._of(session)
            tally.steps += 1
            tally.held += estimate

    def settle(self, session: str, estimate: int, spent: int, tokens: int) -> None:
        """A call has ended: its cost in place of its estimate, nano-dollars."""
        with self._lock:
            tally = self._of(session)
            tally.held = max(0, tally.held - estimate)
            tally.spent += spent
            tally.tokens += tokens

    def withdraw(self, session: str, estimate: int) -> None:
        """A call was refused after it had been counted."""
        with self._lock:
            tally = self._of(session)
            tally.steps = max(0, tally.steps - 1)
            tally.held = max(0, tally.held - estimate)

    def spent(self, session: str) -> Spent:
        """What a session has used."""
        found = self._tallies.peek(session)
        if found is None:
            return Spent()
        budget = None if found.budget is None else found.budget / _NANO
        return Spent(found.steps, found.spent / _NANO, found.tokens, budget, found.max_steps, found.deadline)

    def _refusal(self, session: str, tally: _Tally) -> Decision | None:
        if tally.max_steps is not None and tally.steps >= tally.max_steps:
            return self._decision(session, "limits.max_steps", tally.steps, tally.max_steps, "calls")
        if tally.deadline is not None and self._monotonic() >= tally.deadline:
            passed, given = self._monotonic() - tally.began, tally.deadline - tally.began
            return self._decision(session, "limits.max_duration_s", passed, given, "s")
        if tally.budget is not None and tally.spent + tally.held >= tally.budget:
            used, given = (tally.spent + tally.held) / _NANO, tally.budget / _NANO
            return self._decision(session, "budget.session", used, given, "USD")
        return None

    def _decision(self, session: str, rule: str, value: float, cap: float, unit: str) -> Decision:
        from spanfuse_schemas import Decision, Evidence

        of = f"${value:.4f} of its budget of ${cap:.4f}" if unit == "USD" else f"its limit of {cap:g} {unit}"
        return Decision(
            key=f"session:{session}",
            state="open",
            action="block",
            mode="enforce",
            rule=rule,
            message=f"The session has used {of}. Finish with what is known.",
            evidence=Evidence(value=value, threshold=cap, unit=unit),
            issued_at_ns=self._now_ns(),
        )
