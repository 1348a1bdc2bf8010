"""The signals of OTLP, what a receiver hands on of them, and what it is told in return."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from spanfuse_processor.otlp.decode import Encoding

MAX_REQUEST_BYTES: Final = 20 * 1024 * 1024
"""Largest request, after decompression: as the Collector's default."""
MAX_REQUESTS: Final = 64
"""Requests under way at once on each protocol; more are told to come back."""
EXPORT_TIMEOUT_S: Final = 30.0
"""How long an export may take until the client is told to come back, seconds."""
BODY_TIMEOUT_S: Final = 30.0
"""How long a client may take to send its request, seconds."""
RETRY_AFTER_S: Final = 1
"""When a client that is told to come back should do so, seconds."""

SignalName = Literal["traces", "logs", "metrics"]


class Signal(NamedTuple):
    """Where one kind of telemetry is sent to, and how it is answered."""

    path: str
    """Path of OTLP/HTTP."""
    service: str
    """Full name of the gRPC service."""
    response: type[Any]
    """Class of the response."""
    rejected: str
    """Field of its partial success that counts what was not taken."""


_COLLECTOR: Final = "opentelemetry.proto.collector"

SIGNALS: Final[Mapping[SignalName, Signal]] = {
    "traces": Signal("/v1/traces", f"{_COLLECTOR}.trace.v1.TraceService", ExportTraceServiceResponse, "rejected_spans"),
    "logs": Signal("/v1/logs", f"{_COLLECTOR}.logs.v1.LogsService", ExportLogsServiceResponse, "rejected_log_records"),
    "metrics": Signal(
        "/v1/metrics", f"{_COLLECTOR}.metrics.v1.MetricsService", ExportMetricsServiceResponse, "rejected_data_points"
    ),
}
"""What a receiver takes."""


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What became of a request that was accepted."""

    rejected: int = 0
    """Spans, log records or data points that were not taken and will never be."""
    message: str = ""
    """Why, for the operator of the client."""

    def response(self, signal: Signal) -> Any:
        """As OTLP says it."""
        response = signal.response()
        if self.rejected or self.message:
            setattr(response.partial_success, signal.rejected, self.rejected)
            response.partial_success.error_message = self.message
        return response


Export = Callable[[bytes, Encoding], Awaitable[ExportResult]]
"""Takes a request as it came, decompressed. May raise DecodeError (the client must not retry) or UnavailableError (it may)."""
Exports = Mapping[SignalName, Export]
"""Where each signal goes; one that is not listed is not served."""
