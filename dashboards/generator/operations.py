"""Operations: whether spanfuse itself keeps up, what it could not take, and what it needs."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders.dashboard import Dashboard

from dashboards.generator import around
from dashboards.generator import queries as q
from dashboards.generator.board import board
from dashboards.generator.panels import NONE_WANTED, Built, Query, Steps, lines, number
from dashboards.generator.shared import LATE, delays
from spanfuse_processor.telemetry.catalogue import (
    BATCH,
    BY_NAME,
    CALLS,
    DEAD_LETTERS,
    DELAY,
    DELIVERIES,
    FLEET_LAG,
    GUARDS,
    IDLE,
    INGEST,
    LAG,
    READY,
    STATE_BYTES,
    STATE_ENTRIES,
    STEP,
    Instrument,
)

_ALL_UP: Final[Steps] = ((None, "red"), (1, "green"))
_WAITING: Final[Steps] = ((None, "green"), (1_000, "orange"), (10_000, "red"))
_STALLED: Final[Steps] = ((None, "green"), (60, "orange"), (300, "red"))
_TURNED_AWAY: Final = (
    "rejected_spans",
    "refused_requests",
    "oversized_records",
    "dropped_records",
    "unavailable",
    "unapplied_calls",
    "unexpected_errors",
    "dropped_metrics",
)
_TWICE: Final = ("duplicates", "late", "nested", "moved", "redelivered", "stale_messages", "redelivered_charges")


def build() -> Dashboard:
    """The dashboard."""
    about = "spanfuse itself: readiness, lag, delays, what could not be taken, state, the API, processes."
    sections = (
        ("Now", _now()),
        ("Keeping up", _pace()),
        ("Not taken", _lost()),
        ("State", _state()),
        ("API, alerts, read model", around.api()),
        ("Proxy", around.proxy()),
        ("Processes", around.processes()),
    )
    return board("spanfuse-operations", "spanfuse / Operations", about, (), sections)


def _now() -> list[Built]:
    delayed = q.quantile(0.99, DELAY, 'stage="published"')
    return [
        number(
            "Ready",
            "Share of the processes that are ready.",
            "percentunit",
            f"avg ({q.series(READY)})",
            steps=_ALL_UP,
            empty="none",
        ),
        number(
            "Messages that wait",
            "Of the topics that workers read, not yet committed.",
            "short",
            q.total(LAG),
            decimals=0,
            steps=_WAITING,
        ),
        number(
            "Longest stall",
            "Of a partition on which messages wait, since its last progress.",
            "s",
            q.highest(IDLE),
            decimals=0,
            steps=_STALLED,
        ),
        number(
            "Decision within",
            "99 % of decisions are published within this time after the end of the call.",
            "s",
            delayed,
            decimals=2,
            steps=LATE,
            empty="none",
        ),
        number(
            "Dead letters",
            "What could not be decoded or applied, in the time shown.",
            "short",
            q.gained(DEAD_LETTERS),
            decimals=0,
            steps=NONE_WANTED,
        ),
        number(
            "Errors nobody foresaw",
            "In the time shown; the first of each kind is logged.",
            "short",
            q.gained(_counter("unexpected_errors")),
            decimals=0,
            steps=NONE_WANTED,
        ),
    ]


def _pace() -> list[Built]:
    steps = [Query(q.quantile(p, STEP, by=("stage",)), f"p{p * 100:g} {{{{stage}}}}") for p in (0.5, 0.99)]
    busy = q.rate(f"{STEP.prometheus}_sum", by=("instance",))
    return [
        lines(
            "Lag",
            "Messages that workers have not committed; `fleet`: also of partitions that no worker has.",
            "short",
            Query(q.total(LAG, by=("topic",)), "{{topic}}"),
            Query(q.once(FLEET_LAG, by=("topic",)), "fleet {{topic}}"),
            steps=_WAITING,
        ),
        lines(
            "Stalled partitions",
            "Time since the last progress of partitions on which messages wait.",
            "s",
            Query(
                f"{q.highest(IDLE, by=('topic', 'partition'))} > 0 or {q.highest(IDLE, by=('topic',))}",
                "{{topic}} {{partition}}",
            ),
            steps=_STALLED,
        ),
        delays(),
        lines("Work per batch", "To read a request, to apply its calls, to add up what they charge.", "s", *steps),
        lines(
            "Calls counted",
            "Model calls and tool executions, by process.",
            "reqps",
            Query(q.rate(CALLS, by=("instance",)), "{{instance}}"),
            stacked=True,
        ),
        lines(
            "Calls per batch",
            "Calls applied together.",
            "short",
            *(Query(q.quantile(p, BATCH), f"p{p * 100:g}") for p in (0.5, 0.95)),
        ),
        lines(
            "Busy",
            "Share of the time in which a process works on batches; near 1 it is at its limit.",
            "percentunit",
            Query(busy, "{{instance}}"),
            most=1,
        ),
        lines(
            "Requests and spans taken",
            "OTLP requests, spans and log records in them.",
            "reqps",
            *(Query(q.rate(_counter(name)), name) for name in ("requests", "spans", "log_records")),
        ),
    ]


def _lost() -> list[Built]:
    dead = q.each(DEAD_LETTERS, by=("reason",))
    troubles = 'kind=~"errors|unsigned|spans_dropped|reports_lost"'
    return [
        lines(
            "Dead letters",
            "By reason, per interval; they are kept for a while.",
            "short",
            Query(dead, "{{reason}}"),
            bars=True,
        ),
        lines(
            "Not taken",
            "Per interval; what each name means is said on the page of metrics.",
            "short",
            *(Query(q.each(_counter(name)), name) for name in _TURNED_AWAY),
            bars=True,
        ),
        lines(
            "Seen before",
            "What came twice, late, or to another worker; it changes nothing.",
            "short",
            *(Query(q.each(_counter(name)), name) for name in _TWICE),
            bars=True,
        ),
        lines(
            "Spans that made no call, and repairs",
            "By reason: what was no model call or tool, and what was mended on the way.",
            "reqps",
            Query(q.top(15, q.rate(INGEST, by=("kind",))), "{{kind}}"),
        ),
        lines(
            "Troubles of Guards",
            "`errors`: a Guard failed and let the call through; `spans_dropped`: spans that never came.",
            "short",
            Query(q.each(GUARDS, troubles, by=("kind",)), "{{kind}}"),
            bars=True,
        ),
        lines(
            "Exports of detections and alerts",
            "Messages about alerts, by receiver, per interval.",
            "short",
            Query(q.each(DELIVERIES, by=("receiver", "outcome")), "{{receiver}} {{outcome}}"),
            bars=True,
        ),
    ]


def _state() -> list[Built]:
    return [
        lines(
            "States kept",
            "By kind; `live_…` of them are in memory.",
            "short",
            Query(q.total(STATE_ENTRIES, by=("kind",)), "{{kind}}"),
        ),
        lines(
            "Size of what is kept",
            "By kind; of a worker the snapshots in its tables, of `spanfuse up` its file.",
            "bytes",
            Query(q.total(STATE_BYTES, by=("kind",)), "{{kind}}"),
            stacked=True,
        ),
    ]


def _counter(name: str) -> Instrument:
    return BY_NAME[f"spanfuse.{name}"]
