"""What a receiver hands on, and what it is told in return."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from spanfuse_processor.otlp.decode import Encoding

MAX_REQUEST_BYTES: Final = 20 * 1024 * 1024
"""Largest request, after decompression: as the Collector's default."""
MAX_REQUESTS: Final = 64
"""Requests under way at once on each protocol; more are told to come back."""
EXPORT_TIMEOUT_S: Final = 30.0
"""How long an export may take until the client is told to come back, seconds."""


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What became of a request that was accepted."""

    rejected_spans: int = 0
    """Spans that were not taken and will never be."""
    message: str = ""
    """Why, for the operator of the client."""

    def response(self) -> ExportTraceServiceResponse:
        """As OTLP says it."""
        response = ExportTraceServiceResponse()
        if self.rejected_spans or self.message:
            response.partial_success.rejected_spans = self.rejected_spans
            response.partial_success.error_message = self.message
        return response


Export = Callable[[bytes, Encoding], Awaitable[ExportResult]]
"""Takes a request as it came, decompressed. May raise DecodeError (the client must not retry) or UnavailableError (it may)."""
