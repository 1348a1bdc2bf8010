"""Forgets idle sessions and scopes, by the clock of their partition: the newest call seen there, and the time that passed
since. On the way it looks for budgets whose period is over, by the clock of the machine, as Guards do."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any, ClassVar, Final, Generic

from faust.types import TP

from spanfuse_processor.core import breaker
from spanfuse_processor.core.circuit import over
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.scopes.stage import ScopeStage
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import StateError
from spanfuse_processor.hosts.recorder import Recorder
from spanfuse_processor.hosts.stream.detect import forget, tell, told
from spanfuse_processor.hosts.stream.offsets import Offsets
from spanfuse_processor.hosts.stream.outbox import Outbox, Row
from spanfuse_processor.hosts.stream.sessions import Scopes, Sessions
from spanfuse_processor.hosts.stream.states import State, States
from spanfuse_processor.hosts.stream.table import StateTable, Stored
from spanfuse_processor.hosts.stream.writeback import WriteBack
from spanfuse_processor.hosts.topics import SCOPES_CHANGELOG, SESSIONS_CHANGELOG
from spanfuse_schemas import Decision, Detection
from spanfuse_schemas.topics import CALLS, CHARGES, CONTROL

log = logging.getLogger(__name__)

Entry = tuple[bytes, bytes, int]
"""Key, stored value and partition."""
Found = tuple[list[Decision], list[Detection]]
"""What it leads to that time passes."""
_SLICE: Final = 2_000
"""Stored states looked at per turn, some 2 ms."""


class Expiry(ABC, Generic[State]):
    """Looks at some stored states per turn, and deletes the idle ones.

    Args:
        stage: the stage of the core that they belong to.
        writeback: its locks keep states from being changed or written meanwhile.
        counters: gets `expired_sessions` or `expired_scopes`.
    """

    source: ClassVar[str]
    """Topic that the states are made from."""
    changelog: ClassVar[str]

    def __init__(
        self,
        table: StateTable,
        states: States[State],
        stage: Any,
        outbox: Outbox,
        writeback: WriteBack,
        offsets: Offsets,
        counters: Counter[str],
    ) -> None:
        self._table = table
        self._states = states
        self._stage = stage
        self._outbox = outbox
        self._writeback = writeback
        self._offsets = offsets
        self._counters = counters
        self._clocks: dict[int, tuple[int, float]] = {}
        self._round: Iterator[Entry] = iter(())
        self._since = time.monotonic()
        self._rounds = 0
        """Rounds begun since partitions were assigned."""
        self.recorder = Recorder()
        """Measures the work."""

    async def _look(self, entries: list[Entry]) -> None:
        """Release what budgets hold back no longer. In the first round whatever they hold back is looked at: the limits may
        have been changed since it was stored."""
        now_ns = time.time_ns()
        due = [(key, partition) for key, value, partition in entries if self._is_due(value, now_ns)]
        if not due:
            return
        async with self._writeback.step:
            for key, partition in due:
                if self._table.fetch(key) is not None:
                    await self._released(key.decode("utf-8", "surrogatepass"), partition, now_ns)

    async def _released(self, name: str, partition: int, now_ns: int) -> None:
        try:
            decisions, detections = self._tick(self._states.at(name, partition), now_ns)
        except Exception:  # one that nobody foresaw must not end the worker
            self._counters["unexpected_errors"] += 1
            if self._counters["unexpected_errors"] == 1:
                log.exception("it cannot be told whether budgets still hold one of the %s", self._states.what)
            return
        self._counters["decisions"] += len(decisions)
        self.recorder.found(decisions, detections)
        for topic, key, record in (*self._states.untold(), *told(decisions, detections)):
            await self._outbox.send(topic, record, key=key, urgent=topic == CONTROL)
        self._states.touched(name, -1)

    @abstractmethod
    def _is_due(self, value: bytes, now_ns: int) -> bool:
        """Whether a stored state has to be looked at."""

    @abstractmethod
    def _tick(self, state: State, now_ns: int) -> Found:
        """What it leads to that so much time has passed."""

    @abstractmethod
    def _closed(self, state: State) -> Decision | None:
        """The last decision of a state that is forgotten; none if it has none standing."""

    def _kept_s(self, name: str, stored: Stored) -> float:
        """How long it is remembered without a call, seconds."""
        return float(self._stage.policy.idle_timeout_s)

    def forget(self) -> None:
        """Partitions were revoked."""
        self._since = time.monotonic()
        self._clocks.clear()
        self._round = iter(())
        self._rounds = 0

    async def turn(self) -> None:
        """One turn."""
        looked_at = list(islice(self._round, _SLICE))
        if not looked_at:
            self._round = self._table.entries()
            self._rounds += 1
            return
        await self._look(looked_at)
        over = [entry for entry in looked_at if self._is_over(*entry)]
        if over:
            async with self._writeback.flushing:
                await self._delete(over)

    def _is_over(self, key: bytes, value: bytes, partition: int) -> bool:
        """Idle, and no message that it has applied can come again."""
        idle_s: float = self._stage.policy.idle_timeout_s
        try:
            stored = Stored.unpack(value)
        except StateError:  # nobody can tell since when: what has not been written again by then is over
            return time.monotonic() - self._since > idle_s
        silent_ns = self._silent_ns(partition, stored.last_ns)
        name = key.decode("utf-8", "surrogatepass")
        idle = silent_ns > idle_s * 1e9 and silent_ns > self._kept_s(name, stored) * 1e9
        return idle and stored.offset < self._offsets.committed(TP(self.source, partition))

    def _silent_ns(self, partition: int, last_ns: int) -> int:
        """Time since its last call. One that had none was made by an operator's order, which says nothing of the time of calls:
        it is as if it had been heard of when the partitions were assigned."""
        if not last_ns:
            return int((time.monotonic() - self._since) * 1e9)
        return self._now_ns(partition, last_ns) - last_ns

    def _now_ns(self, partition: int, seen_ns: int) -> int:
        newest, at = self._clocks.get(partition, (0, 0.0))
        if seen_ns > newest:
            newest, at = self._clocks[partition] = seen_ns, time.monotonic()
        return newest + int((time.monotonic() - at) * 1e9)

    async def _delete(self, over: list[Entry]) -> None:
        """What Guards are told goes first, as with every state."""
        gone: list[Row] = []
        async with self._writeback.step:
            for key, value, partition in over:
                name = key.decode("utf-8", "surrogatepass")
                if self._table.fetch(key) == value and not self._states.is_dirty(name):
                    await self._close(name, value, partition)
                    gone.append((key, None, partition))
        await self._outbox.settled()
        await self._outbox.send_many(self.changelog, gone)
        await self._outbox.settled()

    async def _close(self, name: str, value: bytes, partition: int) -> None:
        self._states.forget(name, partition)
        self._counters[f"expired_{self._states.what}"] += 1
        state, known = self._last_known(value)
        closed = self._closed(state) if state is not None else None
        if closed is not None:
            self.recorder.found([closed], ())
            await tell(self._outbox, closed)
        if known:
            await forget(self._outbox, self._states.breaker_of(name))

    def _last_known(self, value: bytes) -> tuple[State | None, bool]:
        """The state if it can be read, and whether Guards may know of it."""
        try:
            stored = Stored.unpack(value)
        except StateError:
            return None, True
        try:
            return self._states.restore(stored.snapshot), stored.epoch > 0
        except StateError:
            return None, stored.epoch > 0


class SessionExpiry(Expiry[SessionState]):
    """Forgets idle sessions."""

    source = CALLS
    changelog = SESSIONS_CHANGELOG
    _states: Sessions
    _stage: Pipeline

    def _closed(self, state: SessionState) -> Decision | None:
        if state.decision is None:
            return None
        return breaker.close(state, state.last_ns, "The session is over.", self._stage.policy.mode)

    def _is_due(self, value: bytes, now_ns: int) -> bool:
        """Its period is told by its decision alone, so that only sessions with one are read, and only where it can end."""
        if self._rounds > 1 and not self._stage.has_session_periods:
            return False
        try:
            if not Stored.unpack(value).epoch:
                return False
        except StateError:
            return False
        state, _ = self._last_known(value)
        held = state.decision if state is not None else None
        if held is None or not held.rule.startswith("budget."):
            return False
        return self._rounds == 1 or (held.lapses and over(held, now_ns))

    def _tick(self, state: SessionState, now_ns: int) -> Found:
        released = self._stage.look(state, now_ns)
        return ([released] if released is not None else []), []


class ScopeExpiry(Expiry[ScopeState]):
    """Forgets scopes of which nothing was heard for long."""

    source = CHARGES
    changelog = SCOPES_CHANGELOG
    _states: Scopes
    _stage: ScopeStage

    def _closed(self, state: ScopeState) -> Decision | None:
        return self._stage.over(state, state.last_ns) if state.standing is not None else None

    def _is_due(self, value: bytes, now_ns: int) -> bool:
        try:
            due = ScopeState.stored_due(Stored.unpack(value).snapshot)
        except StateError:
            return False
        return due is not None and (0 < due.at_ns <= now_ns or (due.blocked > 0 and self._rounds == 1))

    def _tick(self, state: ScopeState, now_ns: int) -> Found:
        outcome = self._stage.tick([state], now_ns)
        return outcome.decisions, outcome.detections

    def _kept_s(self, name: str, stored: Stored) -> float:
        return ScopeState.stored_kept_s(name, stored.snapshot, self._stage.policy.idle_timeout_s)
