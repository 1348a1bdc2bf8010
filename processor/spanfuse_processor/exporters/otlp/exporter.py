"""Sends detections to a receiver of OTLP, on a thread and from a bounded queue: one that is away costs nothing but those."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from pydantic import ValidationError

from spanfuse_processor.config.exporters import OtlpExporter as Settings
from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.exporters.news import Follower, Teller
from spanfuse_processor.exporters.otlp.records import log_of, span_of
from spanfuse_processor.telemetry.otlp import grpc_options, http_options
from spanfuse_schemas import Detection

log = logging.getLogger(__name__)

BATCH: Final = 512
"""Detections sent at once."""
GATHER_S: Final = 1.0
"""How long the first detection waits for others, seconds: a request for each would take the processor from the detection."""
SILENCE_S: Final = 60.0
"""How long is listened for news at a time, seconds."""


class DetectionExporter:
    """Follows a host, and passes on what its rules find.

    Args:
        teller: the host.
        settings: where to.
    """

    def __init__(self, teller: Teller, settings: Settings) -> None:
        self._following, self._settings = Follower(teller), settings
        self._waiting: deque[Detection] = deque()
        self._news = asyncio.Event()
        self._spans: SpanExporter | None = None
        self._logs: LogRecordExporter | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.counts: Counter[str] = Counter(dict.fromkeys(("sent", "failed", "dropped"), 0))
        """Detections that were `sent`; `failed`: the receiver did not take them in time; `dropped` for want of room."""

    async def start(self) -> None:
        """Listen, from this moment on."""
        with suppress(UnavailableError):  # it is tried again
            self._following.listen()
        if "traces" in self._settings.signals:
            self._spans = _span_exporter(self._settings)
        if "logs" in self._settings.signals:
            self._logs = _log_exporter(self._settings)
        self._tasks = [asyncio.create_task(work, name="otlp-export") for work in (self._listen(), self._run())]

    async def stop(self, grace_s: float = 1.0) -> None:
        """Send what waits, as far as that takes no longer than `grace_s` seconds."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._waiting:
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(asyncio.to_thread(self._send, self._taken())), grace_s)
        for exporter in (self._spans, self._logs):
            if exporter is not None:
                await asyncio.to_thread(exporter.shutdown)
        self._tasks, self._spans, self._logs = [], None, None

    @property
    def live(self) -> bool:
        """Whether it goes on."""
        return not any(task.done() for task in self._tasks)

    def status(self) -> dict[str, Any]:
        """What became of detections."""
        return {**self.counts, "waiting": len(self._waiting)}

    async def _listen(self) -> None:
        async for group in self._following.groups(SILENCE_S):
            for one in group:
                if one.event == "detection":
                    with suppress(ValidationError):
                        self._put(Detection.from_json(one.data))

    def _put(self, found: Detection) -> None:
        if len(self._waiting) >= self._settings.queue:
            self._waiting.popleft()
            self.counts["dropped"] += 1
        self._waiting.append(found)
        self._news.set()

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            await asyncio.sleep(GATHER_S)
            self._news.clear()
            while self._waiting:
                await asyncio.to_thread(self._send, self._taken())

    def _taken(self) -> list[Detection]:
        return [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]

    def _send(self, found: Sequence[Detection]) -> None:
        """Send some, on a thread."""
        now_ns = time.time_ns()
        try:
            sent = self._spans is None or self._spans.export([span_of(f) for f in found]) is SpanExportResult.SUCCESS
            if self._logs is not None:
                logged = self._logs.export([log_of(f, now_ns) for f in found])
                sent = sent and logged is LogRecordExportResult.SUCCESS
        except Exception:  # whatever is the matter with the receiver, or its library
            log.debug("detections could not be sent", exc_info=True)
            sent = False
        if not sent and not self.counts["failed"]:
            log.warning(
                "detections cannot be sent to %s; they are counted, this is logged once", self._settings.endpoint
            )
        self.counts["sent" if sent else "failed"] += len(found)


def _span_exporter(settings: Settings) -> SpanExporter:
    if settings.protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter

        return GrpcExporter(**grpc_options(settings))
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(**http_options(settings, "traces"))


def _log_exporter(settings: Settings) -> LogRecordExporter:
    if settings.protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcExporter

        return GrpcExporter(**grpc_options(settings))
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter

    return OTLPLogExporter(**http_options(settings, "logs"))
