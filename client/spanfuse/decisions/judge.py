"""From the decisions that apply to a call to what becomes of it. Only reached when one does apply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from spanfuse.decisions.probes import Probes
    from spanfuse.decisions.shown import Shown
    from spanfuse.decisions.table import Entry

Mode = Literal["observe", "enforce"]


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
        probes: gives out those of half-open breakers.
        now_ns: wall clock, nanoseconds since the Unix epoch.
    """

    def __init__(self, mode: Mode | None, probes: Probes, now_ns: Callable[[], int]) -> None:
        self._mode = mode
        self.probes = probes
        self._now_ns = now_ns

    def asks_fleet(self, entries: Sequence[Entry]) -> bool:
        """Whether to weigh these may mean to wait for the leases of the fleet."""
        if not entries:
            return False
        now = self._now_ns()
        binding = (e for e in entries if e.half_open(now) and self.enforces(e.decision.mode) and not e.lapsed(now))
        return self.probes.ask_fleet(e for e in binding if e.decision.action == "block")

    def weigh(self, entries: Sequence[Entry], shown: Shown, stale: Callable[[], bool]) -> Ruling:
        """Decide about one call.

        Args:
            entries: the decisions of its keys, the narrowest scope first.
            shown: what the call shows of itself. Asked only where a decision depends on it.
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
            denied, probe = self.probes.take(ajar, lambda entry: self.enforces(entry.decision.mode))
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


def _covers(entry: Entry, shown: Shown) -> bool:
    decision = entry.decision
    return decision.scope_of_block == "all" or decision.covers(*shown())
