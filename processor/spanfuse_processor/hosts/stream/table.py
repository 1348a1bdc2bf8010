"""The Faust table `sessions`: snapshots by session, recovered from its changelog."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import faust
from faust.tables.table import Table

from spanfuse_processor.errors import StateError

_HEADER: Final = struct.Struct(">Bqq?")
_LAYOUT: Final = 1


class Stored(NamedTuple):
    """A table's value."""

    offset: int
    """Last message of `spanfuse.calls` that is applied."""
    last_ns: int
    """End of the session's last call, nanoseconds since the Unix epoch: tells whether it is idle."""
    told: bool
    """The control topic has been told of the session."""
    snapshot: bytes
    """`SessionState.snapshot()`."""

    def pack(self) -> bytes:
        """The value as bytes."""
        return _HEADER.pack(_LAYOUT, self.offset, self.last_ns, self.told) + self.snapshot

    @classmethod
    def unpack(cls, value: bytes) -> Stored:
        """The inverse of `pack`.

        Raises:
            StateError: if the bytes have another layout.
        """
        try:
            layout, offset, last_ns, told = _HEADER.unpack_from(value)
        except struct.error as error:
            raise StateError("a stored session is cut short") from error
        if layout != _LAYOUT:
            raise StateError(f"stored session of layout {layout}; this build reads {_LAYOUT}")
        return cls(offset, last_ns, told, value[_HEADER.size :])


class SessionTable(Table):  # type: ignore[misc]
    """A table whose changelog the worker writes itself, with a producer of its own.

    Faust's own write costs five times as much, cannot be waited for, and is bound to an event of the partition at hand; what it
    does on recovery and rebalance is used as it is.
    """

    @classmethod
    def create(cls, app: faust.App, partitions: int) -> SessionTable:
        """Add the table to an app."""
        table = cls(app, name="sessions", partitions=partitions, key_type=bytes, value_type=bytes)
        app.tables.add(table)
        return table

    def fetch(self, key: bytes) -> bytes | None:
        """The stored value."""
        value: bytes | None = self.data.data.get(key)
        return value

    def store(self, key: bytes, value: bytes | None, partition: int) -> None:
        """Change the local copy; `None` forgets the key."""
        store = self.data
        if value is None:
            store.data.pop(key, None)
            store._key_partition.pop(key, None)
        else:
            store.data[key] = value
            store._key_partition[key] = partition

    def entries(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Key, value and partition of all that is stored; taken at once, so that the table may change meanwhile."""
        store = self.data
        partition_of = store._key_partition
        for key, value in list(store.data.items()):
            if key in partition_of:
                yield key, value, partition_of[key]

    def apply_changelog_batch(self, batch: Iterable[Any]) -> None:
        """Recover: of two values of a key the one that has applied more wins, so that a late write of a worker that had
        already lost the partition does not undo what its successor wrote."""
        for event in batch:
            key, value = event.key, event.value
            present = self.fetch(key)
            if not value or present is None or _applied(value) >= _applied(present):
                self.store(key, value or None, event.message.partition)


def _applied(value: bytes) -> int:
    try:
        return Stored.unpack(value).offset
    except StateError:
        return -1
