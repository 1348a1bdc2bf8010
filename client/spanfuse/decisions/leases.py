"""Who may probe a half-open breaker: as many calls as its decision says, of the whole fleet, by leases in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from spanfuse.ledger.connect import connect
from spanfuse.ledger.redis import RedisStore

if TYPE_CHECKING:
    from spanfuse.ledger.ledger import Ledger

SCRIPT: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i, key in ipairs(KEYS) do
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  if not redis.call('ZSCORE', key, ARGV[1]) and redis.call('ZCARD', key) >= tonumber(ARGV[2 + i]) then
    return {i, redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] - now}
  end
end
for _, key in ipairs(KEYS) do
  redis.call('ZADD', key, now + ARGV[2], ARGV[1])
  redis.call('PEXPIRE', key, ARGV[2])
end
return {0, 0}
"""
"""A sorted set for each breaker: its leases by their ends, by the server's clock. All are taken or none is; asked again with
the same lease, as after an answer that was lost, the answer is the same. `ARGV`: the lease, its length in milliseconds, and for
each key how many there may be."""
RELEASE: Final = "for _, key in ipairs(KEYS) do redis.call('ZREM', key, ARGV[1]) end"


class Breaker(NamedTuple):
    """A half-open breaker."""

    key: str
    """Key of its decision."""
    epoch: int
    """Epoch of its decision: with each, leases begin anew."""
    probes: int
    """How many leases there may be at once."""


class Denied(NamedTuple):
    """A breaker has no room for a probe."""

    nth: int
    """Which of those that were asked for."""
    wait_s: float
    """Until the first of its leases ends, seconds."""


class Leases(Protocol):
    """Gives out leases to a fleet. It may raise anything where nobody answers: then each process is by itself."""

    def take(self, lease: str, breakers: Sequence[Breaker], lease_s: float) -> Denied | None:
        """Take a lease of all these breakers, or of none.

        Args:
            lease: names the lease; unique.
            breakers: one or more.
            lease_s: after which it comes free by itself, seconds: whoever holds it may be killed.
        """

    def give_back(self, lease: str, breakers: Sequence[Breaker]) -> None:
        """Give a lease back, for a call that was not made."""

    def close(self) -> None:
        """Let go of connections until they are needed again."""


class RedisLeases:
    """Leases beside the books of a ledger: over its connections, for its tenant, and within its time-out.

    Args:
        store: where the books are.
        owned: it is nobody else's.
    """

    def __init__(self, store: RedisStore, *, owned: bool = False) -> None:
        self._store, self._owned = store, owned

    def take(self, lease: str, breakers: Sequence[Breaker], lease_s: float) -> Denied | None:
        limits = (b.probes for b in breakers)
        found = self._store.evaluate(SCRIPT, self._keys(breakers), (lease, max(1, round(lease_s * 1000)), *limits))
        index, wait_ms = (int(number) for number in found)
        return Denied(index - 1, wait_ms / 1000) if index else None

    def give_back(self, lease: str, breakers: Sequence[Breaker]) -> None:
        self._store.evaluate(RELEASE, self._keys(breakers), (lease,))

    def close(self) -> None:
        if self._owned:
            self._store.close()

    def _keys(self, breakers: Sequence[Breaker]) -> list[bytes]:
        return [self._store.named(f"lease:{b.epoch}:{b.key}").encode("utf-8", "surrogatepass") for b in breakers]


def leases_at(where: Leases | str | None, ledger: Ledger | None) -> Leases | None:
    """The leases of a Guard.

    Args:
        where: leases, or the address of a Redis as of `spanfuse.ledger.connect`; None: those beside the ledger.
        ledger: the Guard's ledger.

    Returns:
        None without an address where the ledger is not in Redis: then each process is by itself.

    Raises:
        ValueError: for an address that is not of a Redis.
        ImportError: without the extra `redis`.
    """
    if where is not None and not isinstance(where, str):
        return where
    store = getattr(connect(where) if where else ledger, "store", None)
    if isinstance(store, RedisStore):
        return RedisLeases(store, owned=bool(where))
    if where:
        raise ValueError("leases are at redis://, rediss:// or unix://")
    return None
