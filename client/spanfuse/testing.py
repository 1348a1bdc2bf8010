"""Doubles for the tests of code that uses a Guard.

>>> guard = FakeGuard(block("session:run-1"))
>>> with pytest.raises(Blocked), guard.session("run-1"):
...     my_agent(guard)
>>> assert guard.checks[0].session == "run-1"
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from spanfuse.blocked import Blocked
from spanfuse.context import IDENTITY
from spanfuse.decisions.judge import Mode
from spanfuse.decisions.verdict import Verdict
from spanfuse.guard import Guard
from spanfuse.subscribers.memory import MemorySubscriber
from spanfuse_schemas import Decision, Evidence, LoopPrint

__all__ = ["Checked", "FakeClock", "FakeGuard", "MemorySubscriber", "block", "closed", "is_blocked", "nudge"]

_epochs = itertools.count(1)


def block(
    key: str,
    *,
    rule: str = "repeat.no_progress",
    message: str = "the same step three times without progress",
    for_s: float | None = None,
    expires_at_ns: int | None = None,
    epoch: int | None = None,
    mode: Literal["observe", "enforce"] = "enforce",
    loop: Iterable[LoopPrint] = (),
    conditional: bool = False,
    lapses: bool = False,
    evidence: Evidence | None = None,
) -> Decision:
    """A block.

    Args:
        key: such as `session:run-1`.
        rule: the rule that decided.
        message: for people.
        for_s: how long it is open from now, seconds; None: see `expires_at_ns`.
        expires_at_ns: when it becomes half-open, nanoseconds since the Unix epoch; None: never.
        epoch: default: later than every decision made before by these helpers.
        mode: whether it is enforced.
        loop: the inputs that it is limited to; default: all calls.
        conditional: only a call that shows an input in `loop` is refused.
        lapses: when it expires, it holds nobody back any more, as a budget's block.
        evidence: the numbers.
    """
    now, prints = time.time_ns(), tuple(loop)
    return Decision(
        key=key,
        state="open",
        action="block",
        mode=mode,
        rule=rule,
        message=message,
        evidence=evidence or Evidence(count=3, threshold=3, value=3, unit="repeats"),
        issued_at_ns=now,
        expires_at_ns=now + int(for_s * 1e9) if for_s is not None else expires_at_ns,
        epoch=next(_epochs) if epoch is None else epoch,
        scope_of_block="loop" if prints else "all",
        loop=prints,
        conditional=conditional,
        lapses=lapses,
    )


def nudge(key: str, text: str = "Try something else.", *, epoch: int | None = None) -> Decision:
    """A nudge with a text to add to the conversation."""
    return Decision(
        key=key,
        state="closed",
        action="nudge",
        mode="enforce",
        rule="repeat.action",
        message=text,
        issued_at_ns=time.time_ns(),
        epoch=next(_epochs) if epoch is None else epoch,
    )


def closed(key: str, *, epoch: int | None = None) -> Decision:
    """The end of a block or nudge."""
    return Decision(
        key=key, state="closed", issued_at_ns=time.time_ns(), epoch=next(_epochs) if epoch is None else epoch
    )


class FakeClock:
    """A clock that stands still until it is moved; pass `now_ns` and `monotonic` to a Guard."""

    def __init__(self, now_s: float = 1_800_000_000.0) -> None:
        self._now_s = now_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now_s += seconds

    def now_ns(self) -> int:
        """Nanoseconds since the Unix epoch."""
        return int(self._now_s * 1e9)

    def monotonic(self) -> float:
        """Seconds."""
        return self._now_s


@dataclass(frozen=True, slots=True)
class Checked:
    """One check that was made."""

    session: str | None
    """Session, given or from the context."""
    agent: str | None
    """Agent."""
    user: str | None
    """User."""
    team: str | None
    """Team."""
    messages: Any
    """The messages shown."""
    prompt: Any
    """The prompt shown."""
    verdict: Verdict | None
    """The answer; None: refused."""


class FakeGuard(Guard):
    """A Guard without a server that remembers the last 10,000 checks.

    Args:
        decisions: what is known from the start.
        mode: as of `Guard`; default `enforce`.
        settings: as of `Guard`.
    """

    def __init__(self, *decisions: Decision, mode: Mode | None = "enforce", **settings: Any) -> None:
        self.subscriber = MemorySubscriber(*decisions)
        self.checks: deque[Checked] = deque(maxlen=10_000)
        super().__init__(self.subscriber, mode=mode, **settings)

    def publish(self, *decisions: Decision) -> None:
        """Let decisions arrive."""
        self.start()
        self.subscriber.publish(*decisions)

    def check(
        self,
        *,
        session: object = None,
        agent: object = None,
        user: object = None,
        team: object = None,
        trace: object = None,
        messages: Any = None,
        prompt: Any = None,
    ) -> Verdict:
        """As `Guard.check`, remembered."""
        verdict = None
        try:
            verdict = super().check(
                session=session, agent=agent, user=user, team=team, trace=trace, messages=messages, prompt=prompt
            )
            return verdict
        finally:
            with self.session(session, agent=agent, user=user, team=team, trace=trace):
                who = IDENTITY.get()
            self.checks.append(Checked(who.session, who.agent, who.user, who.team, messages, prompt, verdict))

    def refused(self) -> int:
        """How many of the remembered checks were refused."""
        return sum(checked.verdict is None for checked in self.checks)


def is_blocked(guard: Guard, **names: Any) -> Blocked | None:
    """The refusal that a check meets, None where it passes."""
    try:
        guard.check(**names)
    except Blocked as refusal:
        return refusal
    return None
