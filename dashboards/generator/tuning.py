"""Tuning: what rules in shadow would do beside what is enforced, before somebody turns them on."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders.dashboard import Dashboard

from dashboards.generator import queries as q
from dashboards.generator.board import API, DETECTIONS_IN_ROW, DETECTIONS_OF_RULE, SESSIONS_IN_ROW, board
from dashboards.generator.panels import NOTED, Built, Query, Steps, lines, number, prose, rows
from spanfuse_processor.telemetry.catalogue import CALLS, DECISIONS, DETECTIONS, GUARDS, INFO

_WHICH: Final = (q.RULE, q.AGENT)
_ENFORCED: Final = 'action=~"block|nudge"'
_SHADOW: Final = 'action="shadow"'
_SHARES: Final[Steps] = ((None, "green"), (0.01, "orange"), (0.05, "red"))
_TEXT: Final = f"""\
Two things keep a block from being carried out: a rule in mode `shadow` (its detections have the action `shadow`, no breaker
opens), and the whole in mode `observe` (breakers open, Guards let calls through and report them as `would_block`).

1. Look below for a rule that would stop agents. Read what it found: [detections]({API}/ui/detections), breakers
   [that are only observed]({API}/ui/breakers?mode=observe).
2. Try it on recorded traffic with `spanfuse replay --config a.yaml --compare b.yaml`, or let `spanfuse tune` look for the
   threshold.
3. Set its mode to `block`, for one agent first, and watch *Let go again* and *Refused* here.
"""


def build() -> Dashboard:
    """The dashboard."""
    about = "Shadow against enforced: what would be stopped if it were turned on, and what is stopped."
    sections = (
        ("How to", [prose("From shadow to block", _TEXT)]),
        ("Now", _now()),
        ("Shadow against enforced", _compared()),
        ("Rules and agents", _tables()),
    )
    return board("spanfuse-tuning", "spanfuse / Tuning", about, ("rule", "agent"), sections)


def _now() -> list[Built]:
    blocked, would = q.gained(GUARDS, 'kind="blocked"'), q.gained(GUARDS, 'kind="would_block"')
    seen = q.gained(GUARDS, 'kind=~"calls|blocked"')
    observing = "count (" + q.series(INFO, 'mode="observe"') + ") or vector(0)"
    return [
        number(
            "Found in shadow",
            "Detections of rules in mode `shadow`, in the time shown.",
            "short",
            q.gained(DETECTIONS, _SHADOW, *_WHICH),
            decimals=0,
        ),
        number(
            "Found and enforced",
            "Detections that asked for a block or a nudge.",
            "short",
            q.gained(DETECTIONS, _ENFORCED, *_WHICH),
            decimals=0,
        ),
        number(
            "Would have been refused",
            "Attempts that blocks in mode `observe` applied to.",
            "short",
            would,
            decimals=0,
            steps=NOTED,
        ),
        number("Refused", "Attempts that Guards refused.", "short", blocked, decimals=0, steps=NOTED),
        number(
            "Share held back",
            "Of all attempts that Guards saw, refused or such that would have been.",
            "percentunit",
            q.share(q.gained(GUARDS, 'kind=~"blocked|would_block"'), seen),
            decimals=2,
            steps=_SHARES,
        ),
        number(
            "Hosts that observe",
            "Processes in mode `observe`: what they decide is not enforced.",
            "short",
            observing,
            decimals=0,
            steps=NOTED,
        ),
    ]


def _compared() -> list[Built]:
    def found(matcher: str) -> Query:
        return Query(q.each(DETECTIONS, matcher, *_WHICH, by=("rule",)), "{{rule}}")

    def changed(state: str) -> str:
        return q.each(DECISIONS, f'state="{state}"', 'action=~"block|allow"', q.RULE)

    attempts = q.rate(GUARDS, 'kind=~"would_block|blocked"', by=("kind",))
    return [
        lines(
            "In shadow",
            "What rules in mode `shadow` found, per interval.",
            "short",
            found(_SHADOW),
            bars=True,
            link=DETECTIONS_OF_RULE,
        ),
        lines(
            "Enforced",
            "What asked for a block or a nudge, per interval.",
            "short",
            found(_ENFORCED),
            bars=True,
            link=DETECTIONS_OF_RULE,
        ),
        lines(
            "Would have been refused, and was",
            "Attempts per second, as Guards report them.",
            "reqps",
            Query(attempts, "{{kind}}"),
        ),
        lines(
            "Let go again",
            "Breakers that opened and that closed, per interval: what closes soon may have opened in error.",
            "short",
            Query(changed("open"), "opened"),
            Query(changed("closed"), "closed"),
        ),
    ]


def _tables() -> list[Built]:
    def column(matcher: str, heading: str, *by: str) -> Query:
        return Query(q.gained(DETECTIONS, matcher, *_WHICH, by=by), heading)

    calls = Query(q.gained(CALLS, 'kind="llm"', q.AGENT, by=("agent",)), "Model calls")
    links = {"rule": DETECTIONS_IN_ROW, "agent": SESSIONS_IN_ROW}
    return [
        rows(
            "Rules",
            "Detections in the time shown.",
            column(_SHADOW, "Shadow", "rule"),
            column('action="block"', "Block", "rule"),
            column('action="nudge"', "Nudge", "rule"),
            column('action="warn"', "Warn", "rule"),
            units={},
            labels=("rule",),
            links=links,
            width=12,
        ),
        rows(
            "Agents",
            "Whom it would hit, and whom it hits: detections in the time shown.",
            calls,
            column(_SHADOW, "Shadow", "agent"),
            column(_ENFORCED, "Enforced", "agent"),
            units={},
            labels=("agent",),
            links=links,
            width=12,
        ),
    ]
