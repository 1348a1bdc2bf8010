"""Fleet: what agents do now, what holds them back, and whether all of it is seen."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders.dashboard import Dashboard

from dashboards.generator import queries as q
from dashboards.generator.board import BREAKERS, DETECTIONS_OF_RULE, SESSIONS_IN_ROW, SESSIONS_OF_AGENT, board
from dashboards.generator.panels import NOTED, Built, Query, Steps, lines, number, rows
from dashboards.generator.shared import delays, hosts
from spanfuse_processor.telemetry.catalogue import (
    CALLS,
    COST,
    COVERAGE,
    DETECTIONS,
    GUARDS,
    OPEN_BREAKERS,
    SESSIONS,
    TOKENS,
)

COVERED: Final[Steps] = ((None, "red"), (0.8, "orange"), (0.95, "green"))
"""The rule `coverage` warns below 0.8."""


def build() -> Dashboard:
    """The dashboard."""
    about = "All agents: calls, spend, what was found, what holds back, and whether it is seen in time."
    sections = (
        ("Now", _now()),
        ("Work", _work()),
        ("Found and stopped", _stops()),
        ("Agents", _agents()),
        ("Hosts", [hosts()]),
    )
    return board("spanfuse-fleet", "spanfuse / Fleet", about, ("agent", "team"), sections)


def _now() -> list[Built]:
    return [
        number(
            "Calls", "Model calls and tool executions counted.", "reqps", q.rate(CALLS, q.AGENT, q.TEAM), decimals=1
        ),
        number(
            "Spend",
            "Money per hour, at the present rate.",
            "currencyUSD",
            q.per_hour(COST, q.AGENT, q.TEAM),
            decimals=2,
        ),
        number(
            "Sessions", "Sessions that are known; see them on the live page.", "short", q.once(SESSIONS), decimals=0
        ),
        number(
            "Blocks in force",
            "Breakers that are open and block; of everybody, whatever is chosen above.",
            "short",
            q.once(OPEN_BREAKERS, 'action="block"'),
            decimals=0,
            steps=NOTED,
            link=BREAKERS,
        ),
        number(
            "Calls refused",
            "Attempts that Guards refused in the time shown.",
            "short",
            q.gained(GUARDS, 'kind="blocked"'),
            decimals=0,
            steps=NOTED,
        ),
        number(
            "Coverage",
            "Of the calls that Guards let through, the share whose spans came. Below 80 % loops are missed.",
            "percentunit",
            q.lowest(COVERAGE),
            decimals=1,
            steps=COVERED,
            empty="no Guard reports",
        ),
    ]


def _work() -> list[Built]:
    calls = q.top(15, q.rate(CALLS, q.AGENT, q.TEAM, by=("agent",)))
    money = q.top(15, q.per_hour(COST, q.AGENT, q.TEAM, by=("agent",)))
    tokens = q.rate(TOKENS, q.AGENT, by=("class",))
    kinds = q.rate(CALLS, q.AGENT, q.TEAM, by=("kind",))
    return [
        lines(
            "Calls by agent",
            "Model calls and tool executions, of the 15 busiest agents.",
            "reqps",
            Query(calls, "{{agent}}"),
            stacked=True,
            link=SESSIONS_OF_AGENT,
        ),
        lines(
            "Spend by agent",
            "Money per hour, of the 15 dearest agents.",
            "currencyUSD",
            Query(money, "{{agent}}"),
            stacked=True,
            link=SESSIONS_OF_AGENT,
        ),
        lines(
            "Tokens by class",
            "Tokens per second; the classes are apart from each other.",
            "short",
            Query(tokens, "{{class}}"),
            stacked=True,
        ),
        lines(
            "Calls by kind",
            "`llm`: model calls, which alone cost; `tool`: tool executions.",
            "reqps",
            Query(kinds, "{{kind}}"),
            stacked=True,
        ),
    ]


def _stops() -> list[Built]:
    found = q.each(DETECTIONS, q.AGENT, by=("rule",))
    answers = q.rate(GUARDS, 'kind=~"calls|blocked|would_block|nudged|denied"', by=("kind",))
    standing = q.once(OPEN_BREAKERS, by=("scope", "action"))
    return [
        lines(
            "Detections by rule",
            "What rules found, in shadow too, per interval.",
            "short",
            Query(found, "{{rule}}"),
            bars=True,
            link=DETECTIONS_OF_RULE,
        ),
        lines(
            "Answers of Guards",
            "`calls` were let through, `blocked` refused; `would_block` would have been in mode `enforce`.",
            "reqps",
            Query(answers, "{{kind}}"),
        ),
        lines(
            "Breakers open",
            "By what they hold back, and how.",
            "short",
            Query(standing, "{{scope}} {{action}}"),
            stacked=True,
            link=BREAKERS,
        ),
        delays(),
    ]


def _agents() -> list[Built]:
    who, by = (q.AGENT, q.TEAM), ("agent",)
    columns = (
        Query(q.gained(CALLS, 'kind="llm"', *who, by=by), "Model calls"),
        Query(q.gained(CALLS, 'kind="tool"', *who, by=by), "Tool executions"),
        Query(q.gained(COST, *who, by=by), "Cost"),
        Query(q.gained(DETECTIONS, q.AGENT, by=by), "Detections"),
        Query(q.gained(DETECTIONS, 'action="block"', q.AGENT, by=by), "Blocks"),
    )
    return [
        rows(
            "Agents",
            "In the time shown. An agent leads to its sessions on the live page.",
            *columns,
            labels=by,
            units={"Cost": "currencyUSD"},
            links={"agent": SESSIONS_IN_ROW},
        ),
    ]
