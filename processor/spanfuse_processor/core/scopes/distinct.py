"""How many different names were seen lately, in bounded memory: exact up to `CAP`, an estimate beyond.

Names come as hashes. When there are more than `CAP`, only those in the lower half of the hashes' range are kept, then in the
lower quarter, and so on (adaptive sampling, Flajolet 1990): each then stands for 2, 4, … names. The standard error beyond the
cap is about 1.2 / √CAP, 11 %.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from spanfuse_schemas.charge import NAME_BITS

CAP: Final = 128
"""Names kept. Thresholds that compare with a number of names are at most 100, and so always exact."""


class Distinct:
    """Names with the time at which each was last seen, oldest first."""

    __slots__ = ("_level", "_seen", "count")

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, int]] = {}
        """Hash → when it was last seen, and of how many names it is the one that was kept."""
        self._level = 0
        """Names whose hash has this many leading zero bits are kept."""
        self.count = 0
        """How many names; an estimate once there were more than `CAP` at a time."""

    def add(self, names: Iterable[int], now_ns: int) -> None:
        """See names; `now_ns` never goes back."""
        for name in names:
            if name >> (NAME_BITS - self._level):
                continue
            self.remove((name,))
            weight = 1 << self._level
            self._seen[name] = (now_ns, weight)
            self.count += weight
            while len(self._seen) > CAP:
                self._thin()

    def remove(self, names: Iterable[int]) -> None:
        """Forget names."""
        for name in names:
            _, weight = self._seen.pop(name, (0, 0))
            self.count -= weight

    def forget(self, until_ns: int) -> None:
        """Forget what was last seen at `until_ns` or earlier; a set that has become empty is exact again."""
        while self._seen:
            name, (seen_ns, _) = next(iter(self._seen.items()))
            if seen_ns > until_ns:
                return
            self.remove((name,))
        self._level = 0

    def clear(self) -> None:
        """Forget all."""
        self._seen.clear()
        self._level = self.count = 0

    def _thin(self) -> None:
        self._level += 1
        weight, shift = 1 << self._level, NAME_BITS - self._level
        self._seen = {n: (at, max(weight, w)) for n, (at, w) in self._seen.items() if not n >> shift}
        self.count = sum(w for _, w in self._seen.values())

    def snapshot(self) -> list[Any]:
        """Flat: the level, then hash, time and weight of each name."""
        flat: list[Any] = [self._level]
        for name, (at, weight) in self._seen.items():
            flat += (name, at, weight)
        return flat

    @classmethod
    def restore(cls, data: list[Any]) -> Distinct:
        """The inverse of `snapshot`."""
        found = cls()
        found._level = data[0]
        found._seen = {
            n: (at, weight) for n, at, weight in zip(data[1::3], data[2::3], data[3::3], strict=True)
        }  # fmt: skip
        found.count = sum(weight for _, weight in found._seen.values())
        return found
