"""Where reports go: to where the process's spans go, unless it is said otherwise."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple, Protocol
from urllib.parse import unquote
from weakref import WeakSet

Outcome = Literal["taken", "refused", "away"]
"""Of sending: the receiver has it, will never take it, or may take it later."""

DEFAULT_HTTP: Final = "http://127.0.0.1:4318"
"""Where `instrument` sends spans by default."""
OFF: Final = "off"
EXIT_S: Final = 1.5
"""Longest time that all that is sent last may take when the process exits, seconds; OpenTelemetry's 30 are a hang to users."""

log = logging.getLogger("spanfuse")


class Where(NamedTuple):
    """An address, and what is sent along."""

    url: str
    """Of the receiver's logs, or `kafka://…`."""
    headers: Mapping[str, str]


class Transport(Protocol):
    """Sends a report. It may wait, within the time that it is given, and never raises."""

    def send(self, body: bytes, timeout_s: float) -> Outcome:
        """Send an ExportLogsServiceRequest in JSON."""

    def close(self) -> None:
        """Let go of connections."""


class Waiting(Protocol):
    """Whoever waits to know where spans go."""

    def start(self) -> None:
        """It may be known now."""


waiting: Final[WeakSet[Waiting]] = WeakSet()
_spans: Where | None = None
_exit_began_s = float("-inf")


def _nothing_waits(timeout_s: float) -> bool:
    return True


flush_spans: Callable[[float], bool] = _nothing_waits
"""Sends the spans that wait, within so many seconds; `spanfuse.otel` puts its own here."""


def last_moments_s() -> float:
    """Seconds that are left to whoever sends its last as the process exits: spans and reports share `EXIT_S`."""
    global _exit_began_s
    now = time.monotonic()
    if now - _exit_began_s > 2 * EXIT_S:  # Earlier ones were the last of a part of the process, such as a provider.
        _exit_began_s = now
    return max(0.05, _exit_began_s + EXIT_S - now)


def spans_go_to(endpoint: str | None, protocol: str | None, headers: Mapping[str, str] | None) -> None:
    """Note where `instrument` sends spans; its arguments."""
    global _spans
    _spans = _found(endpoint, protocol, headers)
    for one in list(waiting):
        one.start()


def where(asked: str | None) -> Where | None:
    """Where the reports of a Guard go; None: nowhere, as far as is known.

    Args:
        asked: an address of OTLP/HTTP or `kafka://host:9092`; `off`; None: `SPANFUSE_REPORT_URL`, else where `instrument` sends
            spans, else `OTEL_EXPORTER_OTLP_LOGS_ENDPOINT`, else `OTEL_EXPORTER_OTLP_ENDPOINT`.
    """
    said = asked or os.environ.get("SPANFUSE_REPORT_URL")
    if said:
        return None if said == OFF else Where(_logs(said), _headers())
    if _spans is not None:
        return _spans
    of_logs = os.environ.get("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT")
    if of_logs:
        return Where(of_logs, _headers())
    return _found(None, None, None) if os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") else None


def transport(to: Where) -> Transport:
    """What sends reports there.

    Raises:
        ValueError: for an address of another kind.
        ImportError: for Kafka without the extra `kafka`.
    """
    if to.url.startswith("kafka://"):
        from spanfuse.emission.report_kafka import KafkaTransport

        return KafkaTransport(to.url.removeprefix("kafka://").rstrip("/") or None)
    from spanfuse.emission.report_http import HttpTransport

    return HttpTransport(to.url, to.headers)


def _found(endpoint: str | None, protocol: str | None, headers: Mapping[str, str] | None) -> Where | None:
    base = endpoint or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or DEFAULT_HTTP
    spoken = protocol or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
    if spoken == "grpc" and not base.startswith("kafka://"):
        log.info("spans go over gRPC, reports do not: set SPANFUSE_REPORT_URL to the receiver's OTLP/HTTP")
        return None
    return Where(_logs(base), _headers() if headers is None else headers)


def _logs(address: str) -> str:
    """The address of logs, from a base address or from that of spans."""
    base = address.rstrip("/").removesuffix("/v1/traces")
    return base if base.startswith("kafka://") or base.endswith("/v1/logs") else f"{base}/v1/logs"


def _headers() -> dict[str, str]:
    """`OTEL_EXPORTER_OTLP_HEADERS`: `name=value,name=value`, percent-encoded."""
    pairs = (pair.partition("=") for pair in os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(",") if "=" in pair)
    return {unquote(name).strip(): unquote(value).strip() for name, _, value in pairs}
