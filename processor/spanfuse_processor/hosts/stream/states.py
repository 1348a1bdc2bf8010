"""The live states of this worker, of sessions or of scopes: in memory, backed by a table."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter, OrderedDict
from collections.abc import Container, Iterable
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar

from spanfuse_processor.errors import StateError
from spanfuse_processor.hosts.stream.outbox import Row
from spanfuse_processor.hosts.stream.table import StateTable, Stored
from spanfuse_processor.hosts.stream.told import Nobody, Told
from spanfuse_schemas import Decision
from spanfuse_schemas.topics import CONTROL

log = logging.getLogger(__name__)

MAX_LIVE: Final = 10_000
"""States kept ready in memory, some 20 KB each; others are restored from the table when they come up."""
MAX_INT64: Final = 2**63 - 1


class Stateful(Protocol):
    """What a state has, besides what its stage does with it."""

    decision: Decision | None
    epoch: int
    last_ns: int

    def snapshot(self) -> bytes:
        """The state as bytes."""


State = TypeVar("State", bound=Stateful)
Out = tuple[str, bytes, bytes | None]
"""Topic, key and value of a record."""


class Live(Generic[State]):
    """A state in memory."""

    __slots__ = ("dirty", "offset", "partition", "state")

    def __init__(self, state: State, offset: int, partition: int) -> None:
        self.state = state
        self.offset = offset
        """Last message applied; only grows."""
        self.partition = partition
        self.dirty = False
        """Changed since it was last stored."""


class States(ABC, Generic[State]):
    """What a stage of the core loads from, and what the write-back stores.

    Args:
        counters: gets `unreadable_…` and `unstorable_…`, states that had to be begun anew.
        max_live: bound of the states in memory; those that are not stored yet are never dropped.
    """

    what: str
    """`sessions` or `scopes`."""

    def __init__(self, table: StateTable, counters: Counter[str], max_live: int = MAX_LIVE) -> None:
        self._table = table
        self._counters = counters
        self._max_live = max_live
        self._live: OrderedDict[str, Live[State]] = OrderedDict()
        self._dirty: dict[str, Live[State]] = {}
        self._untold: list[Out] = []
        self.told: Told = Nobody()
        """Hears what is stored, and what is over."""

    @abstractmethod
    def breaker_of(self, name: str) -> str:
        """The key of its breaker."""

    @abstractmethod
    def new(self, name: str) -> State:
        """A state that has seen nothing."""

    @abstractmethod
    def restore(self, snapshot: bytes) -> State:
        """A state from its snapshot.

        Raises:
            StateError: if it cannot be read.
        """

    def __len__(self) -> int:
        """How many are ready in memory."""
        return len(self._live)

    def latest(self, kinds: Container[str], most: int) -> list[str]:
        """Names of some kinds in memory, as `agent:research`, those last at work first."""
        return list(islice((name for name in reversed(self._live) if name.partition(":")[0] in kinds), most))

    def stored(self) -> list[tuple[bytes, tuple[bytes, int]]]:
        """Key, value and partition of all that is stored, to be looked at elsewhere."""
        return list(self._table.stored.items())

    @property
    def dirty(self) -> int:
        """How many wait to be stored."""
        return len(self._dirty)

    def load(self, name: str, partition: int, offset: int) -> State | None:
        """The state that a message is to be applied to; none if it has been applied."""
        live = self._live.get(name)
        if live is None:
            live = self._live[name] = self._restored(name, partition)
        else:
            self._live.move_to_end(name)
        return live.state if offset > live.offset else None

    def at(self, name: str, partition: int) -> State:
        """The state, whatever messages it has applied: to look at it as time passes."""
        if name not in self._live:
            self._live[name] = self._restored(name, partition)
        return self._live[name].state

    def touched(self, name: str, offset: int) -> None:
        """The message at `offset` has changed the state."""
        live = self._live[name]
        live.offset = max(live.offset, offset)
        live.dirty = True
        self._dirty[name] = live

    def take(self, most: int) -> list[Row]:
        """Store up to `most` changed states in the table's local copy.

        Returns:
            Key, value and partition of each, for the changelog.
        """
        taken: list[Row] = []
        for name in list(self._dirty)[:most]:
            live = self._dirty.pop(name)
            live.dirty = False
            value = self._value(name, live)
            key = key_of(name)
            self._table.store(key, value, live.partition)
            taken.append((key, value, live.partition))
            self.told.stored(name, live.state, value, live.partition)
        return taken

    def _value(self, name: str, live: Live[State]) -> bytes:
        """The state as it is stored. One that cannot be is begun anew, at its epoch: it must not stop the others."""
        try:
            return _stored(live)
        except Exception as error:  # a number too large, text that is none, …
            self._counters[f"unstorable_{self.what}"] += 1
            if self._counters[f"unstorable_{self.what}"] == 1:
                log.error("one of the %s cannot be stored and starts afresh: %r", self.what, error)
            live.state = self._begun_anew(name, live.state.epoch, live.state.last_ns)
            return _stored(live)

    def known(self, name: str) -> bool:
        """Whether anything is known of the name."""
        return name in self._live or self._table.fetch(key_of(name)) is not None

    def trim(self) -> None:
        """Drop the states that were silent longest from memory, as far as they are stored."""
        excess = len(self._live) - self._max_live
        if excess <= 0:
            return
        idle = [name for name, live in self._live.items() if not live.dirty][:excess]
        for name in idle:
            del self._live[name]

    def forget(self, name: str, partition: int) -> None:
        """The name is over."""
        self._live.pop(name, None)
        self._dirty.pop(name, None)
        self._table.store(key_of(name), None, partition)
        self.told.forgotten(self.what, name, partition)

    def roll_back(self, names: Iterable[str], partition: int) -> None:
        """A message has failed and may have changed them in part: the table is the truth. What they had been told of since it
        was stored is lost, and what Guards may have heard of that is closed."""
        for name in names:
            lost = self._live.pop(name, None)
            if lost is None:
                continue
            waited = self._dirty.pop(name, None) is not None
            live = self._live[name] = self._restored(name, partition)
            live.offset = max(live.offset, lost.offset)
            if waited and lost.state.epoch > live.state.epoch:
                live.state.epoch = min(lost.state.epoch, MAX_INT64)
                self._close(name, live.state)
            if waited:
                self.touched(name, live.offset)

    def untold(self) -> list[Out]:
        """What Guards must hear of states that were begun anew, before anything else of them."""
        untold, self._untold = self._untold, []
        return untold

    def is_dirty(self, name: str) -> bool:
        """Whether the state waits to be stored."""
        return name in self._dirty

    def clear(self) -> None:
        """Drop everything from memory: after a rebalance the table is the truth."""
        self._live.clear()
        self._dirty.clear()
        self._untold.clear()

    def _restored(self, name: str, partition: int) -> Live[State]:
        value = self._table.fetch(key_of(name))
        if value is None:
            return Live(self.new(name), -1, partition)
        try:
            stored = Stored.unpack(value)
        except StateError as error:
            self._unreadable(error)
            self._untold.append((CONTROL, key_of(self.breaker_of(name)), None))  # at whatever epoch Guards are
            return Live(self.new(name), -1, partition)
        try:
            return Live(self.restore(stored.snapshot), stored.offset, partition)
        except StateError as error:
            self._unreadable(error)
            return Live(self._begun_anew(name, stored.epoch, stored.last_ns), stored.offset, partition)

    def _unreadable(self, error: StateError) -> None:
        self._counters[f"unreadable_{self.what}"] += 1
        if self._counters[f"unreadable_{self.what}"] == 1:
            log.warning("one of the stored %s cannot be read and starts afresh: %s", self.what, error)

    def _begun_anew(self, name: str, epoch: int, last_ns: int) -> State:
        """A state that has forgotten all but its epoch, below which Guards obey nothing, and when it was last heard of. A
        block that they may know of it would stand for ever: it is closed."""
        state = self.new(name)
        state.epoch, state.last_ns = min(epoch, MAX_INT64), min(last_ns, MAX_INT64)
        if state.epoch:
            self._close(name, state)
        return state

    def _close(self, name: str, state: State) -> None:
        state.epoch, state.decision = min(state.epoch + 1, MAX_INT64), None
        closed = Decision(
            key=self.breaker_of(name),
            state="closed",
            message="What had led to it is lost.",
            issued_at_ns=state.last_ns,
            epoch=state.epoch,
        )
        self._untold.append((CONTROL, key_of(closed.key), closed.to_json()))


def _stored(live: Live[State]) -> bytes:
    state = live.state
    return Stored(live.offset, state.last_ns, state.epoch, state.snapshot()).pack()


def key_of(name: str) -> bytes:
    """A session id or the key of a scope as the key of a table."""
    return name.encode("utf-8", "surrogatepass")
