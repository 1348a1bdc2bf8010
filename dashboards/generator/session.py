"""Session: what metrics can tell of the sessions of an agent, and the way from there to each of them."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders.dashboard import Dashboard, TextBoxVariable

from dashboards.generator import queries as q
from dashboards.generator.board import (
    API,
    BREAKERS,
    DETECTIONS_OF_RULE,
    SESSIONS_IN_ROW,
    SESSIONS_OF_AGENT,
    board,
)
from dashboards.generator.panels import NOTED, Built, Query, lines, number, prose, rows
from spanfuse_processor.telemetry.catalogue import (
    BY_NAME,
    CALLS,
    COST,
    DECISIONS,
    DETECTIONS,
    OPEN_BREAKERS,
    SESSIONS,
    TOKENS,
)

_TEXT: Final = f"""\
There is no end to sessions, so no metric has one as a label: **this dashboard shows agents, the live page shows sessions.**

- the session whose id stands in *Session* above:
  [what it did, step by step]({API}/ui/session?id=${{session:percentencode}}),
  [why it was or was not stopped]({API}/ui/explain?key=session:${{session:percentencode}})
- sessions [that are stopped]({API}/ui/sessions?state=open), [the dearest]({API}/ui/sessions?sort=cost),
  [the longest]({API}/ui/sessions?sort=calls), [those with most detections]({API}/ui/sessions?sort=detections),
  [of the last hour]({API}/ui/sessions?since=1h)
- of an agent: a click on its line or row below

*API* above is the address of the live page as your browser reaches it.
On the command line: `spanfuse sessions ID`, `spanfuse explain session:ID`.
"""


def build() -> Dashboard:
    """The dashboard."""
    about = "From an agent to its sessions: metrics have no session, the live page has."
    session = (
        TextBoxVariable("session")
        .label("Session")
        .description("Id of a session, for the links below")
        .default_value("")
    )
    sections = (
        ("Where sessions are", [prose("Sessions are on the live page", _TEXT, height=7), *_now()]),
        ("Agents", _agents()),
    )
    return board("spanfuse-session", "spanfuse / Session", about, ("agent",), sections, extra=(session,))


def _now() -> list[Built]:
    cost, calls = q.gained(COST, q.AGENT), q.gained(CALLS, 'kind="llm"', q.AGENT)
    expired = BY_NAME["spanfuse.expired_sessions"]
    return [
        number("Sessions", "Sessions that are known.", "short", q.once(SESSIONS), decimals=0),
        number(
            "Sessions that are stopped",
            "Breakers of sessions that are open and block.",
            "short",
            q.once(OPEN_BREAKERS, 'action="block"', 'scope="session"'),
            decimals=0,
            steps=NOTED,
            link=BREAKERS,
        ),
        number(
            "Stopped",
            "Breakers of sessions that opened with a block, in the time shown.",
            "short",
            q.gained(DECISIONS, 'action="block"', 'state="open"', 'scope="session"'),
            decimals=0,
            steps=NOTED,
        ),
        number(
            "Forgotten",
            "Sessions forgotten because they were idle, in the time shown.",
            "short",
            q.gained(expired),
            decimals=0,
        ),
        number("Model calls", "Of the agents chosen, in the time shown.", "short", calls, decimals=0),
        number("Cost", "Of the agents chosen, in the time shown.", "currencyUSD", cost, decimals=2),
    ]


def _agents() -> list[Built]:
    by = ("agent",)
    found = q.each(DETECTIONS, q.AGENT, by=("agent", "rule"))
    per_call = q.share(
        q.rate(TOKENS, 'class=~"input|cache_read|cache_write"', q.AGENT, by=by),
        q.rate(CALLS, 'kind="llm"', q.AGENT, by=by),
    )
    columns = (
        Query(q.gained(CALLS, 'kind="llm"', q.AGENT, by=by), "Model calls"),
        Query(q.gained(CALLS, 'kind="tool"', q.AGENT, by=by), "Tool executions"),
        Query(q.gained(COST, q.AGENT, by=by), "Cost"),
        Query(q.gained(DETECTIONS, q.AGENT, by=by), "Detections"),
    )
    return [
        lines(
            "Calls",
            "Model calls and tool executions. A line leads to the agent's sessions.",
            "reqps",
            Query(q.top(15, q.rate(CALLS, q.AGENT, by=("agent", "kind"))), "{{agent}} {{kind}}"),
            link=SESSIONS_OF_AGENT,
        ),
        lines(
            "Detections",
            "Per interval. A bar leads to what the rule found.",
            "short",
            Query(q.top(15, found), "{{agent}} {{rule}}"),
            bars=True,
            link=DETECTIONS_OF_RULE,
        ),
        lines(
            "Spend",
            "Money per hour.",
            "currencyUSD",
            Query(q.top(15, q.per_hour(COST, q.AGENT, by=by)), "{{agent}}"),
            link=SESSIONS_OF_AGENT,
        ),
        lines(
            "Input of a call",
            "Tokens on average: it grows with the history that an agent sends along.",
            "short",
            Query(q.top(15, per_call), "{{agent}}"),
            link=SESSIONS_OF_AGENT,
        ),
        rows(
            "Agents",
            "In the time shown. An agent leads to its sessions.",
            *columns,
            labels=by,
            units={"Cost": "currencyUSD"},
            links={"agent": SESSIONS_IN_ROW},
        ),
    ]
