"""The second hop: calls in, detections, charges and decisions out. One message is applied whole, or not at all."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

from faust.types import TP
from pydantic import ValidationError

from spanfuse_processor.core.pipeline import Outcome, Pipeline
from spanfuse_processor.errors import SpanfuseError
from spanfuse_processor.hosts.stream.letters import dead_letter
from spanfuse_processor.hosts.stream.outbox import Outbox
from spanfuse_processor.hosts.stream.sessions import Sessions, key_of
from spanfuse_processor.hosts.stream.writeback import WriteBack
from spanfuse_schemas import CallBatch, Decision, Reset
from spanfuse_schemas.topics import CALLS, CONTROL, DETECTIONS

log = logging.getLogger(__name__)

Mode = Literal["observe", "enforce"]


class Detector:
    """Applies the messages of `spanfuse.calls`.

    Args:
        present: whether a message belongs to the present generation of the consumer group.
        fail: ends the worker, where going on would lose something.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        sessions: Sessions,
        outbox: Outbox,
        writeback: WriteBack,
        counters: Counter[str],
        *,
        present: Callable[[Any], bool],
        fail: Callable[[BaseException], None],
    ) -> None:
        self.pipeline = pipeline
        self._sessions = sessions
        self._outbox = outbox
        self._writeback = writeback
        self._counters = counters
        self._present = present
        self._fail = fail
        self._expected: dict[int, int] = {}

    async def handle(self, message: Any) -> None:
        """Take one message of `spanfuse.calls`."""
        if self._writeback.full:
            await self._writeback.flush()
        batch = _parse(message.value)
        async with self._writeback.step:
            if not self._present(message):
                self._counters["stale_messages"] += 1  # its partition has moved on; it is delivered again there
                return
            self._check_order(message)
            if batch is None:
                await self._refuse(message, "no CallBatch")
            else:
                await self._apply(batch, message)
            self._writeback.applied(TP(CALLS, message.partition), message.offset)

    def forget(self) -> None:
        """Partitions were revoked: what comes next is read from the committed offset."""
        self._expected.clear()

    def _check_order(self, message: Any) -> None:
        """Nobody but the worker writes `spanfuse.calls`, without transactions, so its offsets have no gaps: a gap is a loss."""
        expected = self._expected.get(message.partition)
        self._expected[message.partition] = max(message.offset + 1, expected or 0)
        if expected is not None and message.offset > expected:
            error = SpanfuseError(f"{CALLS}-{message.partition}: offset {message.offset} came where {expected} was due")
            self._fail(error)
            raise error

    async def _apply(self, batch: CallBatch, message: Any) -> None:
        try:
            known, unknown = self._sorted(batch)
            outcome = self._process(known, message.partition, message.offset)
            records = _records(outcome, unknown, self.pipeline.policy.mode)
        except Exception:  # one message must never stop a partition
            self._counters["unexpected_errors"] += 1
            if self._counters["unexpected_errors"] == 1:
                log.exception("%s-%d offset %d cannot be applied", CALLS, message.partition, message.offset)
            await self._refuse(message, "cannot be applied")
            return
        for session in outcome.touched:
            self._sessions.touched(session, message.offset)
        self._count(outcome)
        for topic, key, value in records:
            await self._outbox.send(topic, value, key=key, urgent=topic == CONTROL)
        self._writeback.charge(outcome.charges)

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
        load = self._sessions.load
        return self.pipeline.process(
            batch, lambda session: load(session, partition, offset), source=f"{CALLS}-{partition}", offset=offset
        )

    async def _refuse(self, message: Any, reason: str) -> None:
        self._counters["dead_letters"] += 1
        await dead_letter(self._outbox, message, reason)

    def _count(self, outcome: Outcome) -> None:
        counters = self._counters
        counters["calls"] += outcome.counted
        counters["duplicates"] += outcome.duplicates
        counters["late"] += outcome.late
        counters["redelivered"] += outcome.redelivered
        counters["decisions"] += len(outcome.decisions)
        for detection in outcome.detections:
            counters[f"detections/{detection.rule}"] += 1
        counters["cost_nano_usd"] += sum(c.cost_nano_usd for c in outcome.charges if c.scope == "global:*")


def _parse(value: bytes | None) -> CallBatch | None:
    try:
        batch: CallBatch = CallBatch.from_json(value or b"")
    except ValidationError:
        return None
    return batch


def _records(outcome: Outcome, unknown: list[Reset], mode: Mode) -> list[tuple[str, bytes, bytes | None]]:
    """Topic, key and value of what goes out at once, decisions first, since somebody waits for them."""
    records: list[tuple[str, bytes, bytes | None]] = []
    for reset in unknown:
        # A block of a session that the table has lost may still stand in the topic: a tombstone clears it at any epoch.
        closed = Decision(
            key=reset.key, state="closed", mode=mode, message="Nothing is known of it.", issued_at_ns=reset.at_ns
        )
        records += [(CONTROL, key_of(reset.key), closed.to_json()), (CONTROL, key_of(reset.key), None)]
    records += [(CONTROL, key_of(d.key), d.to_json()) for d in outcome.decisions]
    records += [(DETECTIONS, key_of(d.session), d.to_json()) for d in outcome.detections]
    return records


async def tell(outbox: Outbox, decision: Decision) -> asyncio.Future[object]:
    """Publish a decision, at once."""
    return await outbox.send(CONTROL, decision.to_json(), key=key_of(decision.key), urgent=True)


async def forget(outbox: Outbox, key: str) -> asyncio.Future[object]:
    """Have Guards forget a key, and compaction too."""
    return await outbox.send(CONTROL, None, key=key_of(key), urgent=True)
