"""Tokens by which work in progress learns that its session is stopped, wherever that was decided."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from spanfuse.blocked import Blocked
from spanfuse.bounded import Bounded
from spanfuse.decisions.table import SCOPES, Entry
from spanfuse.steering.alarms import Alarm, Alarms

if TYPE_CHECKING:
    from spanfuse.context import Identity
    from spanfuse.decisions.judge import Mode
    from spanfuse_schemas import Decision

CANCELLED: Final = "cancelled"
"""Rule of a session that its own process has cancelled."""
MAX_SESSIONS: Final = 10_000
"""Sessions that stay cancelled, tokens kept for their callbacks alone, and deadlines; beyond it the oldest is let go."""
TERMINAL: Final = frozenset({CANCELLED, "limits.max_steps", "limits.max_duration_s", "budget.session"})
"""Rules by which this process refuses all further calls of a session."""


class CancelToken:
    """Whether a session is to end, and why. Any thread may ask, and any may wait.

    Attributes:
        session: the session.
        decision: what stopped it; None: nothing did.
    """

    def __init__(self, session: str) -> None:
        self.session = session
        self.decision: Decision | None = None
        self.failures = 0
        """Callbacks that failed."""
        self._callbacks: list[Callable[[CancelToken], object]] = []
        self._lock = threading.Lock()
        self._needed: Callable[[CancelToken, bool], None] = lambda token, needed: None

    @property
    def cancelled(self) -> bool:
        """Whether it is to end."""
        return self.decision is not None

    @property
    def reason(self) -> str:
        """Why, for people; empty: it is not."""
        return self.decision.message if self.decision is not None else ""

    def raise_if_cancelled(self) -> None:
        """Go on only if it is not cancelled.

        Raises:
            Blocked: it is.
        """
        if self.decision is not None:
            raise Blocked(self.decision)

    def cancel(self, reason: str = "") -> None:
        """Cancel what holds this token. Its session is not told: see `Guard.cancel`. A second time does nothing."""
        self.stop(cancelled(self.session, reason))

    def stop(self, decision: Decision) -> None:
        """Cancel because of a decision."""
        with self._lock:
            if self.decision is not None:
                return
            self.decision = decision
            callbacks, self._callbacks = self._callbacks, []
            self._needed(self, False)
        for callback in callbacks:
            self._call(callback)

    def on_cancel(self, callback: Callable[[CancelToken], object]) -> None:
        """Call a function with this token once it is cancelled, from the thread that cancels it; at once if it is. It has to be
        quick; what it raises is counted."""
        with self._lock:
            if self.decision is None:
                self._callbacks.append(callback)
                self._needed(self, True)
                return
        self._call(callback)

    def forget(self, callback: Callable[[CancelToken], object]) -> None:
        """Call a function no more."""
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)
                self._needed(self, bool(self._callbacks))

    def _call(self, callback: Callable[[CancelToken], object]) -> None:
        try:
            callback(self)
        except Exception:
            self.failures += 1

    async def wait(self) -> str:
        """Wait until it is cancelled; why. The event loop goes on meanwhile."""
        import asyncio  # Not for those who only import the client.

        loop = asyncio.get_running_loop()
        told = asyncio.Event()

        def tell(token: CancelToken) -> None:
            loop.call_soon_threadsafe(told.set)

        self.on_cancel(tell)
        try:
            await told.wait()
        finally:
            self.forget(tell)
        return self.reason


class Cancels:
    """The tokens of a process, by session. A token is cancelled by a block of its session, of a trace, agent, user or team that
    the session is known to be of, or of everybody; by `cancel`; by its deadline; and by a cap that lets nothing more through.

    A block that is only observed cancels nothing, nor one that is limited to a loop, since the agent may leave it.

    Args:
        mode: None: as decisions say whether they are enforced; else for all.
        monotonic: clock that never goes back, seconds.
    """

    def __init__(self, mode: Mode | None = None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._mode, self._monotonic = mode, monotonic
        self._alarms = Alarms(monotonic)
        self._by_session: weakref.WeakValueDictionary[str, CancelToken] = weakref.WeakValueDictionary()
        self._by_key: dict[str, weakref.WeakSet[CancelToken]] = {}
        self._kept: Bounded[int, CancelToken] = Bounded(MAX_SESSIONS)
        self.held: Bounded[str | None, Entry] = Bounded(MAX_SESSIONS)
        """Session that was cancelled → what stands against it. Read without a lock."""
        self._deadlines: Bounded[str, Alarm] = Bounded(MAX_SESSIONS)
        self._lock = threading.RLock()

    def after_fork(self) -> None:
        """Locks and threads are the parent's."""
        self._lock = threading.RLock()
        for token in list(self._by_session.values()):
            token._lock = threading.Lock()
        self._alarms.after_fork()

    def token(self, session: str, who: Identity | None = None, standing: Iterable[Decision] = ()) -> CancelToken:
        """The token of a session, the same for all who ask; one that is cancelled already where the session is stopped.

        Args:
            session: the session.
            who: of whom it is besides.
            standing: decisions that apply to it.
        """
        with self._lock:
            found = self._by_session.get(session)
            if found is None:
                found = self._by_session[session] = CancelToken(session)
                found._needed = self._keep
            for key in _keys(session, who):
                self._by_key.setdefault(key, weakref.WeakSet()).add(found)
            if len(self._by_key) > 2 * len(self._by_session) * (len(SCOPES) + 1):
                self._by_key = {key: tokens for key, tokens in self._by_key.items() if len(tokens)}
            known = self.held.get(session)
        if known is not None:
            found.stop(known.decision)
        for decision in standing:
            if self._stops(decision):
                found.stop(decision)
        return found

    def cancel(self, session: str, reason: str = "") -> None:
        """Cancel a session: its token now, and those that are asked for later; its calls are refused from now on."""
        decision = cancelled(session, reason)
        with self._lock:
            self.held[session] = Entry(decision)
        self._stop(session, decision)

    def deadline(self, session: str, at_s: float) -> None:
        """Cancel the token of a session at a time of the clock; a second deadline replaces the first."""
        with self._lock:
            before = self._deadlines.pop(session, None)
            if before is None and len(self._deadlines) >= MAX_SESSIONS:
                _, before = self._deadlines.popitem(last=False)
            if before is not None:
                before.cancel()
            self._deadlines[session] = self._alarms.at(at_s, lambda: self._stop(session, late(session)))

    def close(self) -> None:
        """Let all deadlines go."""
        with self._lock:
            for alarm in self._deadlines.values():
                alarm.cancel()
            self._deadlines.clear()

    def decided(self, decision: Decision) -> None:
        """A decision has arrived: one that stops sessions cancels their tokens, one that closes a session makes room for a new
        token."""
        if self._stops(decision):
            with self._lock:
                tokens = list(self._by_key.get(decision.key, ()))
            for token in tokens:
                token.stop(decision)
        elif decision.action == "allow" and decision.key.startswith("session:"):
            self._reopen(decision.key.removeprefix("session:"))

    def refused(self, decision: Decision, who: Identity) -> None:
        """This process has refused a call, and would refuse all further ones: a listener of the Guard."""
        if decision.rule in TERMINAL and who.session is not None:
            self._stop(who.session, decision)

    def _stop(self, session: str, decision: Decision) -> None:
        with self._lock:
            token = self._by_session.get(session)
        if token is not None:
            token.stop(decision)

    def _reopen(self, session: str) -> None:
        """Forget a token that is cancelled: whoever asks next begins with a new one."""
        with self._lock:
            self.held.pop(session, None)
            token = self._by_session.get(session)
            if token is not None and token.cancelled:
                del self._by_session[session]

    def _stops(self, decision: Decision) -> bool:
        """Whether no call is let through any more."""
        if (self._mode or decision.mode) != "enforce" or decision.action != "block":
            return False
        limited = decision.scope_of_block != "all" or decision.conditional
        return not limited and not Entry(decision).half_open(time.time_ns())

    def _keep(self, token: CancelToken, needed: bool) -> None:
        """A token with callbacks lives, though nobody holds it, until it is cancelled or many others were."""
        with self._lock:
            if needed:
                self._kept[id(token)] = token
            else:
                self._kept.pop(id(token), None)


def cancelled(session: str, reason: str) -> Decision:
    """What stands against a session that was cancelled."""
    return _block(session, CANCELLED, reason or "The session was cancelled.")


def late(session: str) -> Decision:
    """What stands against a session whose time is up."""
    return _block(session, "limits.max_duration_s", "The time of the session is up. Finish with what is known.")


def _block(session: str, rule: str, message: str) -> Decision:
    from spanfuse_schemas import Decision

    return Decision(
        key=f"session:{session}",
        state="open",
        action="block",
        mode="enforce",
        rule=rule,
        message=message,
        issued_at_ns=time.time_ns(),
    )


def _keys(session: str, who: Identity | None) -> list[str]:
    """By which decisions a session may be stopped."""
    others = [
        f"{scope}:{name}" for scope in SCOPES[1:] if who is not None and (name := getattr(who, scope)) is not None
    ]
    return [f"session:{session}", *others, "global:*"]
