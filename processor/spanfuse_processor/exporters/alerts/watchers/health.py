"""`health.*`: what this service cannot do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from spanfuse_processor.exporters.alerts.model import Severity
from spanfuse_processor.exporters.alerts.signal import Signal
from spanfuse_processor.telemetry import COUNTERS

COUNTED: Final[Mapping[str, Severity]] = {
    "dead_letters": "warning",
    "unexpected_errors": "warning",
    "unavailable": "critical",
    "oversized_records": "warning",
    "untold_decisions": "warning",
    "unapplied_calls": "warning",
}
"""Counter that should not grow → how much it matters."""
KEY: Final = "global:*"


class HealthWatch:
    """What was counted at the last look."""

    def __init__(self) -> None:
        self._last: dict[str, int] | None = None

    def look(self, status: Mapping[str, Any], live: bool, now_ns: int) -> Iterator[Signal]:
        """Compare."""
        counts = {name: int(status.get("counts", {}).get(name, 0)) for name in COUNTED}
        for name, severity in COUNTED.items():
            more = counts[name] - self._last[name] if self._last is not None else 0
            if more > 0:
                yield _signal(name, severity, f"{more} more: {COUNTERS[name]}.", now_ns)
        self._last = counts
        if not live:
            yield _signal("stalled", "critical", "Part of the service stands still; start it anew.", now_ns)
        if status.get("ledger", {}).get("reachable") is False:
            yield _signal("ledger", "critical", "The ledger of strict budgets does not answer.", now_ns)


def _signal(name: str, severity: Severity, message: str, now_ns: int) -> Signal:
    title = f"spanfuse: {name.replace('_', ' ')}"
    return Signal(rule=f"health.{name}", key=KEY, severity=severity, title=title, message=message, at_ns=now_ns)
