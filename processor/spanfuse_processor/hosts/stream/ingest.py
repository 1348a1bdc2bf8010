"""The first hop: OTLP in, calls out, packed by the partition on which their session lives."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final

from faust.types import TP

from spanfuse_processor.errors import DecodeError
from spanfuse_processor.hosts.recorder import Recorder
from spanfuse_processor.hosts.stream.hop import place_of
from spanfuse_processor.hosts.stream.letters import dead_letter
from spanfuse_processor.hosts.stream.offsets import Offsets, Window
from spanfuse_processor.hosts.stream.outbox import Outbox, lost
from spanfuse_processor.otlp.decode import decode, decode_logs, sniff
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_processor.telemetry.traces import Work
from spanfuse_schemas import Alias, Call, CallBatch
from spanfuse_schemas.guard_report import GuardReport
from spanfuse_schemas.topics import CALLS, OTLP_LOGS, partition_of

log = logging.getLogger(__name__)

MAX_MESSAGE_BYTES: Final = 1024 * 1024
"""Size above which a message of `spanfuse.calls` is split: some thousand calls, some 50 ms of detection."""
MAX_CALL_BYTES: Final = 14 * 1024 * 1024
"""Size above which a single call is dropped, since no topic takes it."""
MAX_INFLIGHT_BYTES: Final = 64 * 1024 * 1024
"""Incoming bytes whose calls are not acknowledged; above it, the next message waits."""


class Ingest:
    """Turns the messages of `otlp_spans`, and the content in those of `otlp_logs`, into messages of `spanfuse.calls`.

    Args:
        partitions: number of partitions of `spanfuse.calls`.
        counters: gets `requests`, `spans`, `log_records`, `dead_letters`, `unexpected_errors`, `stale_messages`,
            `oversized_records`.
        present: whether a message belongs to the present generation of the consumer group.
    """

    def __init__(
        self,
        normaliser: Normaliser,
        outbox: Outbox,
        offsets: Offsets,
        partitions: int,
        counters: Counter[str],
        present: Callable[[Any], bool],
    ) -> None:
        self._normaliser = normaliser
        self._outbox = outbox
        self._offsets = offsets
        self._partitions = partitions
        self._counters = counters
        self._present = present
        self._windows: defaultdict[TP, Window] = defaultdict(Window)
        self._inflight = 0
        self._room = asyncio.Event()
        self._room.set()
        self.recorder = Recorder()
        """Measures the work."""

    async def handle(self, message: Any) -> None:
        """Take one message; its offset is committed once all its products are acknowledged."""
        await self._room.wait()
        if not self._present(message):
            self._counters["stale_messages"] += 1  # its partition has moved on meanwhile; it is delivered again there
            return
        size = len(message.value or b"")
        tp = TP(message.topic, message.partition)
        window = self._windows[tp]
        window.begin(message.offset)
        self._inflight += size
        if self._inflight > MAX_INFLIGHT_BYTES:
            self._room.clear()
        with self.recorder.traces.work("spanfuse.ingest", place_of(message)) as work:
            futures = await self._produce(message, work)
        gathered = asyncio.gather(*futures, return_exceptions=True)
        gathered.add_done_callback(lambda done: self._finished(done, tp, window, message.offset, size))

    async def _produce(self, message: Any, work: Work) -> list[asyncio.Future[object]]:
        began_s, own = time.perf_counter(), self._normaliser.counters["own"]
        try:
            batch = self._calls(message)
            packed = list(pack(batch, self._partitions, self._counters))
        except DecodeError as error:
            return [await self._refuse(message, "undecodable", str(error))]
        except Exception as error:  # one message must never stop a partition
            self._counters["unexpected_errors"] += 1
            if self._counters["unexpected_errors"] == 1:
                log.exception("%s-%d offset %d cannot be read", message.topic, message.partition, message.offset)
            return [await self._refuse(message, "unreadable", f"cannot be read: {type(error).__name__}")]
        self.recorder.step("ingest", began_s)
        work.tell(attributes={"spanfuse.calls": len(batch.calls)})
        if not batch.calls and self._normaliser.counters["own"] > own:
            work.drop()
        return [await self._outbox.send(CALLS, value, partition=partition, urgent=True) for partition, value in packed]

    def _calls(self, message: Any) -> CallBatch:
        data = message.value or b""
        received_ns = _received_ns(message)
        if message.topic == OTLP_LOGS:
            records = decode_logs(data, sniff(data))
            batch = self._normaliser.logs(records, received_ns)
            self._counters["log_records"] += len(records)
        else:
            spans = decode(data, sniff(data))
            batch = self._normaliser.batch(spans, received_ns)
            self._counters["spans"] += len(spans)
        self._counters["requests"] += 1
        return batch

    async def _refuse(self, message: Any, kind: str, reason: str) -> asyncio.Future[object]:
        self.recorder.dead_letter(kind)
        self._counters["dead_letters"] += 1
        return await dead_letter(self._outbox, message, reason)

    def _finished(self, done: asyncio.Future[Any], tp: TP, window: Window, offset: int, size: int) -> None:
        self._inflight -= size
        if self._inflight <= MAX_INFLIGHT_BYTES:
            self._room.set()
        if done.cancelled() or any(isinstance(r, BaseException) and lost(r) for r in done.result()):
            return  # the outbox ends the worker; the offset stays uncommitted
        if self._windows.get(tp) is window and (safe := window.finish(offset)) >= 0:
            self._offsets.done(tp, safe)

    def forget(self) -> None:
        """Partitions were revoked: what is not committed is delivered again, here or elsewhere."""
        self._windows.clear()


def _received_ns(message: Any) -> int:
    """The time of the message, not this worker's, as the same bytes must give the same calls again; this worker's where none
    is said, or the clock of whoever wrote it is ahead: no call ends, and no budget's period, in the future."""
    said_ns, now_ns = int((message.timestamp or 0) * 1000) * 1_000_000, time.time_ns()
    return said_ns if 0 < said_ns <= now_ns else now_ns


def pack(batch: CallBatch, partitions: int, counters: Counter[str]) -> Iterator[tuple[int, bytes]]:
    """Pack what a batch holds, in order, into one message per partition; large ones are split.

    Yields:
        Partition and value.
    """
    calls: defaultdict[int, list[Call]] = defaultdict(list)
    for call in batch.calls:
        calls[partition_of(call.session, partitions)].append(call)
    for partition, group in calls.items():
        for value in _split(group, counters):
            yield partition, value
    known: defaultdict[int, list[Alias]] = defaultdict(list)
    for alias in batch.aliases:
        known[partition_of(alias.session, partitions)].append(alias)
    for partition, aliases in known.items():
        yield partition, CallBatch(aliases=tuple(aliases)).to_json()
    told: defaultdict[int, list[GuardReport]] = defaultdict(list)
    for report in batch.reports:
        told[partition_of(report.source, partitions)].append(report)
    for partition, reports in told.items():
        yield partition, CallBatch(reports=tuple(reports)).to_json()
    for moved in batch.moved:
        yield partition_of(moved.session, partitions), CallBatch(moved=(moved,)).to_json()


def _split(calls: list[Call], counters: Counter[str]) -> Iterator[bytes]:
    value = CallBatch(calls=tuple(calls)).to_json()
    if len(value) <= MAX_MESSAGE_BYTES or (len(calls) == 1 and len(value) <= MAX_CALL_BYTES):
        yield value
    elif len(calls) == 1:
        counters["oversized_records"] += 1
    else:
        half = len(calls) // 2
        yield from _split(calls[:half], counters)
        yield from _split(calls[half:], counters)
