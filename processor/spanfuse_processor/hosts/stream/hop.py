"""A hop of the stream that holds state: its messages are applied one after the other, each whole or not at all."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from faust.types import TP
from pydantic import ValidationError

from spanfuse_processor.errors import SpanfuseError
from spanfuse_processor.hosts.recorder import Recorder
from spanfuse_processor.hosts.stream.letters import dead_letter
from spanfuse_processor.hosts.stream.outbox import Outbox
from spanfuse_processor.hosts.stream.states import Out, States
from spanfuse_processor.hosts.stream.told import Nobody, Told
from spanfuse_processor.hosts.stream.writeback import WriteBack
from spanfuse_schemas import Decision, Detection
from spanfuse_schemas.record import Record
from spanfuse_schemas.topics import CONTROL

log = logging.getLogger(__name__)

Batch = TypeVar("Batch", bound=Record)


class Hop(ABC, Generic[Batch]):
    """Applies the messages of one topic, which nobody but workers and their tools write.

    Args:
        outbox: sends what a message leads to.
        writeback: stores what it changes.
        present: whether a message belongs to the present generation of the consumer group.
        fail: ends the worker, where going on would lose something.
    """

    topic: ClassVar[str]
    measured_as: ClassVar[str]
    """What it is called where its work is measured."""
    record: type[Batch]
    """What its messages hold."""

    def __init__(
        self,
        outbox: Outbox,
        writeback: WriteBack,
        counters: Counter[str],
        *,
        present: Callable[[Any], bool],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._outbox = outbox
        self._writeback = writeback
        self._counters = counters
        self._present = present
        self._fail = fail
        self._expected: dict[int, int] = {}
        self.told: Told = Nobody()
        """Hears what was applied."""
        self.recorder = Recorder()
        """Measures the work."""

    @abstractmethod
    async def _apply(self, batch: Batch, message: Any) -> None:
        """Apply what a message holds, and send what that leads to. Raises only before anything has changed outside."""

    async def handle(self, message: Any) -> None:
        """Take one message."""
        if self._writeback.full:
            await self._writeback.flush()
        batch = self._parse(message.value)
        async with self._writeback.step:
            if not self._present(message):
                self._counters["stale_messages"] += 1  # its partition has moved on; it is delivered again there
                return
            self._check_order(message)
            if batch is None:
                await self._refuse(message, "foreign", f"no {self.record.__name__}")
            else:
                with self.recorder.traces.work(f"spanfuse.{self.measured_as}", place_of(message)):
                    await self._apply(batch, message)
            self._writeback.applied(TP(self.topic, message.partition), message.offset)

    def forget(self) -> None:
        """Partitions were revoked: what comes next is read from the committed offset."""
        self._expected.clear()

    def _check_order(self, message: Any) -> None:
        """All who write the topic do so without transactions, so its offsets have no gaps: a gap is a loss."""
        expected = self._expected.get(message.partition)
        self._expected[message.partition] = max(message.offset + 1, expected or 0)
        if expected is not None and message.offset > expected:
            error = SpanfuseError(
                f"{self.topic}-{message.partition}: offset {message.offset} came where {expected} was due"
            )
            self._fail(error)
            raise error

    def _parse(self, value: bytes | None) -> Batch | None:
        try:
            batch: Batch = self.record.from_json(value or b"")
        except ValidationError:
            return None
        return batch

    async def _applied(self, states: States[Any], touched: Iterable[str], message: Any) -> None:
        """A message has changed these."""
        await self._send(states.untold())
        for name in touched:
            states.touched(name, message.offset)

    async def _failed(self, states: States[Any], named: Iterable[str], message: Any) -> None:
        """A message may have changed these in part, and is not applied."""
        states.roll_back(set(named), message.partition)
        await self._send(states.untold())
        await self._unapplied(message)

    async def _send(self, records: Iterable[Out]) -> None:
        """Hand them over, in order."""
        for topic, key, value in records:
            await self._outbox.send(topic, value, key=key, urgent=topic == CONTROL)

    def _count_found(self, decisions: Sequence[Decision], detections: Sequence[Detection]) -> None:
        self.recorder.found(decisions, detections)
        self._counters["decisions"] += len(decisions)
        for detection in detections:
            self._counters[f"detections/{detection.rule}"] += 1

    async def _unapplied(self, message: Any) -> None:
        """What nobody foresaw; one message must never stop a partition."""
        self._counters["unexpected_errors"] += 1
        if self._counters["unexpected_errors"] == 1:
            log.exception("%s-%d offset %d cannot be applied", self.topic, message.partition, message.offset)
        await self._refuse(message, "unapplicable", "cannot be applied")

    async def _refuse(self, message: Any, kind: str, reason: str) -> None:
        self.recorder.dead_letter(kind)
        self._counters["dead_letters"] += 1
        await dead_letter(self._outbox, message, reason)


def place_of(message: Any) -> dict[str, str | int]:
    """Where a message stands, as attributes of a span."""
    return {
        "messaging.system": "kafka",
        "messaging.destination.name": message.topic,
        "messaging.destination.partition.id": str(message.partition),
        "messaging.kafka.offset": message.offset,
    }
