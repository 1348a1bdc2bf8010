"""The shape of a subscriber, and the thread that the remote ones share."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from spanfuse_schemas import Decision, PolicyNotice, Record
    from spanfuse_schemas.signing import Keyring

R = TypeVar("R", bound="Record")
State = Literal["new", "connecting", "ready", "closed"]

BACKOFF_S: Final = 0.2
"""First pause before connecting again, seconds; it doubles with each failure in a row."""
MAX_BACKOFF_S: Final = 5.0
"""Longest pause, seconds."""
CLOSE_S: Final = 1.0
"""How long closing may take, seconds; a thread that cannot be woken, such as from looking up a name, ends later by itself."""
MAX_SNAPSHOT: Final = 1_000_000
"""Most keys of one snapshot; more means that the source is no control topic."""

log = logging.getLogger("spanfuse")


class Sink(Protocol):
    """What a subscriber writes to."""

    def replace(self, decisions: Iterable[Decision]) -> None:
        """The whole present; the subscriber has caught up."""

    def apply(self, decision: Decision) -> None:
        """One change."""

    def forget(self, key: str) -> None:
        """A tombstone."""

    def govern(self, notice: PolicyNotice) -> None:
        """The policy in force."""

    def alive(self) -> None:
        """A sign of life of the source."""


class Subscriber(Protocol):
    """What a Guard needs of a subscriber."""

    silent: bool
    """It has no source that could go away, so that it gives no signs of life, and is never stale."""

    @property
    def state(self) -> State:
        """`new`, `connecting` (again or for the first time), `ready`, `closed`."""

    def start(self, sink: Sink) -> None:
        """Begin; returns at once. A second start changes nothing; one after `close` begins anew."""

    def close(self) -> None:
        """End, and free all threads and sockets."""

    def after_fork(self) -> None:
        """In a forked child: drop what belongs to the parent, so that `start` begins anew."""


class Snapshot:
    """The present of each key, collected until it is complete.

    Args:
        signed: decisions are signed; nothing signs a tombstone, which then releases nobody.
    """

    def __init__(self, *, signed: bool = False) -> None:
        self._signed = signed
        self._decisions: dict[str, Decision] = {}
        self._notice: PolicyNotice | None = None

    def apply(self, decision: Decision) -> None:
        """Take a decision in; the later of two of one key stays."""
        known = self._decisions.get(decision.key)
        if known is None or decision.supersedes(known.epoch, known.issued_at_ns):
            self._decisions[decision.key] = decision
        if len(self._decisions) > MAX_SNAPSHOT:
            raise ValueError(f"a snapshot of more than {MAX_SNAPSHOT} keys")

    def forget(self, key: str) -> None:
        """A tombstone."""
        known = self._decisions.get(key)
        if not self._signed or known is None or known.action == "allow":
            self._decisions.pop(key, None)

    def govern(self, notice: PolicyNotice) -> None:
        """Take the policy in force in."""
        if self._notice is None or notice.epoch > self._notice.epoch:
            self._notice = notice

    def hand_over(self, sink: Sink) -> None:
        """Tell what was collected: the policy first, so that it holds once the decisions are known."""
        if self._notice is not None:
            sink.govern(self._notice)
        sink.replace(self._decisions.values())


class ThreadSubscriber:
    """Follows a source in a daemon thread and connects again, with jittered backoff, whenever it is lost."""

    silent = False

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._state: State = "new"
        self.last_error = ""
        """Why the connection was lost or not made; empty while it holds."""
        self.reconnects = 0
        """Times the connection was lost or not made."""
        self.undecodable = 0
        """Records that were no decisions, and were skipped."""
        self.unsigned = 0
        """Records that none of the keys has signed, and were skipped."""
        self._keys: Keyring | None = None

    @property
    def state(self) -> State:
        """`new`, `connecting`, `ready` or `closed`."""
        return self._state

    def trust(self, keys: Keyring) -> None:
        """Hand on only what one of these keys has signed."""
        self._keys = keys

    def start(self, sink: Sink) -> None:
        """Begin to follow."""
        with self._lock:
            if self._thread is None:
                self._state = "connecting"
                self._stop = threading.Event()
                thread = threading.Thread(
                    target=self._run, args=(sink, self._stop), name=f"spanfuse-{self._name}", daemon=True
                )
                thread.start()
                self._thread = thread  # Only now: where no thread can be started, the next check tries again.

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """End; waits at most `timeout_s` seconds for the thread, which ends by itself at its next time-out if later."""
        with self._lock:
            thread, self._thread, self._state = self._thread, None, "closed"
            self._stop.set()
        deadline = time.monotonic() + timeout_s
        while thread is not None and thread is not threading.current_thread() and thread.is_alive():
            self._interrupt()  # Again and again: the thread may just have been about to wait.
            thread.join(0.05)
            if time.monotonic() > deadline:
                break

    def leave(self) -> None:
        """End, waiting for nothing: nobody listens any more."""
        self._stop.set()
        self._interrupt()

    def after_fork(self) -> None:
        """The parent's thread does not exist here, nor may its lock ever be released."""
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread, self._state = None, "new"
        self._drop()

    def _run(self, sink: Sink, stop: threading.Event) -> None:
        pause = BACKOFF_S
        while not stop.is_set():
            try:
                self._follow(sink, stop)
                raise ConnectionError("the source closed the stream")
            except Exception as error:
                if stop.is_set():
                    break
                self._lost(error)
            pause = BACKOFF_S if self._state == "ready" else min(pause * 2, MAX_BACKOFF_S)
            self._state = "connecting"
            stop.wait(pause * random.uniform(0.5, 1.0))

    def _lost(self, error: Exception) -> None:
        """One line for each outage, not for each attempt."""
        outage_begins = not self.last_error
        self.reconnects += 1
        self.last_error = f"{type(error).__name__}: {error}"
        if outage_begins:
            log.warning("%s: no decisions arrive, trying again: %s", self._name, self.last_error)

    def _caught_up(self) -> None:
        """The follower knows the whole present."""
        if self.last_error:
            log.info("%s: decisions arrive again", self._name)
        self._state, self.last_error = "ready", ""

    def _follow(self, sink: Sink, stop: threading.Event) -> None:
        """Connect, catch up, follow until `stop` is set; return or raise when the source is lost."""
        raise NotImplementedError

    def _decision(self, data: bytes | str) -> Decision | None:
        """A decision, or None, counted, for anything else: one bad record must not hide those after it."""
        from spanfuse_schemas import Decision

        return self._decoded(Decision, data)

    def _notice(self, data: bytes | str) -> PolicyNotice | None:
        """The policy in force, in the same way."""
        from spanfuse_schemas import PolicyNotice

        return self._decoded(PolicyNotice, data)

    def _decoded(self, kind: type[R], data: bytes | str) -> R | None:
        if self._keys is not None:
            try:
                data = self._keys.verified(data)
            except ValueError as error:
                self._not_signed(error)
                return None
        try:
            record: R = kind.from_json(data)
        except ValueError:
            self._skipped()
            return None
        return record

    def _not_signed(self, error: Exception) -> None:
        self.unsigned += 1
        if self.unsigned == 1:
            log.warning("%s: a record is ignored, and all like it, which are counted: %s", self._name, error)

    def _skipped(self) -> None:
        self.undecodable += 1

    def _snapshot(self) -> Snapshot:
        """Of what is read first."""
        return Snapshot(signed=bool(self._keys))

    def _interrupt(self) -> None:
        """Wake the thread from whatever it waits for."""

    def _drop(self) -> None:
        """Let go of what was inherited from the parent of a fork."""
