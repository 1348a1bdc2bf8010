"""From the decisions that apply to a call to what becomes of it. Only reached when one does apply."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from spanfuse.context import CALL

if TYPE_CHECKING:
    from spanfuse.table import Entry
    from spanfuse_schemas import Fingerprint

Mode = Literal["observe", "enforce"]
PROBE_LEASE_S: Final = 30.0
"""How long the outcome of a probe is waited for before the next is let through, seconds: long enough for a model call,
short enough that a probe which died does not hold its session for good."""

Shown = Callable[[], "tuple[Fingerprint | None, Fingerprint | None, bool]"]


class Ruling(NamedTuple):
    """What becomes of a call."""

    refused: Entry | None = None
    """The enforced block."""
    observed: Entry | None = None
    """The block that is only observed."""
    nudge: Entry | None = None
    """The nudge."""
    probe: bool = False
    """The call passes as a probe."""


class Judge:
    """Weighs blocks, probes and nudges.

    Args:
        mode: None: as each decision says; else for all.
        lease_s: lease of a probe, seconds.
        now_ns: wall clock, nanoseconds since the Unix epoch.
        monotonic: clock that never goes back, seconds.
    """

    def __init__(
        self, mode: Mode | None, lease_s: float, now_ns: Callable[[], int], monotonic: Callable[[], float]
    ) -> None:
        self._mode = mode
        self._lease_s = lease_s
        self._now_ns = now_ns
        self._monotonic = monotonic
        self._lock = threading.Lock()

    def after_fork(self) -> None:
        """The lock may have been held by a thread that does not exist in this process."""
        self._lock = threading.Lock()

    def weigh(self, entries: Sequence[Entry], shown: Shown, stale: Callable[[], bool]) -> Ruling:
        """Decide about one call.

        Args:
            entries: the decisions of its keys, the narrowest scope first.
            shown: gives the fingerprints of its new input and of the action that this answers, None for what is not
                shown, and whether somebody speaks in it. Asked only where a decision depends on it.
            stale: whether no news can come; then blocks that have expired are let go, as nothing could close them.
        """
        now = self._now_ns()
        shut: list[Entry] = []
        ajar: list[Entry] = []
        nudges: list[Entry] = []
        for entry in entries:
            if entry.lapsed(now) or not _covers(entry, shown):
                continue
            if entry.decision.action == "nudge":
                nudges.append(entry)
            else:
                (ajar if entry.half_open(now) else shut).append(entry)
        refused, probe = self._first(shut, enforced=True), False
        if refused is None and ajar and not stale():
            denied, probe = self._probe(ajar)
            refused = self._first(denied, enforced=True)
            shut += denied
        if refused is not None:
            return Ruling(refused=refused)
        nudge = next((e for e in nudges if not e.half_open(now)), None)
        return Ruling(observed=self._first(shut, enforced=False), nudge=nudge, probe=probe)

    def _first(self, blocks: Sequence[Entry], *, enforced: bool) -> Entry | None:
        return next((e for e in blocks if self.enforces(e.decision.mode) is enforced), None)

    def enforces(self, mode: str) -> bool:
        """Whether a decision of that mode is enforced here."""
        return (self._mode or mode) == "enforce"

    def _probe(self, blocks: Sequence[Entry]) -> tuple[list[Entry], bool]:
        """Let a call through all these half-open breakers or through none: those that deny it, whether it is a probe.

        A breaker that is only observed has no say in whether the others spend their probe.
        """
        call = CALL.get()
        with self._lock:
            now = self._monotonic()
            denied = [e for e in blocks if now < e.lease_until and (call is None or e.owner is not call)]
            if self._first(denied, enforced=True) is not None:
                return denied, False
            free = [e for e in blocks if now >= e.lease_until]
            for entry in free:
                entry.owner, entry.lease_until = call, now + self._lease_s
        return denied, bool(free)


def _covers(entry: Entry, shown: Shown) -> bool:
    decision = entry.decision
    return decision.scope_of_block == "all" or decision.covers(*shown())
