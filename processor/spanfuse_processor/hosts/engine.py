"""The embedded host without its servers: a request goes through the core and into the store, then the news goes out.

A request is answered once all that it led to is in the store. A large one is applied in parts, so that those who listen are
not kept waiting by it; where one part fails, the sender is told to send it again, and what was applied counts no second time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from spanfuse_processor.config import Config
from spanfuse_processor.errors import DecodeError, UnavailableError
from spanfuse_processor.exporters.hub import Hub
from spanfuse_processor.hosts.applier import Applier, part_of
from spanfuse_processor.hosts.aside import aside
from spanfuse_processor.hosts.operator import Operator
from spanfuse_processor.hosts.reading import normaliser_of, prices_of
from spanfuse_processor.hosts.recorder import Recorder
from spanfuse_processor.hosts.store import Store
from spanfuse_processor.hosts.upkeep import Upkeep
from spanfuse_processor.hosts.views import Views
from spanfuse_processor.hosts.workspace import Workspace
from spanfuse_processor.otlp.decode import Encoding, decode, decode_logs
from spanfuse_processor.otlp.export import ExportResult, SignalName
from spanfuse_processor.telemetry import REJECTED
from spanfuse_schemas import CallBatch

log = logging.getLogger(__name__)

T = TypeVar("T")

PART: Final = 100
"""Calls applied at once, some 10 ms."""
MAX_UNTOLD: Final = 10_000
"""What is kept while the storage does not take it: so many aliases, and calls with what was logged; of more, the newest."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a request holds."""

    items: Counter[str]
    """Its spans, or its log records."""
    batch: CallBatch
    left_out: Counter[str]
    """Spans that made no call, by reason."""

    @property
    def rejected(self) -> int:
        """Spans that could not be taken."""
        return sum(self.left_out[reason] for reason in REJECTED)

    def counts(self) -> dict[str, int]:
        """What is added to the counters for it."""
        reasons = {f"ingest/{reason}": n for reason, n in self.left_out.items()}
        return {"requests": 1, **self.items, "rejected_spans": self.rejected, **reasons}


class Engine:
    """The core with its state, within one event loop.

    Args:
        config: rules and prices.
        store: state; whoever opens it closes it.
        hub: gets every decision and detection once it is stored.
        recorder: measures the work.
    """

    def __init__(self, config: Config, store: Store, hub: Hub, recorder: Recorder | None = None) -> None:
        self.prices = prices_of(config.pricing)
        self.work = Workspace(config, store, hub, recorder)
        self.operator = Operator(self.work)
        self.views = Views(self.work)
        self.upkeep = Upkeep(self.work)
        self._applier = Applier(self.work)
        self._normaliser = normaliser_of(config, self.prices)
        self._turn = asyncio.Lock()
        self._untold = CallBatch()
        """What requests that were sent back say of earlier calls, which they do not when they are read again: whose they are,
        and what was logged for them."""
        self.upkeep.follow_mode()
        self.upkeep.follow_budgets()
        self.upkeep.resume()

    async def ingest(
        self, data: bytes, encoding: Encoding, received_ns: int, signal: SignalName = "traces"
    ) -> ExportResult:
        """Take a request. When this returns, its effects are stored and on their way to those who listen.

        Raises:
            DecodeError: it cannot be used and was counted; sending it again will not help.
            UnavailableError: the storage failed; to be sent again.
        """
        async with self._turn:
            return await _to_its_end(self._taken(data, encoding, received_ns, signal))

    async def _taken(self, data: bytes, encoding: Encoding, received_ns: int, signal: SignalName) -> ExportResult:
        kind = "unreadable"
        try:
            with self.work.recorder.traces.work("spanfuse.ingest") as work:
                read = await self._read_aside(data, encoding, received_ns, signal)
                work.tell(attributes={"spanfuse.spans": read.items.total(), "spanfuse.calls": len(read.batch.calls)})
                if read.left_out["own"] and not read.batch.calls:
                    work.drop()
                kind = "unapplicable"
                return await self._ingest(read, received_ns, signal)
        except UnavailableError as error:
            self._refuse(error)
            raise
        except DecodeError as error:
            self._bury(data, "undecodable", str(error), received_ns)
            raise
        except Exception as error:  # whatever a request holds, the host goes on
            self.work.rolled_back()
            if not self.work.counters["unexpected_errors"]:
                log.exception("a request cannot be applied; such are kept as dead letters")
            self.work.counters.add({"unexpected_errors": 1})
            reason = f"cannot be applied: {type(error).__name__}"
            self._bury(data, kind, reason, received_ns)
            raise DecodeError(reason) from error

    async def _read_aside(self, data: bytes, encoding: Encoding, received_ns: int, signal: SignalName) -> Read:
        began_s = time.perf_counter()
        read = await aside(len(data), self._read, data, encoding, received_ns, signal)
        self.work.recorder.step("ingest", began_s)
        return read

    async def _ingest(self, read: Read, received_ns: int, signal: SignalName) -> ExportResult:
        untold, self._untold = self._untold, CallBatch()
        calls, aliases = (*untold.calls, *read.batch.calls), (*untold.aliases, *read.batch.aliases)
        try:
            for start in range(0, len(calls) - PART, PART):
                self._applier.apply(part_of(calls[start : start + PART]), {}, received_ns)
                await asyncio.sleep(0)
            last = (len(calls) - 1) // PART * PART if calls else 0
            self._applier.apply(part_of(calls[last:], aliases, read.batch.reports), read.counts(), received_ns)
        except UnavailableError:
            logged = calls if signal == "logs" else untold.calls
            self._untold = part_of(logged[-MAX_UNTOLD:], aliases[-MAX_UNTOLD:])
            raise
        return ExportResult(read.rejected, "without a trace or span id, or unreadable" if read.rejected else "")

    def _read(self, data: bytes, encoding: Encoding, received_ns: int, signal: SignalName) -> Read:
        before = Counter(self._normaliser.counters)
        if signal == "logs":
            records = decode_logs(data, encoding)
            items, batch = Counter(log_records=len(records)), self._normaliser.logs(records, received_ns)
        else:
            spans = decode(data, encoding)
            items, batch = Counter(spans=len(spans)), self._normaliser.batch(spans, received_ns)
        return Read(items, batch, self._normaliser.counters - before)

    def _refuse(self, error: UnavailableError) -> None:
        self.work.rolled_back()
        self.work.counters.add({"unavailable": 1})
        if self.work.counters["unavailable"] == 1:
            log.error("%s; requests are sent back until it works again", error)

    def _bury(self, data: bytes, kind: str, reason: str, at_ns: int) -> None:
        self.work.recorder.dead_letter(kind)
        try:
            self.work.store.bury(data, reason, at_ns, {"dead_letters": 1})
        except UnavailableError as error:
            log.warning("a dead letter could not be kept: %s", error)
        self.work.counters.add({"dead_letters": 1})


async def _to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Wait for a request even if its sender has given up meanwhile: the next one must not be read beside it, and what its spans
    say of earlier calls is said once."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # it was seen to where it was raised; nobody else asks
        raise
