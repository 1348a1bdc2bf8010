"""What OpenTelemetry's exporters are given, over HTTP and gRPC."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final

from spanfuse_processor.config.otlp_client import OtlpClient

_LIBRARY: Final = "opentelemetry.exporter.otlp.proto"


def http_options(settings: OtlpClient, signal: str) -> dict[str, Any]:
    """Arguments of an exporter over HTTP. What is not set, the exporter reads from the environment.

    Args:
        signal: `metrics`, `traces` or `logs`.
    """
    logging.getLogger(f"{_LIBRARY}.http").setLevel(logging.CRITICAL)  # a line for each failure
    return {
        "endpoint": f"{settings.endpoint.rstrip('/')}/v1/{signal}" if settings.endpoint else None,
        "headers": {name: value.get_secret_value() for name, value in settings.headers.items()} or None,
        "timeout": settings.timeout_s,
        "certificate_file": settings.ca_file or None,
    }


def grpc_options(settings: OtlpClient) -> dict[str, Any]:
    """Arguments of an exporter over gRPC."""
    logging.getLogger(f"{_LIBRARY}.grpc").setLevel(logging.CRITICAL)
    found: dict[str, Any] = {
        "endpoint": settings.endpoint or None,
        "insecure": settings.endpoint.startswith("http://") if settings.endpoint else None,
        "headers": {name.lower(): value.get_secret_value() for name, value in settings.headers.items()} or None,
        "timeout": settings.timeout_s,
    }
    return found if found["insecure"] or not settings.ca_file else found | {"credentials": _credentials(settings)}


def _credentials(settings: OtlpClient) -> Any:
    import grpc

    return grpc.ssl_channel_credentials(Path(settings.ca_file).read_bytes())
