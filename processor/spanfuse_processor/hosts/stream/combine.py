"""The third hop: charges in, what they add up to for agents, traces and teams out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from spanfuse_processor.core.scopes.stage import ScopeOutcome, ScopeStage
from spanfuse_processor.hosts.stream.detect import cleared, send_all, told
from spanfuse_processor.hosts.stream.hop import Hop
from spanfuse_processor.hosts.stream.outbox import Outbox
from spanfuse_processor.hosts.stream.sessions import Scopes
from spanfuse_processor.hosts.stream.states import Out
from spanfuse_processor.hosts.stream.writeback import WriteBack
from spanfuse_schemas import ChargeBatch, Reset
from spanfuse_schemas.topics import CHARGES


class Combiner(Hop[ChargeBatch]):
    """Applies the messages of `spanfuse.charges`; see `Hop` for the other arguments.

    Args:
        stage: the second stage of the core.
        scopes: its states.
    """

    topic = CHARGES
    record = ChargeBatch

    def __init__(
        self,
        stage: ScopeStage,
        scopes: Scopes,
        outbox: Outbox,
        writeback: WriteBack,
        counters: Counter[str],
        *,
        present: Callable[[Any], bool],
        fail: Callable[[BaseException], None],
    ) -> None:
        super().__init__(outbox, writeback, counters, present=present, fail=fail)
        self.stage = stage
        self._scopes = scopes

    def _parse(self, value: bytes | None) -> ChargeBatch | None:
        """A batch that holds something. Nobody writes an empty one: it is a record of another shape, such as the single
        `Charge` that earlier builds wrote."""
        batch = super()._parse(value)
        return batch if batch is not None and (batch.charges or batch.resets) else None

    async def _apply(self, batch: ChargeBatch, message: Any) -> None:
        partition, offset = message.partition, message.offset
        records: list[Out] = []
        try:
            touched = [reset.key for reset in batch.resets if self._reset(reset, partition, offset, records)]
            outcome = self.stage.process(batch.charges, lambda scope: self._scopes.load(scope, partition, offset))
            records += told(outcome.decisions, outcome.detections)
        except Exception:
            self._scopes.roll_back({*(c.scope for c in batch.charges), *(r.key for r in batch.resets)}, partition)
            await send_all(self._outbox, self._scopes.untold())
            await self._unapplied(message)
            return
        await send_all(self._outbox, self._scopes.untold())
        for scope in (*touched, *outcome.touched):
            self._scopes.touched(scope, offset)
        self._count(outcome)
        await send_all(self._outbox, records)

    def _reset(self, reset: Reset, partition: int, offset: int, records: list[Out]) -> bool:
        """Whether it has changed a scope: one that nobody knows must not be made by it."""
        if not self._scopes.known(reset.key):
            records += cleared(reset, self.stage.policy.mode)
            return False
        state = self._scopes.load(reset.key, partition, offset)
        if state is None:
            return False
        records += told([self.stage.reset(state, reset.at_ns, reset.actor)], [])
        return True

    def _count(self, outcome: ScopeOutcome) -> None:
        self._counters["redelivered_charges"] += outcome.redelivered
        self._counters["decisions"] += len(outcome.decisions)
        for detection in outcome.detections:
            self._counters[f"detections/{detection.rule}"] += 1
