"""Decisions from the same process: for tests, and for hosts that decide themselves."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from spanfuse.subscribers.base import Sink, State

if TYPE_CHECKING:
    from spanfuse_schemas import Decision, PolicyNotice


class MemorySubscriber:
    """Hands on what is published to it, in the publisher's thread.

    Args:
        ready: whether it has caught up when it starts; otherwise it has after `catch_up`.
        silent: False: it goes stale like a remote subscriber unless `alive` is called.
    """

    def __init__(self, *decisions: Decision, ready: bool = True, silent: bool = True) -> None:
        self.silent = silent
        self._ready = ready
        self._present: dict[str, Decision] = {}
        self._notice: PolicyNotice | None = None
        self._sink: Sink | None = None
        self._closed = False
        self._lock = threading.RLock()
        self.publish(*decisions)

    @property
    def state(self) -> State:
        """`new`, `connecting`, `ready` or `closed`."""
        if self._closed:
            return "closed"
        if self._sink is None:
            return "new"
        return "ready" if self._ready else "connecting"

    def start(self, sink: Sink) -> None:
        """Begin: the sink gets all that was published before."""
        with self._lock:
            self._sink, self._closed = sink, False
            if self._ready:
                self._tell_all(sink)

    def close(self) -> None:
        """End: the sink gets nothing more."""
        with self._lock:
            self._sink, self._closed = None, True

    def after_fork(self) -> None:
        """Start anew in the child, which shares nothing with its parent from now on."""
        self._lock = threading.RLock()
        self._sink = None

    def publish(self, *decisions: Decision) -> None:
        """Hand on decisions."""
        with self._lock:
            for decision in decisions:
                known = self._present.get(decision.key)
                if known is None or decision.epoch > known.epoch:
                    self._present[decision.key] = decision
                if self._sink is not None and self._ready:
                    self._sink.apply(decision)

    def forget(self, key: str) -> None:
        """Hand on a tombstone."""
        with self._lock:
            self._present.pop(key, None)
            if self._sink is not None and self._ready:
                self._sink.forget(key)

    def govern(self, notice: PolicyNotice) -> None:
        """Hand on the policy in force."""
        with self._lock:
            self._notice = notice
            if self._sink is not None and self._ready:
                self._sink.govern(notice)

    def catch_up(self) -> None:
        """Be ready, with all that was published so far."""
        with self._lock:
            self._ready = True
            if self._sink is not None:
                self._tell_all(self._sink)

    def _tell_all(self, sink: Sink) -> None:
        if self._notice is not None:
            sink.govern(self._notice)
        sink.replace(list(self._present.values()))

    def alive(self) -> None:
        """Give a sign of life."""
        if self._sink is not None:
            self._sink.alive()
