"""The second hop: calls in, detections, charges and decisions out."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

from spanfuse_processor.core.budgets import Ordered
from spanfuse_processor.core.pipeline import Outcome, Pipeline
from spanfuse_processor.hosts.stream.hop import Hop
from spanfuse_processor.hosts.stream.ingest import pack
from spanfuse_processor.hosts.stream.outbox import Outbox
from spanfuse_processor.hosts.stream.sessions import Sessions, key_of
from spanfuse_processor.hosts.stream.states import Out
from spanfuse_processor.hosts.stream.writeback import WriteBack
from spanfuse_processor.hosts.timely import timely
from spanfuse_schemas import CallBatch, Decision, Detection, Reset
from spanfuse_schemas.topics import AUDIT, CALLS, CONTROL, DETECTIONS, partition_of

Mode = Literal["observe", "enforce"]


class Detector(Hop[CallBatch]):
    """Applies the messages of `spanfuse.calls`; see `Hop` for the other arguments.

    Args:
        pipeline: the first stage of the core.
        sessions: its states.
        partitions: number of partitions of the topic.
    """

    topic = CALLS
    measured_as = "detect"
    record = CallBatch

    def __init__(
        self,
        pipeline: Pipeline,
        sessions: Sessions,
        outbox: Outbox,
        writeback: WriteBack,
        counters: Counter[str],
        *,
        partitions: int,
        present: Callable[[Any], bool],
        fail: Callable[[BaseException], None],
    ) -> None:
        super().__init__(outbox, writeback, counters, present=present, fail=fail)
        self.pipeline = pipeline
        self._sessions = sessions
        self._partitions = partitions

    async def _apply(self, batch: CallBatch, message: Any) -> None:
        began_s = time.perf_counter()
        try:
            known, unknown = self._sorted(batch)
            outcome = self._process(known, message.partition, message.offset)
            records = _cleared(unknown, self.pipeline.policy.mode) + told(outcome.decisions, outcome.detections)
            records += audited(outcome.orders)
        except Exception:
            await self._failed(self._sessions, _named(batch), message)
            return
        self.recorder.step(self.measured_as, began_s, batch.calls)
        await self._applied(self._sessions, outcome.touched, message)
        self._count(outcome)
        await self._send(records)
        self.recorder.published(outcome.decisions)
        await self._hand_on(outcome)
        self._writeback.charge(outcome.charges)
        self.told.applied(message, outcome, self.pipeline.policy.mode)

    def _sorted(self, batch: CallBatch) -> tuple[CallBatch, list[Reset]]:
        """The batch without its resets of sessions that nobody knows, and these: they must not make a session."""
        if not batch.resets:
            return batch, []
        unknown = [r for r in batch.resets if self._is_unknown(*r.key.split(":", 1))]
        known = tuple(r for r in batch.resets if r not in unknown)
        return batch.model_copy(update={"resets": known}), unknown

    def _is_unknown(self, scope: str, name: str = "") -> bool:
        return scope == "session" and not self._sessions.known(name)

    def _process(self, batch: CallBatch, partition: int, offset: int) -> Outcome:
        load, now_ns = self._sessions.load, time.time_ns()
        if batch.orders:
            batch = batch.model_copy(update={"orders": tuple(timely(order, now_ns) for order in batch.orders)})
        return self.pipeline.process(
            batch,
            lambda session: load(session, partition, offset),
            source=f"{CALLS}-{partition}",
            offset=offset,
            lives_here=lambda session: partition_of(session, self._partitions) == partition,
        )

    async def _hand_on(self, outcome: Outcome) -> None:
        """Send what belongs to sessions of other partitions to where they live."""
        if not (outcome.forwarded or outcome.moved):
            return
        away = CallBatch(calls=tuple(outcome.forwarded), moved=tuple(outcome.moved))
        for partition, value in pack(away, self._partitions, self._counters):
            await self._outbox.send(CALLS, value, partition=partition, urgent=True)

    def _count(self, outcome: Outcome) -> None:
        counters = self._counters
        counters.update(outcome.counts())
        self.recorder.counted(outcome)
        counters["redelivered"] += outcome.redelivered
        for one in outcome.orders:
            counters["budget_orders" if one.done else "refused_orders"] += 1
        self._count_found(outcome.decisions, outcome.detections)


def _named(batch: CallBatch) -> list[str]:
    """Sessions that a batch may change."""
    reset = [r.key.removeprefix("session:") for r in batch.resets if r.key.startswith("session:")]
    ordered = [o.scope.removeprefix("session:") for o in batch.orders if o.scope.startswith("session:")]
    aliases = [name for alias in batch.aliases for name in (alias.session, alias.into) if name]
    return [
        *reset,
        *ordered,
        *aliases,
        *(call.session for call in batch.calls),
        *(moved.session for moved in batch.moved),
    ]


def _cleared(unknown: list[Reset], mode: Mode) -> list[Out]:
    return [record for reset in unknown for record in cleared(reset, mode)]


def cleared(reset: Reset, mode: Mode) -> list[Out]:
    """What a reset of something that nobody knows leads to: a block of it that the table has lost may still stand in the
    topic, and a tombstone clears it at any epoch."""
    closed = Decision(
        key=reset.key, state="closed", mode=mode, message="Nothing is known of it.", issued_at_ns=reset.at_ns
    )
    return [(CONTROL, key_of(reset.key), closed.to_json()), (CONTROL, key_of(reset.key), None)]


def told(decisions: list[Decision], detections: list[Detection]) -> list[Out]:
    """What goes out at once, decisions first, since somebody waits for them."""
    records: list[Out] = [(CONTROL, key_of(d.key), d.to_json()) for d in decisions]
    return records + [(DETECTIONS, key_of(d.session or d.scope), d.to_json()) for d in detections]


def audited(orders: list[Ordered]) -> list[Out]:
    """What became of orders about budgets, for those who gave them and for those who look back."""
    return [(AUDIT, key_of(one.order.id), one.audited().to_json()) for one in orders]


async def tell(outbox: Outbox, decision: Decision) -> asyncio.Future[object]:
    """Publish a decision, at once."""
    return await outbox.send(CONTROL, decision.to_json(), key=key_of(decision.key), urgent=True)


async def forget(outbox: Outbox, key: str) -> asyncio.Future[object]:
    """Have Guards forget a key, and compaction too."""
    return await outbox.send(CONTROL, None, key=key_of(key), urgent=True)
