"""A receiver of OTLP that keeps what comes, over HTTP and gRPC, on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from spanfuse_processor.config import OtlpReceiver
from spanfuse_processor.otlp.decode import Encoding, decode
from spanfuse_processor.otlp.export import ExportResult
from spanfuse_processor.otlp.receiver import OtlpReceiver as Receiver
from spanfuse_processor.otlp.span import Span

_BOTH = {"protocols": {"http": {"endpoint": "127.0.0.1:0"}, "grpc": {"endpoint": "127.0.0.1:0"}}}


class OtlpSink:
    """What has come."""

    def __init__(self) -> None:
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.spans: list[Span] = []
        self.endpoints: dict[str, str] = {}
        """Protocol → base URL."""

    def latest(self) -> dict[str, Metric]:
        """Name → the metric, of the last export; empty before the first."""
        if not self.metrics:
            return {}
        (of_host,) = self.metrics[-1].resource_metrics
        return {metric.name: metric for scope in of_host.scope_metrics for metric in scope.metrics}

    def resource(self) -> dict[str, str]:
        """What the last export is of."""
        found: Resource = self.metrics[-1].resource_metrics[0].resource
        return {attribute.key: attribute.value.string_value for attribute in found.attributes}

    async def take_metrics(self, data: bytes, _: Encoding) -> ExportResult:
        self.metrics.append(ExportMetricsServiceRequest.FromString(data))
        return ExportResult()

    async def take_spans(self, data: bytes, encoding: Encoding) -> ExportResult:
        self.spans += decode(data, encoding)
        return ExportResult()

    async def _refuse(self, _: bytes, __: Encoding) -> ExportResult:
        raise AssertionError("nobody sends logs")

    async def serve(self, started: threading.Event, stop: asyncio.Event) -> None:
        """Serve until it is told to stop."""
        receiver = Receiver(
            OtlpReceiver.model_validate(_BOTH),
            {"traces": self.take_spans, "metrics": self.take_metrics, "logs": self._refuse},
        )
        await receiver.start()
        ports = {"http/protobuf": receiver.http_port, "grpc": receiver.grpc_port}
        self.endpoints = {protocol: f"http://127.0.0.1:{port}" for protocol, port in ports.items()}
        started.set()
        await stop.wait()
        await receiver.stop(1)


@contextmanager
def otlp_sink() -> Iterator[OtlpSink]:
    """A sink, while it is served."""
    sink, started, stop = OtlpSink(), threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=(sink.serve(started, stop),), daemon=True)
    thread.start()
    try:
        assert started.wait(10), "the sink has not started"
        yield sink
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()
