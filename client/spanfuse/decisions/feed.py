"""What a Guard hears: its subscriber, the table of decisions that this fills, and whether it can still be believed."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Literal

from spanfuse.decisions.table import DecisionTable

if TYPE_CHECKING:
    from spanfuse.subscribers.base import Subscriber
    from spanfuse_schemas import Decision, PolicyNotice
    from spanfuse_schemas.signing import Keyring

_LOOK_S: Final = 0.01

FeedState = Literal["new", "connecting", "ready", "stale", "closed"]


class _Ear:
    """A feed as its subscriber knows it, whose thread must not keep it: a Guard that nobody has any more ends by itself."""

    def __init__(self, feed: Feed) -> None:
        self._feed = weakref.ref(feed)

    def replace(self, decisions: Iterable[Decision]) -> None:
        if (feed := self._feed()) is not None:
            feed.replace(decisions)

    def apply(self, decision: Decision) -> None:
        if (feed := self._feed()) is not None:
            feed.apply(decision)

    def forget(self, key: str) -> None:
        if (feed := self._feed()) is not None:
            feed.forget(key)

    def govern(self, notice: PolicyNotice) -> None:
        if (feed := self._feed()) is not None:
            feed.govern(notice)

    def alive(self) -> None:
        if (feed := self._feed()) is not None:
            feed.alive()


class Feed:
    """Runs the subscriber and is the sink that it writes to.

    Args:
        subscriber: where decisions come from.
        staleness_s: silence after which nothing is known any more, seconds.
        monotonic: clock that never goes back, seconds.
        keys: what is not signed with one of them is not obeyed; None: all is.
    """

    def __init__(
        self,
        subscriber: Subscriber,
        staleness_s: float,
        monotonic: Callable[[], float],
        keys: Keyring | None = None,
    ) -> None:
        self.subscriber = subscriber
        self.staleness_s = staleness_s
        self.table = DecisionTable(signed=bool(keys))
        if keys and hasattr(subscriber, "trust"):  # others hand on what was made in this process
            subscriber.trust(keys)
        self.running = False
        """Started in this process. Each check reads it."""
        self.closed = False
        """Ended by its owner."""
        self.told: Callable[[Decision], None] | None = None
        """Is told of each change, and does not fail."""
        self.policy: PolicyNotice | None = None
        """The policy in force on the server; None: it has told of none."""
        self.governed: Callable[[PolicyNotice], None] | None = None
        """Is told of each policy that is newer."""
        self._monotonic = monotonic
        self._last_sign_s = float("-inf")
        self._ready = threading.Event()
        self._lock = threading.Lock()
        if (leave := getattr(subscriber, "leave", None)) is not None:
            weakref.finalize(self, leave).atexit = False

    def start(self) -> None:
        """Start, or start anew after `close`; returns at once."""
        with self._lock:
            if not self.running:
                self.subscriber.start(_Ear(self))
                self.running, self.closed = True, False

    def close(self) -> None:
        """Stop following; what is known stays."""
        with self._lock:
            self.closed, self.running = True, False
            self._ready.clear()
            self.subscriber.close()

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until all present decisions are known, and are not stale, as after a function was frozen; whether it is so."""
        deadline = time.monotonic() + timeout_s
        while self._ready.wait(max(0.0, deadline - time.monotonic())):
            if not self.stale():
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_S)
        return False

    def after_fork(self) -> None:
        """What is known is kept; threads, sockets and locks are the parent's."""
        self.running = False
        self._ready, self._lock = threading.Event(), threading.Lock()
        self.table.after_fork()
        self.subscriber.after_fork()

    def replace(self, decisions: Iterable[Decision]) -> None:
        """The whole present."""
        self.table.replace(decisions)
        if self.told is not None:
            for decision in self.table.decisions():
                self.told(decision)
        self.alive()
        self._ready.set()

    def apply(self, decision: Decision) -> None:
        """One change."""
        news = self.table.apply(decision)
        self.alive()
        if news and self.told is not None:
            self.told(decision)

    def forget(self, key: str) -> None:
        """A tombstone."""
        self.table.forget(key)
        self.alive()

    def govern(self, notice: PolicyNotice) -> None:
        """The policy in force; one of an earlier epoch says nothing new."""
        if self.policy is None or notice.epoch > self.policy.epoch:
            self.policy = notice
            if self.governed is not None:
                self.governed(notice)
        self.alive()

    def alive(self) -> None:
        """A sign of life of the source."""
        self._last_sign_s = self._monotonic()

    def stale(self) -> bool:
        """Whether the source has been silent for too long."""
        return not self.subscriber.silent and self._monotonic() - self._last_sign_s > self.staleness_s

    def available(self) -> bool:
        """Whether the present is known and changes can be expected to arrive."""
        return not self.closed and self._ready.is_set() and not self.stale()

    @property
    def age_s(self) -> float | None:
        """Seconds since the last sign of life; None before the first."""
        age = self._monotonic() - self._last_sign_s
        return None if age == float("inf") else age

    @property
    def unsigned(self) -> int:
        """Records that were ignored since nothing proves where they come from."""
        return self.table.unsigned + int(getattr(self.subscriber, "unsigned", 0))

    @property
    def state(self) -> FeedState:
        """`new`, `connecting`, `ready`, `stale` or `closed`."""
        if self.closed:
            return "closed"
        if not self._ready.is_set():
            return "connecting" if self.running else "new"
        return "stale" if self.stale() else "ready"

    @property
    def trouble(self) -> str:
        """Why nothing is heard, for people."""
        age = self.age_s
        what = "no decisions have arrived yet" if age is None else f"no sign of life for {age:.0f} s"
        why = getattr(self.subscriber, "last_error", "")
        return f"{what}; {why}" if why else what
