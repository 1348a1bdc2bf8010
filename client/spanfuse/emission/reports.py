"""What a Guard tells the server of itself: one small record every few seconds, of what has changed, however much that is.

The server compares the calls told of with those whose spans it sees (coverage), and shows what Guards have refused. Each record
has a source and a number: one that is sent again, because nobody knows whether it arrived, counts once, and one that is lost
is missed. What cannot be sent yet waits in counters, which do not grow.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet, ref

from spanfuse.counters import SPANS_DROPPED, Counters, Tally
from spanfuse.emission import destination
from spanfuse.emission.report_record import request_of

if TYPE_CHECKING:
    from spanfuse.calls.model_call import ModelCall
    from spanfuse.guard import Guard

INTERVAL_S: Final = 5.0
"""Time between two reports, seconds: short against the window of coverage, long against the cost of a request."""
MAX_INTERVAL_S: Final = 60.0
"""The same while the receiver is away."""
SEND_S: Final = 3.0
"""Longest time that sending one may take, seconds."""
CLOSE_S: Final = 1.0
"""Longest time that closing waits for the last one, seconds."""
MAX_NAMES: Final = 100
"""Agents, by team, of one report; calls of further ones count for all together alone."""
_TOTALS: Final = ("nudged", "probes", "denied", "errors", "unsigned")
_NOTHING: Final = Counters().snapshot()

_TROUBLE: Final = {
    "away": "reports of this Guard do not arrive: the receiver of logs is away; they wait",
    "refused": "reports of this Guard are refused: no logs are taken there; SPANFUSE_REPORT_URL says where they go, or off",
}
"""What is logged, once until one is taken."""

log = logging.getLogger("spanfuse")
_reporters: WeakSet[Reporter] = WeakSet()
_drops_told = Tally()


class Reporter:
    """Reports what one Guard does, from a daemon thread, once there is somewhere to report to. A listener of the Guard
    (`Guard.listen`), which hears of calls as they begin and end.

    Args:
        guard: whose counters, state and age are told.
        report_to: see `spanfuse.emission.destination.where`.
        interval_s: between two reports, seconds.
    """

    def __init__(self, guard: Guard, report_to: str | None = None, interval_s: float = INTERVAL_S) -> None:
        self._guard = ref(guard)
        """The thread must not keep it: a Guard that nobody has any more ends by itself."""
        self._asked = report_to
        self._interval_s = interval_s
        self.trouble = ""
        """Why the last report was not taken: `away` or `refused`; empty: it was."""
        self._begin()
        _reporters.add(self)
        destination.waiting.add(self)

    def _begin(self) -> None:
        """Of this process nothing has been told yet."""
        self._lock, self._sending, self._stop = threading.Lock(), threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self._transport: destination.Transport | None = None
        self._source = uuid.uuid4().hex[:16]
        self._seq = 0
        self._calls: dict[tuple[str, str], int] = {}
        self._by_calls = False
        self._told, self._told_state = _NOTHING, ""
        self._since_ns = time.time_ns()
        self._pending: dict[str, Any] | None = None

    def start(self) -> None:
        """Begin, if there is somewhere to report to; never fails, and returns at once."""
        guard = self._guard()
        if self._thread is not None or guard is None or guard.disabled or guard.state == "closed":
            return
        try:
            with self._lock:
                self._open()
                if self._transport is not None and self._thread is None:
                    thread = threading.Thread(
                        target=self._run, args=(self._transport, self._stop), name="spanfuse-reports", daemon=True
                    )
                    thread.start()
                    self._thread = thread
        except Exception:
            self._asked = destination.OFF  # said once
            log.warning("nothing is reported to spanfuse", exc_info=True)

    def _open(self) -> None:
        if self._transport is None and (to := destination.where(self._asked)) is not None:
            self._transport = destination.transport(to)

    def began(self, call: ModelCall) -> None:
        """A call was admitted."""
        self._by_calls = True

    def ended(self, call: ModelCall) -> None:
        """It is over, as its span is: only now can the two be compared."""
        who = call.who
        key = who.agent or "", who.team or ""
        with self._lock:
            if key not in self._calls and len(self._calls) >= MAX_NAMES:
                key = "", ""
            self._calls[key] = self._calls.get(key, 0) + 1

    def flush(self, timeout_s: float = destination.EXIT_S) -> bool:
        """Report now, as before a serverless function is frozen; whether all was taken, within the time, seconds."""
        self.start()
        transport = self._transport
        return transport is None or _within(timeout_s, lambda: self._rest(transport, timeout_s))

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Have the thread report once more and end; it is waited for `timeout_s` seconds."""
        with self._lock:
            thread, self._thread, self._transport = self._thread, None, None
            stop, self._stop = self._stop, threading.Event()
        stop.set()
        if thread is not None:
            thread.join(timeout_s)

    def _run(self, transport: destination.Transport, stop: threading.Event) -> None:
        pause_s = self._interval_s
        while not stop.wait(pause_s) and self._guard() is not None:
            taken = self._turn(transport, SEND_S)
            pause_s = self._interval_s if taken else min(pause_s * 2, MAX_INTERVAL_S)
        self._rest(transport, destination.EXIT_S)
        transport.close()

    def _rest(self, transport: destination.Transport, timeout_s: float) -> bool:
        """Send a report that still waits, and then what has come since."""
        deadline = time.monotonic() + timeout_s
        return all(self._turn(transport, max(0.05, deadline - time.monotonic())) for _ in range(2))

    def _turn(self, transport: destination.Transport, timeout_s: float) -> bool:
        """Send the report that waits, else one of what has changed since; whether nothing waits any more."""
        if not self._sending.acquire(timeout=timeout_s):
            return False
        try:
            if self._pending is None:
                self._pending = self._collected()
            if self._pending is None:
                return True
            return self._sent(transport.send(request_of(self._pending), timeout_s))
        except Exception:
            self._pending = None  # it can never be sent
            log.warning("a report to spanfuse could not be made", exc_info=True)
            return True
        finally:
            self._sending.release()

    def _sent(self, outcome: destination.Outcome) -> bool:
        if outcome == "taken":
            self._pending, self.trouble = None, ""
            return True
        if not self.trouble:
            log.warning(_TROUBLE[outcome])
        self.trouble = outcome
        if outcome == "refused":
            self._pending = None
        return False

    def _collected(self) -> dict[str, Any] | None:
        """What has changed; none: nothing has."""
        guard = self._guard()
        if guard is None:
            return None
        counts, state, now_ns = guard.counters, guard.state, time.time_ns()
        with self._lock:
            calls, self._calls = self._calls, {}
        totals = {name: getattr(counts, name) - getattr(self._told, name) for name in _TOTALS}
        passed = counts.allowed - self._told.allowed
        report = {
            "checks": 0 if self._by_calls else passed,
            "calls": [{"agent": agent, "team": team, "calls": n} for (agent, team), n in calls.items()],
            **totals,
            "refusals": [
                {"key": key, "rule": rule, "blocked": blocked, "would_block": would}
                for (key, rule), (blocked, would) in guard.take_refusals().items()
            ],
            "spans_dropped": _new_drops(),
        }
        if not any(report.values()) and state == self._told_state:
            return None
        self._seq += 1
        head = {"source": self._source, "seq": self._seq, "since_ns": self._since_ns, "until_ns": now_ns}
        self._told, self._told_state, self._since_ns = counts, state, now_ns
        return head | report | {"state": state, "age_s": guard.age_s or 0.0}


def _new_drops() -> int:
    """Spans of this process whose loss no Guard has told of."""
    new = SPANS_DROPPED.value - _drops_told.value
    _drops_told.add(new)
    return new


def _within(timeout_s: float, work: Callable[[], bool]) -> bool:
    """Do it in a thread, since name servers, unlike sockets, have no time-out; whether it was done in time."""
    done: list[bool] = []
    thread = threading.Thread(target=lambda: done.append(work()), name="spanfuse-flush", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # as the process exits
        return work()
    thread.join(timeout_s)
    return done == [True]


def _last() -> None:
    """At the exit of the process: threads that are there already send what waits, as new ones are refused."""
    threads = [(reporter._thread, reporter._stop) for reporter in list(_reporters)]
    for _, stop in threads:
        stop.set()
    for thread, _ in threads:
        if thread is not None:
            thread.join(destination.last_moments_s())


def _after_fork() -> None:
    for reporter in list(_reporters):
        reporter._begin()


atexit.register(_last)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
