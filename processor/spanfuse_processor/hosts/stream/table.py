"""The Faust tables `sessions` and `scopes`: snapshots by key, recovered from their changelogs."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import faust
from aiokafka import ConsumerRecord, TopicPartition
from faust.tables.table import Table
from faust.types import TP

from spanfuse_processor.errors import StateError
from spanfuse_processor.hosts.stream.restore import restore

if TYPE_CHECKING:
    from spanfuse_processor.config import KafkaSettings

_HEADER: Final = struct.Struct(">Bqqq")
HEADER_BYTES: Final = _HEADER.size
"""What stands before the snapshot."""
_LAYOUT: Final = 2


class Stored(NamedTuple):
    """A table's value. What must outlive a snapshot that this version cannot read stands before it."""

    offset: int
    """Last message that is applied, of `spanfuse.calls` for a session, of `spanfuse.charges` for a scope."""
    last_ns: int
    """End of the last call, nanoseconds since the Unix epoch: tells whether it is idle."""
    epoch: int
    """Epoch of the last decision; 0: the control topic has not been told of it."""
    snapshot: bytes
    """`SessionState.snapshot()` or `ScopeState.snapshot()`."""

    def pack(self) -> bytes:
        """The value as bytes.

        Raises:
            struct.error: if a number has more than 64 bits.
        """
        return _HEADER.pack(_LAYOUT, self.offset, self.last_ns, self.epoch) + self.snapshot

    @classmethod
    def unpack(cls, value: bytes) -> Stored:
        """The inverse of `pack`.

        Raises:
            StateError: if the bytes have another layout.
        """
        try:
            layout, offset, last_ns, epoch = _HEADER.unpack_from(value)
        except struct.error as error:
            raise StateError("a stored state is cut short") from error
        if layout != _LAYOUT:
            raise StateError(f"stored state of layout {layout}; this build reads {_LAYOUT}")
        return cls(offset, last_ns, epoch, value[_HEADER.size :])


class StateTable(Table[bytes, bytes]):
    """A table whose changelog the worker writes itself, with a producer of its own, and reads in bulk.

    Faust's own write costs five times as much, cannot be waited for, and is bound to an event of the partition at hand. What
    it does on recovery and rebalance is used as it is; its store stays empty.
    """

    settings: KafkaSettings
    stored: dict[bytes, tuple[bytes, int]]
    """Value and partition of each key."""
    read: dict[TopicPartition, int]
    """Last offset read of each changelog partition."""

    @classmethod
    def create(cls, app: faust.App, settings: KafkaSettings, partitions: int, name: str = "sessions") -> StateTable:
        """Add the table to an app."""
        table = cls(app, name=name, partitions=partitions, key_type=bytes, value_type=bytes)
        table.settings = settings
        table.stored = {}
        table.read = {}
        app.tables.add(table)
        return table

    def fetch(self, key: bytes) -> bytes | None:
        """The stored value."""
        entry = self.stored.get(key)
        return entry[0] if entry is not None else None

    def store(self, key: bytes, value: bytes | None, partition: int) -> None:
        """Change the local copy; `None` forgets the key."""
        if value is None:
            self.stored.pop(key, None)
        else:
            self.stored[key] = (value, partition)

    def entries(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Key, value and partition of all that is stored; taken at once, so that the table may change meanwhile."""
        for key, (value, partition) in list(self.stored.items()):
            yield key, value, partition

    async def on_rebalance(
        self, assigned: set[TP], revoked: set[TP], newly_assigned: set[TP], generation_id: int = 0
    ) -> None:
        """Forget the partitions of others, and read one's own."""
        await super().on_rebalance(assigned, revoked, newly_assigned, generation_id)
        mine = {TopicPartition(*tp) for tp in assigned if tp.topic == self.changelog_topic_name}
        partitions = {tp.partition for tp in mine}
        self.stored = {key: entry for key, entry in self.stored.items() if entry[1] in partitions}
        self.read = {tp: self.read.get(tp, -1) for tp in mine}
        await restore(self.settings, self.read, self.apply_records)

    def persisted_offset(self, tp: TP) -> int | None:
        """Where Faust's recovery goes on."""
        offset = self.read.get(TopicPartition(*tp), -1)
        return offset if offset >= 0 else None

    def apply_records(self, records: Iterable[ConsumerRecord]) -> None:
        """Take records of the changelog: of two values of a key the one that has applied more wins, so that a late write
        of a worker that had already lost the partition does not undo what its successor wrote."""
        for record in records:
            key, value = record.key, record.value
            present = self.fetch(key)
            if not value or present is None or _applied(value) >= _applied(present):
                self.store(key, value or None, record.partition)

    def apply_changelog_batch(self, batch: Iterable[Any]) -> None:
        """What Faust's recovery reads."""
        self.apply_records(event.message for event in batch)


def _applied(value: bytes) -> int:
    try:
        return Stored.unpack(value).offset
    except StateError:
        return -1
