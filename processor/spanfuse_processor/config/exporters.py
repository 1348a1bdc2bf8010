"""Where outcomes go, beside the API."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from spanfuse_processor.config.alerts import Alerts
from spanfuse_processor.config.otlp_client import URL, OtlpClient
from spanfuse_processor.config.section import Section, listed


class OtlpExporter(OtlpClient):
    """Sends each detection as a log record and as a span of the trace in which it was made, so that it stands beside it in
    Tempo, Jaeger, Phoenix or Langfuse."""

    endpoint: str = Field(default="http://127.0.0.1:4328", pattern=URL)
    """Base URL, as `OTEL_EXPORTER_OTLP_ENDPOINT`; `/v1/traces` and `/v1/logs` go behind it over HTTP."""
    signals: tuple[Literal["traces", "logs"], ...] = ("traces", "logs")
    """What is sent. Langfuse and Phoenix take traces only."""
    queue: int = Field(default=4_096, ge=1, le=1_000_000)
    """Detections that wait; of more the oldest are dropped, and counted."""

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.signals:
            raise ValueError("signals: traces, logs, or both")
        return self


class Exporters(Section):
    """The exporters that are listed are on."""

    alerts: Alerts | None = None
    """Tells people."""
    otlp: OtlpExporter | None = None
    """Tells backends of traces and logs."""

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, value: Any) -> Any:
        return listed(value)
