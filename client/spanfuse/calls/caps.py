"""What each session has used in this process, and the caps that its own code gave it: exact, with all calls in flight."""

from __future__ import annotations

import threading
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

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


class Given(NamedTuple):
    """Caps that hold for a call; None: there is none."""

    budget: int | None = None
    """Nano-dollars."""
    max_steps: int | None = None
    """Model calls."""
    duration_s: float | None = None
    """Seconds since the session was first heard of."""
    mode: Literal["observe", "enforce"] = "enforce"


NONE: Final = Given()


class _Tally:
    __slots__ = ("began", "given", "held", "spent", "steps", "tokens")

    def __init__(self, began: float) -> None:
        self.began = began
        self.steps = self.spent = self.held = self.tokens = 0
        self.given = NONE


class Caps:
    """Counts the calls of each session, and refuses those beyond a cap.

    Args:
        now_ns: wall clock, nanoseconds since the Unix epoch.
        monotonic: clock that never goes back, seconds.
    """

    def __init__(self, now_ns: Callable[[], int], monotonic: Callable[[], float]) -> None:
        self._now_ns, self._monotonic = now_ns, monotonic
        self._tallies: Bounded[str, _Tally] = Bounded(MAX_SESSIONS)
        self._lock = threading.Lock()

    def after_fork(self) -> None:
        """The lock may have been held by a thread that does not exist in this process."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Sessions that are remembered."""
        return len(self._tallies)

    @property
    def evicted(self) -> int:
        """Sessions forgotten for want of room."""
        return self._tallies.evicted

    def set(self, session: str, budget_usd: float | None, max_steps: int | None, deadline_s: float | None) -> None:
        """Cap a session; what is None stays as it was. The deadline is counted from its first mention.

        Raises:
            ValueError: a cap is negative, or no number.
        """
        for cap in (budget_usd, max_steps, deadline_s):
            if cap is not None and not (isinstance(cap, (int, float, Decimal)) and 0 <= cap < float("inf")):
                raise ValueError(f"a cap is a number from 0 on, not {cap!r}")
        with self._lock:
            tally = self._of(session)
            before = tally.given
            tally.given = Given(
                before.budget if budget_usd is None else round(budget_usd * _NANO),
                before.max_steps if max_steps is None else int(max_steps),
                before.duration_s if deadline_s is None else deadline_s,
            )

    def _of(self, session: str) -> _Tally:
        found = self._tallies.get(session)
        if found is None:
            found = self._tallies[session] = _Tally(self._monotonic())
        return found

    def capped(self, session: str) -> bool:
        """Whether a session has a cap on money."""
        found = self._tallies.peek(session)
        return found is not None and found.given.budget is not None

    def admit(self, session: str, estimate: int, ruled: Given = NONE) -> Decision | None:
        """Count a call that is about to be made, unless a cap refuses it: that refusal.

        Args:
            estimate: what it may cost, nano-dollars.
            ruled: what holds beside the caps that the session was given.
        """
        with self._lock:
            tally = self._of(session)
            refusal = self._refusal(session, tally, tally.given)
            if refusal is None and ruled is not NONE:
                refusal = self._refusal(session, tally, ruled)
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
        budget, max_steps, duration_s, _ = found.given
        return Spent(
            found.steps,
            found.spent / _NANO,
            found.tokens,
            None if budget is None else budget / _NANO,
            max_steps,
            None if duration_s is None else found.began + duration_s,
        )

    def forget(self, session: str) -> None:
        """Begin anew with a session; its caps stay."""
        with self._lock:
            found = self._tallies.peek(session)
            if found is not None:
                anew = self._tallies[session] = _Tally(self._monotonic())
                anew.given, anew.held = found.given, found.held

    def _refusal(self, session: str, tally: _Tally, given: Given) -> Decision | None:
        budget, max_steps, duration_s, mode = given
        if max_steps is not None and tally.steps >= max_steps:
            return self._decision(session, mode, "limits.max_steps", tally.steps, max_steps, "calls")
        if budget is not None and tally.spent + tally.held >= budget:
            used = (tally.spent + tally.held) / _NANO
            return self._decision(session, mode, "budget.session", used, budget / _NANO, "USD")
        passed_s = self._monotonic() - tally.began if duration_s is not None else 0
        if duration_s is not None and passed_s >= duration_s:
            return self._decision(session, mode, "limits.max_duration_s", passed_s, duration_s, "s")
        return None

    def _decision(
        self, session: str, mode: Literal["observe", "enforce"], rule: str, value: float, cap: float, unit: str
    ) -> Decision:
        from spanfuse_schemas import Decision, Evidence

        of = f"${value:.4f} of its budget of ${cap:.4f}" if unit == "USD" else f"its limit of {cap:g} {unit}"
        return Decision(
            key=f"session:{session}",
            state="open",
            action="block",
            mode=mode,
            rule=rule,
            message=f"The session has used {of}. Finish with what is known.",
            evidence=Evidence(value=value, threshold=cap, unit=unit),
            issued_at_ns=self._now_ns(),
        )
