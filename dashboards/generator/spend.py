"""Spend: where money goes, how sure it is, and what is left of budgets."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders.dashboard import Dashboard

from dashboards.generator import queries as q
from dashboards.generator.board import BUDGETS, SESSIONS_IN_ROW, SESSIONS_OF_AGENT, board
from dashboards.generator.panels import NOTED, Built, Query, Steps, gauges, lines, number, rows
from spanfuse_processor.telemetry.catalogue import (
    BUDGET_LIMIT,
    BUDGET_PERIOD,
    BUDGET_SHARE,
    BUDGET_USED,
    CALLS,
    COST,
    LEDGER_DIFFERENCE,
    LEDGER_REACHABLE,
    TOKENS,
    UNPRICED,
)

_WHO: Final = (q.AGENT, q.TEAM, q.MODEL)
_OF_BUDGET: Final = ("scope", "id", "budget")
_USED_UP: Final[Steps] = ((None, "green"), (0.8, "orange"), (1, "red"))
"""Budgets warn from 80 % on."""
_BURNING: Final[Steps] = ((None, "transparent"), (1, "orange"))
_GUESSED: Final[Steps] = ((None, "green"), (0.05, "orange"), (0.25, "red"))
_APART: Final[Steps] = ((None, "green"), (1, "orange"), (10, "red"))


def build() -> Dashboard:
    """The dashboard."""
    about = "Money by agent, team and model; how much of it is a guess; what is left of budgets and how fast it goes."
    sections = (
        ("Now", _now()),
        ("Where it goes", _where()),
        ("How sure it is", _sure()),
        ("Budgets", _budgets()),
        ("Who", _who()),
    )
    return board("spanfuse-spend", "spanfuse / Spend", about, ("agent", "team", "model"), sections)


def _now() -> list[Built]:
    spent, calls = q.gained(COST, *_WHO), q.gained(CALLS, 'kind="llm"', *_WHO)
    tokens = (q.AGENT, q.MODEL)
    return [
        number("Spent", "In the time shown.", "currencyUSD", spent, decimals=2),
        number("Spend", "Money per hour, at the present rate.", "currencyUSD", q.per_hour(COST, *_WHO), decimals=2),
        number(
            "Cost of a model call", "On average, in the time shown.", "currencyUSD", q.share(spent, calls), decimals=4
        ),
        number(
            "Input from a cache",
            "Share of the input tokens that a provider's cache had, in the time shown.",
            "percentunit",
            q.share(
                q.gained(TOKENS, 'class="cache_read"', *tokens),
                q.gained(TOKENS, 'class=~"input|cache_read|cache_write"', *tokens),
            ),
            decimals=1,
        ),
        number(
            "Guessed",
            "Share of the money that is a guess: the model has no known price.",
            "percentunit",
            q.share(q.gained(COST, 'source=~"fallback|unknown"', *_WHO), spent),
            decimals=1,
            steps=_GUESSED,
        ),
        number(
            "Calls without a price",
            "Their models are listed below; give them a price under `pricing`.",
            "short",
            q.gained(UNPRICED, q.MODEL),
            decimals=0,
            steps=NOTED,
        ),
    ]


def _where() -> list[Built]:
    def by(label: str) -> Query:
        return Query(q.top(15, q.per_hour(COST, *_WHO, by=(label,))), f"{{{{{label}}}}}")

    of_a_call = q.share(q.rate(COST, *_WHO, by=("model",)), q.rate(CALLS, 'kind="llm"', *_WHO, by=("model",)))
    return [
        lines(
            "Spend by agent",
            "Money per hour, of the 15 dearest.",
            "currencyUSD",
            by("agent"),
            stacked=True,
            link=SESSIONS_OF_AGENT,
        ),
        lines("Spend by team", "Money per hour, of the 15 dearest.", "currencyUSD", by("team"), stacked=True),
        lines("Spend by model", "Money per hour, of the 15 dearest.", "currencyUSD", by("model"), stacked=True),
        lines(
            "Cost of a call by model",
            "On average: what rises is sent more context, or answered at more length.",
            "currencyUSD",
            Query(q.top(15, of_a_call), "{{model}}"),
        ),
    ]


def _sure() -> list[Built]:
    tokens = (q.AGENT, q.MODEL)
    return [
        lines(
            "Spend by source of the price",
            "`reported` by the span, `computed` from tokens, `fallback` and `unknown` are guesses.",
            "currencyUSD",
            Query(q.per_hour(COST, *_WHO, by=("source",)), "{{source}}"),
            stacked=True,
        ),
        lines(
            "Tokens by class",
            "Per second; the classes are apart from each other.",
            "short",
            Query(q.rate(TOKENS, *tokens, by=("class",)), "{{class}}"),
            stacked=True,
        ),
        lines(
            "Calls without a price",
            "By model, per interval.",
            "short",
            Query(q.each(UNPRICED, q.MODEL, by=("model",)), "{{model}}"),
            bars=True,
        ),
        lines(
            "Ledger and spans differ",
            "Of strict budgets: what was settled against what spans told, in USD without sign.",
            "currencyUSD",
            Query(q.highest(LEDGER_DIFFERENCE, by=("job",)), "{{job}}"),
            steps=_APART,
        ),
    ]


def _budgets() -> list[Built]:
    used, limit = q.highest(BUDGET_USED, by=_OF_BUDGET), q.highest(BUDGET_LIMIT, by=_OF_BUDGET)
    ratio, name = q.highest(BUDGET_SHARE, by=_OF_BUDGET), "{{scope}}:{{id}} {{budget}}"
    hour = f"max by ({', '.join(_OF_BUDGET)}) (increase({q.series(BUDGET_USED)}[1h]))"
    burn = f"{q.share(hour, limit)} * {q.highest(BUDGET_PERIOD, by=_OF_BUDGET)} / 3600"
    columns = (Query(used, "Used"), Query(limit, "Limit"), Query(ratio, "Share"), Query(burn, "Burn rate"))
    return [
        gauges(
            "Used",
            "Share of each budget that is used, in the period that runs; the 20 most used.",
            "percentunit",
            Query(q.top(20, ratio), name),
            steps=_USED_UP,
            most=1,
            link=BUDGETS,
        ),
        lines(
            "Burn rate",
            "Over an hour: at 1 a budget lasts exactly until its period ends, at 2 half as long.",
            "short",
            Query(q.top(20, burn), name),
            steps=_BURNING,
            link=BUDGETS,
        ),
        rows(
            "Budgets",
            "Of agents, of teams and of all together; those of sessions and users are on the live page.",
            *columns,
            labels=_OF_BUDGET,
            units={"Used": "currencyUSD", "Limit": "currencyUSD", "Share": "percentunit"},
            links={"budget": BUDGETS},
            width=18,
        ),
        number(
            "Ledger",
            "1: the ledger of strict budgets answers; Guards with `ledger=` cannot reserve without it.",
            "bool_yes_no",
            q.lowest(LEDGER_REACHABLE),
            steps=((None, "red"), (1, "green")),
            empty="none",
        ),
    ]


def _who() -> list[Built]:
    by = ("agent", "team", "model")
    columns = (
        Query(q.gained(CALLS, 'kind="llm"', *_WHO, by=by), "Model calls"),
        Query(q.gained(COST, *_WHO, by=by), "Cost"),
    )
    return [
        rows(
            "Agents, teams and models",
            "In the time shown. An agent leads to its sessions on the live page.",
            *columns,
            labels=by,
            units={"Cost": "currencyUSD"},
            links={"agent": SESSIONS_IN_ROW},
        ),
    ]
