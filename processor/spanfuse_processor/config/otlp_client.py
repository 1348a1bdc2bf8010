"""How an OTLP receiver of others is reached."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from spanfuse_processor.config.section import Section

URL: str = r"^https?://[^\s/]+(/[^\s]*)?$"
"""A base URL, behind which the paths of signals go."""


class OtlpClient(Section):
    """Where OTLP goes to."""

    endpoint: str = Field(default="", pattern=rf"^$|{URL}")
    """Base URL; `/v1/metrics` and the like go behind it over HTTP. Default: what `OTEL_EXPORTER_OTLP_ENDPOINT` says, else this
    machine, at OTLP's own port."""
    protocol: Literal["http/protobuf", "grpc"] = "http/protobuf"
    """Protocol."""
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    """Header → value, sent along, such as `Authorization`. Values are never shown."""
    ca_file: str = ""
    """File of the certificates to trust, PEM. Default: those of the system."""
    timeout_s: float = Field(default=10, gt=0, le=120)
    """How long the receiver may take, tries included, seconds; what it has not taken by then is lost, and counted."""
