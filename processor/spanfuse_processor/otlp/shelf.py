"""Things that wait to be fetched, bounded in size and in number; the longest there make room for the newest."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

OVERHEAD: Final = 1024
"""What a thing takes besides its stated size, bytes."""


class _Item(NamedTuple, Generic[V]):
    value: V
    size: int
    since_ns: int


class Shelf(Generic[K, V]):
    """A bounded mapping in the order of arrival.

    Args:
        max_bytes: of all things together.
        max_items: their number.
    """

    def __init__(self, max_bytes: int, max_items: int) -> None:
        self._max_bytes = max_bytes
        self._max_items = max_items
        self._items: OrderedDict[K, _Item[V]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: K) -> bool:
        return key in self._items

    def get(self, key: K) -> V | None:
        """What waits under a key."""
        item = self._items.get(key)
        return None if item is None else item.value

    def put(self, key: K, value: V, size: int, at_ns: int) -> list[tuple[K, V]]:
        """Put something there, in place of what was; it keeps its turn.

        Args:
            at_ns: when, unless something has waited there for longer.

        Returns:
            What had to go.
        """
        present = self._items.get(key)
        if present is not None:
            self._bytes -= present.size
            at_ns = present.since_ns
        item = self._items[key] = _Item(value, size + OVERHEAD, at_ns)
        self._bytes += item.size
        return self._dropped(lambda _: self._is_full()) if self._is_full() else []

    def _is_full(self) -> bool:
        return self._bytes > self._max_bytes or len(self._items) > self._max_items

    def pop(self, key: K) -> V | None:
        """Fetch something."""
        item = self._items.pop(key, None)
        if item is None:
            return None
        self._bytes -= item.size
        return item.value

    def expire(self, before_ns: int) -> list[tuple[K, V]]:
        """Drop what has waited since before a time."""
        return self._dropped(lambda item: item.since_ns < before_ns)

    def _dropped(self, too_many: Callable[[_Item[V]], bool]) -> list[tuple[K, V]]:
        dropped = []
        while self._items and too_many(next(iter(self._items.values()))):
            key, item = self._items.popitem(last=False)
            self._bytes -= item.size
            dropped.append((key, item.value))
        return dropped


def weight(value: Any) -> int:
    """About how many bytes a value takes that a decoder has made."""
    if not isinstance(value, (dict, list)):
        return sys.getsizeof(value)
    total = 64 + 128 * len(value)
    for inner in value.values() if isinstance(value, dict) else value:
        if type(inner) is str:
            total += len(inner)
        elif isinstance(inner, (dict, list, bytes)):
            total += weight(inner)
    return total
