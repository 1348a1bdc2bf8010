"""What the processor counts of itself: one table of names, so that nothing is counted that nobody explains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

DETECTIONS_SCOPE: Final = "spanfuse.detections"
"""Instrumentation scope of the spans that detections leave as; what comes back to a receiver of ours is no call."""

SELF_SCOPE: Final = "spanfuse.processor"
"""Instrumentation scope of all that the processor says of itself: its metrics, and the spans of its own work."""
OWN_SCOPES: Final = frozenset({DETECTIONS_SCOPE, SELF_SCOPE})
"""Scopes of spans that are ours, and no calls of agents."""

COUNTERS: Final[Mapping[str, str]] = {
    "requests": "OTLP requests taken",
    "spans": "spans in them",
    "log_records": "log records in them",
    "dropped_metrics": "OTLP requests with metrics, which are answered and dropped",
    "rejected_spans": "spans that could not be taken: without ids, or unreadable",
    "calls": "calls counted: model calls and tool executions",
    "batches": "groups of calls applied together that came to a charge",
    "duplicates": "calls whose span had been counted before; they change nothing",
    "late": "calls that ended before all that their session remembers; they change nothing",
    "nested": "spans of model calls that another span had told of in an earlier request; they add what it lacked",
    "moved": "traces whose calls turned out to belong to a session that was named later",
    "cost_nano_usd": "cost of the calls counted, nano-dollars",
    "decisions": "changes of breakers",
    "dead_letters": "requests or messages that could not be decoded or applied; they are kept for a while",
    "unexpected_errors": "requests or messages that met an error nobody foresaw; the first is logged",
    "unapplied_calls": "calls of sessions that could not be applied or stored, while the rest of their request was",
    "unavailable": "requests sent back to come again, since the storage or Kafka did not take them",
    "relayed_requests": "OTLP requests that a worker's receiver has handed to Kafka",
    "dropped_records": "log records that a worker's receiver has not handed to Kafka: neither content of a span nor reports",
    "refused_requests": "OTLP requests that a worker's receiver has refused: unreadable, or larger than the topic takes",
    "redelivered": "calls that Kafka delivered again; they change nothing",
    "stale_messages": "messages of partitions that had moved to another worker; they are delivered there",
    "oversized_records": "records dropped since Kafka does not take them for their size",
    "expired_sessions": "sessions forgotten because they were idle",
    "unreadable_sessions": "stored sessions of another version; they start afresh",
    "expired_scopes": "agents, traces, teams and models forgotten because nothing was heard of them",
    "unreadable_scopes": "stored ones of another version; they start afresh",
    "unstorable_scopes": "such that could not be stored; they start afresh",
    "budget_orders": "orders about budgets that were carried out",
    "refused_orders": "orders about budgets that hold for nobody of that name, or that came twice",
    "redelivered_charges": "charges that Kafka delivered again; they change nothing",
    "unstorable_sessions": "sessions that could not be stored; they start afresh",
    "untold_decisions": "open decisions that are left out of snapshots, for want of room",
    "dropped_streams": "clients of the decision stream that did not keep up and have to connect again",
}
"""Name → what is counted."""

FAMILIES: Final[Mapping[str, str]] = {
    "detections": "detections, by rule",
    "guards": "what Guards report: `calls` that they let through, `blocked` and `would_block`, each attempt of each agent, "
    "`nudged`, `probes`, tools `denied`, `errors` of their own, `unsigned` records ignored, `spans_dropped` by processes; "
    "`reports`, such that came twice (`reports_again`), and such that are missing between others (`reports_lost`)",
    "ingest": "spans that made no call, by reason; repairs; calls without usage (`usage_estimated`) or a price (`unpriced`); "
    "spans of our own that came back (`own`); "
    "log records with the content of a span (`logs_joined`), and those without use; reports of Guards that are none "
    "(`reports_unreadable`)",
}
"""Name → what is counted, for counters with a second name: `family/name`."""

REJECTED: Final = ("invalid", "failed")
"""Reasons of `ingest` that are the sender's affair: spans without ids, and such as cannot be read."""


class Counters:
    """Counts by name, from `COUNTERS`, or `family/name` with a family from `FAMILIES`."""

    def __init__(self, initial: Mapping[str, int] | None = None) -> None:
        self._values = Counter(initial or {})

    def add(self, changes: Mapping[str, int]) -> None:
        """Add to several."""
        self._values.update(changes)

    def __getitem__(self, name: str) -> int:
        return self._values[name]

    def as_dict(self) -> dict[str, Any]:
        """All of them, families as a dict of their own; those not counted yet are 0."""
        found: dict[str, Any] = {name: self._values[name] for name in COUNTERS}
        for family in FAMILIES:
            prefix = f"{family}/"
            found[family] = {k.removeprefix(prefix): n for k, n in sorted(self._values.items()) if k.startswith(prefix)}
        return found
