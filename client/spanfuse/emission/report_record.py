"""A report as an OTLP log event in JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

EVENT: Final = "spanfuse.guard.report"
"""Name of the event."""
PREFIX: Final = "spanfuse.guard."
"""Before each field of `spanfuse_schemas.guard_report.GuardReport`, as the attribute that holds it."""
_INFO: Final = 9
"""Severity number."""


def request_of(report: Mapping[str, Any]) -> bytes:
    """An ExportLogsServiceRequest with one record; what is 0 or empty is left out."""
    at = str(report["until_ns"])
    attributes = {f"{PREFIX}{name}": value for name, value in report.items() if value}
    record = {
        "timeUnixNano": at,
        "observedTimeUnixNano": at,
        "severityNumber": _INFO,
        "eventName": EVENT,
        # Collectors and receivers that are older than the field know it by the attribute.
        "attributes": _pairs({"event.name": EVENT, **attributes}),
    }
    resource = {
        "service.name": os.environ.get("OTEL_SERVICE_NAME") or "unknown_service",
        "service.instance.id": report["source"],
        "process.pid": os.getpid(),
    }
    scope = {"scope": {"name": "spanfuse"}, "logRecords": [record]}
    return json.dumps(
        {"resourceLogs": [{"resource": {"attributes": _pairs(resource)}, "scopeLogs": [scope]}]},
        separators=(",", ":"),
    ).encode()


def _pairs(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(one) for one in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": _pairs(value)}}
    return {"stringValue": str(value)}
