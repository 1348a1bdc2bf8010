"""The third hop: charges in, what they add up to for agents, traces, users and teams out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from spanfuse_processor.core.scopes.stage import ScopeStage
from spanfuse_processor.hosts.stream.detect import audited, cleared, told
from spanfuse_processor.hosts.stream.hop import Hop
from spanfuse_processor.hosts.stream.outbox import Outbox
from spanfuse_processor.hosts.stream.sessions import Scopes
from spanfuse_processor.hosts.stream.states import Out
from spanfuse_processor.hosts.stream.writeback import WriteBack
from spanfuse_processor.hosts.timely import timely
from spanfuse_schemas import ChargeBatch, Reset
from spanfuse_schemas.topics import CHARGES


class Combiner(Hop[ChargeBatch]):
    """Applies the messages of `spanfuse.charges`; see `Hop` for the other arguments.

    Args:
        stage: the second stage of the core.
        scopes: its states.
    """

    topic = CHARGES
    measured_as = "combine"
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
        return batch if batch is not None and (batch.charges or batch.resets or batch.orders) else None

    async def _apply(self, batch: ChargeBatch, message: Any) -> None:
        partition, offset, now_ns = message.partition, message.offset, time.time_ns()
        orders = [timely(order, now_ns) for order in batch.orders]
        records: list[Out] = []
        began_s = time.perf_counter()
        try:
            touched = [r.key for r in batch.resets if self._reset(r, now_ns, partition, offset, records)]
            ordered = self.stage.carry_out(orders, lambda scope: self._scopes.load(scope, partition, offset))
            records += told(ordered.decisions, ordered.detections) + audited(ordered.orders)
            outcome = self.stage.process(batch.charges, lambda scope: self._scopes.load(scope, partition, offset))
            records += told(outcome.decisions, outcome.detections)
        except Exception:
            named = (
                *(c.scope for c in batch.charges), *(r.key for r in batch.resets), *(o.scope for o in batch.orders),
            )  # fmt: skip
            await self._failed(self._scopes, named, message)
            return
        self.recorder.step(self.measured_as, began_s)
        await self._applied(self._scopes, (*touched, *ordered.touched, *outcome.touched), message)
        self._counters["redelivered_charges"] += outcome.redelivered
        self._counters.update(outcome.reports)
        for one in ordered.orders:
            self._counters["budget_orders" if one.done else "refused_orders"] += 1
        for found in (ordered, outcome):
            self._count_found(found.decisions, found.detections)
        await self._send(records)
        self.recorder.published(outcome.decisions)
        self.told.combined(message, (ordered, outcome), self.stage.policy.mode)

    def _reset(self, reset: Reset, now_ns: int, partition: int, offset: int, records: list[Out]) -> bool:
        """Whether it has changed a scope: one that nobody knows must not be made by it."""
        if not self._scopes.known(reset.key):
            records += cleared(reset, self.stage.policy.mode)
            return False
        state = self._scopes.load(reset.key, partition, offset)
        if state is None:
            return False
        records += told([self.stage.reset(state, reset.at_ns, reset.actor, now_ns=now_ns)], [])
        return True
