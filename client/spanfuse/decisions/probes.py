"""Which calls of this process probe a half-open breaker: by its own count, and by the leases of the fleet where it has any."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from spanfuse.context import CALL, Call

if TYPE_CHECKING:
    from spanfuse.decisions.leases import Breaker, Leases
    from spanfuse.decisions.table import Entry

PROBE_LEASE_S: Final = 30.0
"""How long the outcome of a probe is waited for before the next is let through, seconds: long enough for a model call,
short enough that a probe which died does not hold its session for good."""
ASK_AGAIN_S: Final = 1.0
"""How long a denial of the fleet is believed at most, seconds: a lease may be given back before it ends."""
AWAY_S: Final = 1.0
"""How long the fleet is not asked after it did not answer, seconds: a call waits for it that often at most."""

log = logging.getLogger("spanfuse")


class Lease(NamedTuple):
    """A probe that was let through, until its outcome is known."""

    name: str
    """Its name in the fleet."""
    call: Call | None
    """The call that has it; None: a check by itself."""
    until_s: float
    """When it comes free by itself, by the clock that never goes back."""
    entries: tuple[Entry, ...]
    """The breakers it is of."""
    shared: tuple[Breaker, ...]
    """Those of them that the fleet knows about."""


class Probes:
    """Gives out probes, each of all the breakers that a call needs one of, or of none.

    Args:
        lease_s: how long the outcome of a probe is waited for, seconds.
        leases: those of the fleet; None: this process is by itself.
        monotonic: clock that never goes back, seconds.
    """

    def __init__(self, lease_s: float, leases: Leases | None, monotonic: Callable[[], float]) -> None:
        self.shared: Final = leases is not None
        """Whether the fleet is asked at all."""
        self._lease_s, self._leases, self._monotonic = lease_s, leases, monotonic
        self._lock = threading.Lock()
        self._ask_from_s = float("-inf")
        self._away = False

    def after_fork(self) -> None:
        """The lock may have been held by a thread that does not exist in this process."""
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of connections; they are made again when they are needed."""
        if self._leases is not None:
            self._leases.close()

    def ask_fleet(self, binding: Iterable[Entry]) -> bool:
        """Whether to take a probe of these means to ask the fleet, and so to wait for it.

        Args:
            binding: enforced breakers that are half-open.
        """
        now_s = self._monotonic()
        return (
            self.shared
            and now_s >= self._ask_from_s
            and any(not entry.full(now_s) for entry in binding if not entry.local)
        )

    def take(self, ajar: Sequence[Entry], enforced: Callable[[Entry], bool]) -> tuple[list[Entry], bool]:
        """Take a probe of all half-open breakers, or of none where an enforced one denies it.

        A breaker that is only observed has no say in whether the others spend theirs, and the fleet is not asked about it.

        Returns:
            Those that deny it, and whether the call passes as a probe.
        """
        call = CALL.get()
        with self._lock:
            now_s = self._monotonic()
            wanted = [e for e in ajar if not e.probed_by(call, now_s)]
            denied = [e for e in wanted if e.full(now_s)]
            if any(map(enforced, denied)):
                return denied, False
            name = uuid.uuid4().hex
            refused, shared = self._of_fleet(name, [e for e in wanted if enforced(e) and not e.local], now_s)
            if refused:
                return denied + refused, False
            free = tuple(e for e in wanted if e not in denied)
            if free:
                _grant(Lease(name, call, now_s + self._lease_s, free, shared), now_s)
        return denied, bool(free)

    def _of_fleet(self, name: str, binding: list[Entry], now_s: float) -> tuple[list[Entry], tuple[Breaker, ...]]:
        """Those that deny it, and those of which the fleet has given a lease. While the fleet does not answer, each process
        lets one probe through."""
        if self._leases is None or not binding:
            return [], ()
        if now_s >= self._ask_from_s:
            from spanfuse.decisions.leases import Breaker

            asked = tuple(Breaker(e.decision.key, e.decision.epoch, e.decision.probes) for e in binding)
            try:
                found = self._leases.take(name, asked, self._lease_s)
            except Exception as error:
                self._lose(error, now_s)
            else:
                self._away = False
                if found is None:
                    return [], asked
                denying = binding[found.nth]
                denying.full_until_s = now_s + min(found.wait_s, ASK_AGAIN_S)
                return [denying], ()
        return [e for e in binding if e.under_way(now_s)], ()

    def _lose(self, error: Exception, now_s: float) -> None:
        """One line for each outage."""
        self._ask_from_s = now_s + AWAY_S
        if not self._away:
            log.warning("leases of half-open breakers: %s; until it is back each process lets one probe through", error)
        self._away = True

    def give_back(self, call: Call) -> None:
        """Give back what a call has taken that is not made after all. The fleet is told by a thread, and not waited for."""
        taken, call.leases = call.leases, ()
        if not taken:
            return
        with self._lock:
            for lease in taken:
                for entry in lease.entries:
                    entry.leases = tuple(other for other in entry.leases if other is not lease)
        if any(lease.shared for lease in taken):
            threading.Thread(target=self._tell_fleet, args=(taken,), name="spanfuse-lease", daemon=True).start()

    def _tell_fleet(self, taken: Iterable[Lease]) -> None:
        try:
            for lease in taken:
                if lease.shared and self._leases is not None:
                    self._leases.give_back(lease.name, lease.shared)
        except Exception as error:
            log.info("a lease was not given back, it ends by itself: %s", error)


def _grant(lease: Lease, now_s: float) -> None:
    for entry in lease.entries:
        entry.leases = (*entry.under_way(now_s), lease)
    if lease.call is not None:
        lease.call.leases = (*lease.call.leases, lease)
