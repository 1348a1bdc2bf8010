"""Telemetry over OTLP. A receiver that is away costs what was for it, and one line in the log; nobody waits for it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from spanfuse_processor.config.otlp_client import OtlpClient
from spanfuse_processor.telemetry.otlp import grpc_options, http_options

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricsData
    from opentelemetry.sdk.trace import ReadableSpan

log = logging.getLogger(__name__)

T = TypeVar("T")


class Outcomes:
    """What became of exports; an outage is told when it begins, and when it is over.

    Args:
        what: is exported.
        settings: where to.
    """

    def __init__(self, what: str, settings: OtlpClient) -> None:
        self._what, self._where = what, settings.endpoint or "what OTEL_EXPORTER_OTLP_ENDPOINT names"
        self._away = False
        self.counts: Counter[str] = Counter(sent=0, failed=0)
        """Exports that were `sent`, and that `failed`."""

    def note(self, sent: bool) -> None:
        """One was made."""
        self.counts["sent" if sent else "failed"] += 1
        if self._away is sent:
            self._away = not sent
            if sent:
                log.warning("%s of spanfuse itself are sent to %s again", self._what, self._where)
            else:
                log.warning("%s of spanfuse itself cannot be sent to %s; such are counted", self._what, self._where)


class MetricsExport:
    """Sends metrics from time to time.

    Args:
        settings: where to.
        interval_s: how often, seconds.
        look: gives them.
    """

    def __init__(self, settings: OtlpClient, interval_s: float, look: Callable[[], Awaitable[MetricsData]]) -> None:
        self._interval_s, self._look = interval_s, look
        self._exporter = _metric_exporter(settings)
        self.outcomes = Outcomes("metrics", settings)

    async def run(self) -> None:
        """Send, until it is cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self.send()

    async def send(self) -> None:
        """Send what is measured now."""
        try:
            data = await self._look()
            sent = await on_thread(lambda: self._exporter.export(data))
            self.outcomes.note(sent.name == "SUCCESS")
        except Exception:  # whatever is the matter with one export, the next is made
            log.debug("metrics could not be sent", exc_info=True)
            self.outcomes.note(False)

    async def close(self, grace_s: float) -> None:
        """Send a last time, for so many seconds at most."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.send(), grace_s)
        await on_thread(self._exporter.shutdown)


class WatchedExporter(SpanExporter):
    """An exporter of spans that counts what becomes of them. It is used on the thread of a `BatchSpanProcessor`.

    Args:
        settings: where to.
    """

    def __init__(self, settings: OtlpClient) -> None:
        self._exporter = _span_exporter(settings)
        self.outcomes = Outcomes("traces", settings)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send some; never raises."""
        try:
            result = self._exporter.export(spans)
        except Exception:  # whatever is the matter with the receiver, or its library
            log.debug("spans could not be sent", exc_info=True)
            result = SpanExportResult.FAILURE
        self.outcomes.note(result is SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        """Let the connection go."""
        self._exporter.shutdown()


async def on_thread(work: Callable[[], T]) -> T:
    """Do blocking work on a thread of its own that the end of the process does not wait for, unlike `asyncio.to_thread`."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, failed = None, None
        try:
            result = work()
        except BaseException as error:
            failed = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell, result, failed)

    threading.Thread(target=run, name="spanfuse-telemetry", daemon=True).start()
    return await done


def _metric_exporter(settings: OtlpClient) -> MetricExporter:
    if settings.protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcExporter

        return GrpcExporter(**grpc_options(settings))
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return OTLPMetricExporter(**http_options(settings, "metrics"))


def _span_exporter(settings: OtlpClient) -> SpanExporter:
    if settings.protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter

        return GrpcExporter(**grpc_options(settings))
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(**http_options(settings, "traces"))
