"""What hosts say of themselves at a look: bounded, and nothing where nothing is known."""

from __future__ import annotations

from typing import Any

from aiokafka import TopicPartition

from spanfuse_processor.config import KafkaSettings
from spanfuse_processor.hosts import observed
from spanfuse_processor.hosts.ledger import Comparison
from spanfuse_processor.hosts.stream.progress import Progress
from spanfuse_processor.hosts.stream.watchdog import Standing, Watchdog
from spanfuse_processor.telemetry import Counters
from spanfuse_processor.telemetry.catalogue import (
    BUDGET_LIMIT,
    BUDGET_PERIOD,
    BUDGET_SHARE,
    BUDGET_USED,
    GUARDS,
    HALF_OPEN,
    LEDGER_DIFFERENCE,
    LEDGER_REACHABLE,
    MAX_SETS,
    OPEN_BREAKERS,
    UNPRICED,
)
from spanfuse_schemas import Decision, Policy
from spanfuse_schemas.budget import Budget

HOUR_NS = 3600 * 10**9


def row(scope: str, used: float, **fields: Any) -> dict[str, Any]:
    """An account as it is listed."""
    return {
        "scope": scope,
        "budget": "each",
        "unit": "usd",
        "spent": int(used * 10**9),
        "limit": 10**9,
        "used": used,
        "period_start_ns": HOUR_NS,
        "period_end_ns": 2 * HOUR_NS,
        **fields,
    }


def test_accounts_are_told_in_dollars_with_the_length_of_their_period() -> None:
    found = observed.budgets([row("agent:a", 0.25), row("global:*", 0.5, period_end_ns=None)])
    assert found[BUDGET_USED] == {("agent", "a", "each"): 0.25, ("global", "*", "each"): 0.5}
    assert found[BUDGET_LIMIT]["agent", "a", "each"] == 1
    assert found[BUDGET_PERIOD] == {("agent", "a", "each"): 3600}


def test_of_budgets_in_tokens_the_share_is_told_alone() -> None:
    found = observed.budgets([row("team:t", 0.25, unit="tokens")])
    assert found[BUDGET_SHARE] == {("team", "t", "each"): 0.25}
    assert not found[BUDGET_USED]


def test_of_more_accounts_than_are_told_apart_the_fullest_are_told() -> None:
    found = observed.budgets([row(f"agent:{n}", n / 1000) for n in range(MAX_SETS + 100)])
    assert len(found[BUDGET_SHARE]) == MAX_SETS
    assert min(found[BUDGET_SHARE].values()) == 0.1


def test_budgets_of_sessions_users_and_traces_are_not_measured() -> None:
    scopes = ("session", "user", "trace", "agent")
    budgets = tuple(Budget(name=f"{scope}/x", scope=scope, limit_usd=1) for scope in scopes)
    kinds, named = observed.budgeted(Policy(budgets=budgets))
    assert (set(kinds), named) == ({"agent"}, [])


def test_models_without_a_price_that_come_late_are_added_up_and_those_told_apart_stay_so() -> None:
    models = {f"m{n}": 1 for n in range(MAX_SETS)}
    before = observed.unpriced(models)[UNPRICED]
    after = observed.unpriced(models | {"late": 1_000_000, "m0": 7})[UNPRICED]
    assert len(before) == MAX_SETS
    assert (after["other",], after["m0",], len(after)) == (1_000_000, 7, MAX_SETS + 1)


def test_breakers_are_told_as_people_see_them() -> None:
    """One whose cooldown is over is half-open, one whose budget's period is over stands no more."""

    def held(key: str, **fields: Any) -> Decision:
        return Decision(key=key, state="open", issued_at_ns=0, **fields)

    standing = [
        held("session:a", action="block"),
        held("session:b", action="nudge"),
        held("agent:c", action="block", expires_at_ns=5),
        held("team:d", action="block", expires_at_ns=5, lapses=True),
    ]
    found = observed.breakers(standing, 10)
    assert found[OPEN_BREAKERS] == {("session", "block"): 1, ("session", "nudge"): 1}
    assert found[HALF_OPEN] == {("agent", "block"): 1}


def test_books_are_told_once_they_were_compared() -> None:
    assert observed.ledger(None) == observed.ledger(Comparison()) == {}
    found = observed.ledger(Comparison(at_ns=1, reachable=True, difference_nano_usd=5 * 10**8))
    assert found == {LEDGER_DIFFERENCE: {(): 0.5}, LEDGER_REACHABLE: {(): 1}}


def test_counts_with_a_second_name_are_told_by_it() -> None:
    found = observed.counted(Counters({"guards/blocked": 3, "late": 2}).as_dict())
    assert found[GUARDS] == {("blocked",): 3}


def test_a_partition_is_idle_while_messages_wait_and_nothing_moves() -> None:
    progress, waiting, done = Progress(90), TopicPartition("t", 0), TopicPartition("t", 1)
    for now_s in (0.0, 30.0):
        assert progress.look({waiting: 5, done: 9}, {waiting: 8, done: 9}, now_s) is None
    assert progress.idle(40.0) == {waiting: 40.0}
    progress.look({waiting: 6, done: 9}, {waiting: 8, done: 9}, 50.0)
    assert progress.idle(50.0) == {waiting: 0.0}
    progress.pause()
    assert progress.idle(60.0) == {}


def test_a_worker_makes_progress_as_long_as_nothing_else_is_known() -> None:
    watchdog = Watchdog(KafkaSettings(), lambda: Standing(True, "m", set(), 0))
    assert watchdog.moving
    assert watchdog.lag() == {}
    tp = TopicPartition("t", 0)
    watchdog._lag = {tp: 3}
    watchdog._progress.look({tp: 5}, {tp: 8}, -1_000.0)
    assert not watchdog.moving
    ((messages, idle_s),) = watchdog.lag().values()
    assert (messages, idle_s > 90) == (3, True)
