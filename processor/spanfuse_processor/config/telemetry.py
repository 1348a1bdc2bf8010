"""What the processor says of itself: metrics, traces of its own work, logs. As in the Collector's `service.telemetry`."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field, model_validator

from spanfuse_processor.config.otlp_client import OtlpClient
from spanfuse_processor.config.section import MaybeEndpoint, Section, listed

WORKER_ENDPOINT: Final = "127.0.0.1:9464"
"""Where a worker serves its metrics by default: loopback only, at the port of OpenTelemetry's Prometheus exporters."""


def _otlp_listed(value: Any) -> Any:
    """For sections in which `otlp` is on where it is listed, with nothing behind it, too."""
    if isinstance(value, dict) and "otlp" in value:
        return value | listed({"otlp": value["otlp"]})
    return value


class MetricsOtlp(OtlpClient):
    """Sends metrics to a Collector, or whatever takes OTLP."""

    interval_s: float = Field(default=60, ge=1, le=3600)
    """How often they are sent, seconds. Default 60, as OpenTelemetry's SDKs do."""


class Metrics(Section):
    """What is measured: docs/metrics.md lists it."""

    endpoint: MaybeEndpoint | None = None
    """Address to serve `/metrics`, `/healthz` and `/readyz` on, HOST:PORT; port 0 takes a free one; `""`: nowhere. It asks for
    no token, and names agents, teams and models. Default: `127.0.0.1:9464` of a worker; nowhere of the others, whose API has
    `/metrics`."""
    otlp: MetricsOtlp | None = None
    """Where they are sent to as well. Default: nowhere."""

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, value: Any) -> Any:
        return _otlp_listed(value)


class Traces(Section):
    """Spans of the processor's own work: a request read, a batch applied, a request to the API. Ingest knows them by their
    scope and takes none of them for a call."""

    otlp: OtlpClient | None = None
    """Where they are sent to. Default: nowhere; then none are made."""
    sample_ratio: float = Field(default=0.01, ge=0, le=1)
    """Share of the traces that is kept. A request to the API that belongs to a sampled trace is always kept. Default 0.01: at
    a thousand requests a second that is ten."""

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, value: Any) -> Any:
        return _otlp_listed(value)


class Logs(Section):
    """What the processor writes on standard error. No line holds what a model was told or said."""

    format: Literal["text", "json"] = "text"
    """`text`: for people; `json`: an object per line, with the ids of the trace at hand."""
    level: Literal["debug", "info", "warning", "error"] = "warning"
    """The least that is written; of libraries, warnings and worse at most."""


class Telemetry(Section):
    """What the processor says of itself."""

    metrics: Metrics = Metrics()
    """Metrics."""
    traces: Traces = Traces()
    """Traces."""
    logs: Logs = Logs()
    """Logs."""
    resource: dict[str, str] = Field(default_factory=dict, max_length=64)
    """Attributes of the resource, such as `deployment.environment.name`, beside `service.name` (`spanfuse`), `service.version`
    and `service.instance.id`, which they replace; `OTEL_RESOURCE_ATTRIBUTES` is read, too."""
