"""What hosts say of themselves at a look, as points of instruments: what both kinds of them have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Final

from spanfuse_processor.hosts.board import shown
from spanfuse_processor.hosts.ledger import Comparison
from spanfuse_processor.hosts.ledger_watch import Rows, looked_up
from spanfuse_processor.hosts.outgoing import Outgoing
from spanfuse_processor.telemetry.catalogue import (
    ALERTS,
    BUDGET_LIMIT,
    BUDGET_PERIOD,
    BUDGET_SHARE,
    BUDGET_USED,
    COUNTED,
    DELIVERIES,
    FIRING,
    GUARDS,
    HALF_OPEN,
    INGEST,
    LEDGER_DIFFERENCE,
    LEDGER_REACHABLE,
    MAX_SETS,
    OPEN_BREAKERS,
    TOLD,
    UNPRICED,
    Instrument,
)
from spanfuse_processor.telemetry.labels import OTHER
from spanfuse_processor.telemetry.meters import Observed, Points
from spanfuse_schemas import Decision, Policy

NANO: Final = 1e9
BUDGETED: Final = frozenset({"agent", "team", "global"})
"""Scopes whose budgets are measured: there are not too many of them."""


def counted(counts: Mapping[str, Any]) -> Observed:
    """Counts as `Counters.as_dict` gives them."""
    found: dict[Instrument, Points] = {
        instrument: {(): float(counts[name])} for name, instrument in COUNTED.items() if name in counts
    }
    for family, kinds in ((GUARDS, counts.get("guards", {})), (INGEST, counts.get("ingest", {}))):
        found[family] = {(kind,): float(n) for kind, n in kinds.items()}
    return found


def unpriced(models: Mapping[str, int]) -> Observed:
    """Calls of models without a known price. Those met first have a series of their own, so that each only ever grows."""
    found: Counter[tuple[str, ...]] = Counter()
    for n, (model, calls) in enumerate(dict(models).items()):  # a copy: large requests are read on threads
        found[model if n < MAX_SETS else OTHER,] += calls
    return {UNPRICED: found}


def breakers(decisions: Iterable[Decision], now_ns: int) -> Observed:
    """What stands at present."""
    found: dict[str, Counter[tuple[str, ...]]] = {"open": Counter(), "half_open": Counter(), "closed": Counter()}
    for decision in decisions:
        found[shown(decision, now_ns).state][decision.key.partition(":")[0], decision.action] += 1
    return {OPEN_BREAKERS: found["open"], HALF_OPEN: found["half_open"]}


def budgeted(policy: Policy) -> tuple[frozenset[str], list[str]]:
    """Kinds of scopes whose budgets are measured, and of them those that have an account before anything is spent."""
    kinds = BUDGETED & {budget.scope for budget in policy.budgets}
    return kinds, [f"{b.scope}:{b.match}" for b in policy.budgets if b.is_of_one and b.scope in kinds]


async def budgets_of(
    policy: Policy,
    latest: Callable[[Container[str], int], Iterable[str]],
    accounts: Callable[[str], Rows | None],
) -> Observed:
    """The budgets that are measured, of scopes that are named or in memory.

    Args:
        latest: gives those in memory of some kinds, at most so many.
        accounts: gives the accounts of a scope; none if it lives elsewhere.
    """
    kinds, named = budgeted(policy)
    if not kinds:
        return {}
    found = await looked_up([*named, *latest(kinds, MAX_SETS)], accounts)
    return budgets([row for rows in found.values() for row in rows])


def budgets(rows: Rows) -> Observed:
    """Accounts in the periods that run; of more than are told apart, the fullest."""
    found: dict[Any, dict[tuple[str, ...], float]] = {
        one: {} for one in (BUDGET_USED, BUDGET_LIMIT, BUDGET_SHARE, BUDGET_PERIOD)
    }
    for row in sorted(rows, key=lambda row: -row["used"])[:MAX_SETS]:
        kind, _, name = row["scope"].partition(":")
        who = kind, name, row["budget"]
        found[BUDGET_SHARE][who] = row["used"]
        if row["unit"] == "usd":
            found[BUDGET_USED][who], found[BUDGET_LIMIT][who] = row["spent"] / NANO, row["limit"] / NANO
        if row["period_end_ns"] is not None:
            found[BUDGET_PERIOD][who] = (row["period_end_ns"] - row["period_start_ns"]) / NANO
    return found


def ledger(compared: Comparison | None) -> Observed:
    """What the last comparison of the books came to; nothing before the first."""
    if compared is None or not compared.at_ns:
        return {}
    return {
        LEDGER_DIFFERENCE: {(): compared.difference_nano_usd / NANO},
        LEDGER_REACHABLE: {(): float(bool(compared.reachable))},
    }


def told(outgoing: Outgoing | None) -> Observed:
    """What became of alerts, and of detections as telemetry."""
    if outgoing is None:
        return {}
    status, alerts = outgoing.status(), outgoing.alerts
    sent = status.get("otlp", {})
    found: Observed = {TOLD: {(name,): sent[name] for name in TOLD.values if name in sent}}
    if alerts is None:
        return found
    receivers = status["alerts"]["receivers"].items()
    return {
        **found,
        ALERTS: {(rule, severity): n for (rule, severity), n in alerts.begun.items()},
        FIRING: {(): status["alerts"]["firing"]},
        DELIVERIES: {
            (receiver, outcome): n
            for receiver, counts in receivers
            for outcome, n in counts.items()
            if outcome != "waiting"
        },
    }
