"""Detections: what rules found, where, and what came of it."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders.dashboard import Dashboard

from dashboards.generator import queries as q
from dashboards.generator.board import (
    BREAKERS,
    DETECTIONS_IN_ROW,
    DETECTIONS_OF_RULE,
    SESSIONS_IN_ROW,
    SESSIONS_OF_AGENT,
    board,
)
from dashboards.generator.panels import NOTED, Built, Query, lines, number, rows
from spanfuse_processor.telemetry.catalogue import ALERTS, CALLS, DECISIONS, DETECTIONS, FIRING, GUARDS, OPEN_BREAKERS

_WHICH: Final = (q.RULE, q.AGENT)


def build() -> Dashboard:
    """The dashboard."""
    about = "What rules found, by rule and agent; breakers that opened and closed; what Guards made of it; alerts."
    sections = (("Now", _now()), ("Found", _found()), ("Decided", _decided()), ("Which and who", _tables()))
    return board("spanfuse-detections", "spanfuse / Detections", about, ("rule", "agent"), sections)


def _now() -> list[Built]:
    def found(action: str) -> str:
        return q.gained(DETECTIONS, f'action="{action}"', *_WHICH)

    calls = q.gained(CALLS, 'kind="llm"', q.AGENT)
    return [
        number(
            "Blocks",
            "Detections that asked for a block, in the time shown.",
            "short",
            found("block"),
            decimals=0,
            steps=NOTED,
        ),
        number("Nudges", "Detections that asked for a hint to the agent.", "short", found("nudge"), decimals=0),
        number("Warnings", "Detections that told people only.", "short", found("warn"), decimals=0),
        number(
            "In shadow",
            "Detections of rules in mode `shadow`: recorded, not carried out.",
            "short",
            found("shadow"),
            decimals=0,
        ),
        number(
            "Per 1000 model calls",
            "Detections, in the time shown.",
            "short",
            f"1000 * {q.share(q.gained(DETECTIONS, *_WHICH), calls)}",
            decimals=2,
        ),
        number("Alerts", "Alerts of spanfuse that fire now.", "short", q.once(FIRING), decimals=0, steps=NOTED),
    ]


def _found() -> list[Built]:
    def by(label: str) -> Query:
        return Query(q.top(20, q.each(DETECTIONS, *_WHICH, by=(label,))), f"{{{{{label}}}}}")

    return [
        lines("By rule", "Detections per interval.", "short", by("rule"), bars=True, link=DETECTIONS_OF_RULE),
        lines(
            "By agent",
            "Detections per interval, of the 20 agents with most.",
            "short",
            by("agent"),
            bars=True,
            link=SESSIONS_OF_AGENT,
        ),
        lines("By what they ask for", "Detections per interval.", "short", by("action"), bars=True),
        lines(
            "Alerts",
            "Alerts that began to fire, per interval.",
            "short",
            Query(q.each(ALERTS, q.RULE, by=("severity", "rule")), "{{severity}} {{rule}}"),
            bars=True,
        ),
    ]


def _decided() -> list[Built]:
    changes = q.each(DECISIONS, q.RULE, by=("state", "action"))
    opened = q.each(DECISIONS, 'state="open"', q.RULE, by=("rule", "scope"))
    refused = q.rate(GUARDS, 'kind=~"blocked|would_block|nudged|probes|denied"', by=("kind",))
    return [
        lines(
            "Changes of breakers",
            "Per interval: `open` holds back, `half_open` lets probes through, `closed` lets go.",
            "short",
            Query(changes, "{{state}} {{action}}"),
            bars=True,
        ),
        lines(
            "Breakers that opened",
            "By rule and by what they hold back, per interval.",
            "short",
            Query(opened, "{{rule}} {{scope}}"),
            bars=True,
            link=BREAKERS,
        ),
        lines(
            "Breakers open",
            "By what they hold back, and how.",
            "short",
            Query(q.once(OPEN_BREAKERS, by=("scope", "action")), "{{scope}} {{action}}"),
            stacked=True,
            link=BREAKERS,
        ),
        lines(
            "What Guards made of it",
            "Attempts: an agent that tries again is refused again.",
            "reqps",
            Query(refused, "{{kind}}"),
        ),
    ]


def _tables() -> list[Built]:
    links = {"rule": DETECTIONS_IN_ROW, "agent": SESSIONS_IN_ROW}

    def columns(*by: str) -> list[Query]:
        every = Query(q.top(100, q.gained(DETECTIONS, *_WHICH, by=by)), "All")
        return [every, *(_asking(action, by) for action in ("block", "nudge", "warn", "shadow"))]

    return [
        rows(
            "Rules",
            "Detections in the time shown, by what they asked for. A rule leads to what it found.",
            *columns("rule"),
            units={},
            labels=("rule",),
            links=links,
            width=12,
        ),
        rows(
            "Agents and rules",
            "The same by agent; the 100 with most.",
            *columns("agent", "rule"),
            units={},
            labels=("agent", "rule"),
            links=links,
            width=12,
        ),
    ]


def _asking(action: str, by: tuple[str, ...]) -> Query:
    return Query(q.gained(DETECTIONS, f'action="{action}"', *_WHICH, by=by), action.capitalize())
