"""The tables of a study's report."""

from __future__ import annotations

from typing import Any

from spanfuse_processor.hosts.tuning.settings import Changes, rule_of, told
from spanfuse_processor.hosts.tuning.study import Study
from spanfuse_processor.page.formats import count, money
from spanfuse_processor.report.parts import Table
from spanfuse_processor.report.words import of

_SCORED = (">Runaways stopped", ">Good stopped", ">Too early", ">Useless calls let through")
_ALL = (">Sessions stopped", ">Calls saved", ">Money saved")


def changes_table(study: Study) -> Table:
    """What should be set otherwise."""
    rows = []
    for rule, setting, value in study.recommended:
        was = getattr(rule_of(study.trials.policy, rule), setting)
        rows.append([f"{rule}.{setting}", str(was), str(value), _said(study, rule, setting)])
    return Table(
        "What should be set otherwise", ["Setting", ">As configured", ">Recommended", "What it is"], rows, code=0
    )


def _said(study: Study, rule: str, setting: str) -> str:
    """The first sentence of a setting's description."""
    field = type(rule_of(study.trials.policy, rule)).model_fields[setting]
    return " ".join((field.description or "").split()).partition(". ")[0].removesuffix(".")


def frontier_table(study: Study) -> Table:
    """The settings on the frontier."""
    heads = [">Runaways stopped", ">Good stopped", ">Too early", ">Useless calls let through", "Settings"]
    rows = [[*_scored(study, changes), settings(changes)] for changes in study.points]
    return Table(
        "The frontier, as a table",
        heads,
        rows,
        "No settings that were tried stop more runaways without one more wrong stop.",
    )


def tools_tables(study: Study) -> list[Table]:
    """Which tools the stopped sessions were at, by rule; nothing without labels."""
    rows = [
        [one["rule"], one["tool"], count(one["runaway"]), count(one["good"]), count(one["either"])]
        for one in study.by_tool()
    ]
    note = "Where good sessions are stopped at one tool only, an exception for it in `policies` does less harm."
    heads = ["Rule", "Tool", ">Runaways stopped", ">Good stopped", ">Either"]
    return [Table("By rule and tool", heads, rows, note, code=0)] if rows else []


def values_table(study: Study) -> Table:
    """What each value of the grid does on its own."""
    labelled, everywhere = bool(study.trials.labels), not study.narrow
    heads = ["Setting", *(_SCORED if labelled else ()), *(_ALL if everywhere else ())]
    rows = []
    for changes in ((), *study.probed):
        trial = study.trials[changes]
        every = [count(trial.stopped), count(trial.saved_calls), money(trial.saved_nano_usd)] if everywhere else []
        rows.append([settings(changes), *(_scored(study, changes) if labelled else ()), *every])
    return Table("What each value does on its own", heads, rows, "All else as configured.", code=0)


def _scored(study: Study, changes: Changes) -> list[str]:
    score = study.trials.score(changes)
    return [
        of(score.stopped, score.runaways), of(score.good_stopped, score.good), count(score.early),
        of(score.wasted_calls, score.wasted_unguarded),
    ]  # fmt: skip


def settings(changes: Changes) -> str:
    """Changes in a line."""
    found: dict[str, Any] = told(changes)
    return ", ".join(f"{name}: {value}" for name, value in found.items()) or "as configured"
