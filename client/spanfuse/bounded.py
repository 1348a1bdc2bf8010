"""A dictionary with a bound: what was used longest ago makes room."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Bounded(OrderedDict[K, V]):
    """Forgets the entry that was used longest ago. Not for threads without a lock, but for `peek`.

    Args:
        size: entries kept at most.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self.evicted = 0
        """Entries forgotten for want of room."""

    def get(self, key: K, default: V | None = None) -> V | None:  # type: ignore[override]
        """The value, which is now the one used last."""
        found = super().get(key, default)
        if found is not None:
            self.move_to_end(key)
        return found

    def peek(self, key: K) -> V | None:
        """The value, as if nobody had looked."""
        return super().get(key)

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._size:
            self.popitem(last=False)
            self.evicted += 1
