"""Budgets over many workers: kill -9, rebalance and resends change no account."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from spanfuse_processor.config import Config
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.hosts.stream.table import Stored
from spanfuse_processor.hosts.topics import SCOPES_CHANGELOG
from spanfuse_schemas import POLICY_KEY, Charge, ChargeBatch, Decision
from spanfuse_schemas.periods import period_of
from spanfuse_schemas.topics import CHARGES, CONTROL, partition_of
from tests.services.kafka_service import KafkaService
from tests.support.agents import SECOND, START_NS
from tests.support.loops import in_loop
from tests.support.stream import (
    PARTITIONS,
    WorkerProcess,
    caught_up,
    committed,
    fresh_topics,
    read_topic,
    send,
    until,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

SETTINGS: dict[str, Any] = {
    "service": {"mode": "enforce"},
    "budgets": {
        "user": {"limit_usd": 0.5},
        "user/daily": {"limit_tokens": 1_000, "period": "daily", "time_zone": "Asia/Kathmandu", "mode": "warn"},
        "team": {"limit_steps": 25_000},
        "global/monthly": {"limit_usd": 1, "period": "monthly", "mode": "warn"},
    },
}
CHARGE_COUNT, PER_MESSAGE, DAYS = 50_000, 40, 2


def made() -> list[Charge]:
    """Charges of 300 users, 3 teams and all together over some days, from a few sources."""
    rnd, offsets = random.Random(5), Counter[str]()
    found = []
    for i in range(CHARGE_COUNT):
        scope = rnd.choice(
            [f"user:u{rnd.randrange(300)}", f"user:u{rnd.randrange(300)}", f"team:t{rnd.randrange(3)}", "global:*"]
        )
        source = f"spanfuse.calls-{rnd.randrange(3)}"
        offsets[source] += 1
        at_ns = START_NS + (i * DAYS * 86_400 // CHARGE_COUNT - rnd.randrange(3_000)) * SECOND
        found.append(
            Charge(
                scope=scope, source=source, offset=offsets[source], cost_nano_usd=rnd.randrange(10_000_000), calls=1,
                input_tokens=rnd.randrange(90), output_tokens=5, at_ns=at_ns, started_ns=at_ns,
            )
        )  # fmt: skip
    return found


def messages(charges: list[Charge]) -> list[tuple[int, bytes]]:
    """As a write-back sends them; every tenth message comes once more."""
    sent = []
    for partition in range(PARTITIONS):
        own = [c for c in charges if partition_of(c.scope, PARTITIONS) == partition]
        for at in range(0, len(own), PER_MESSAGE):
            sent.append((at, partition, ChargeBatch(charges=tuple(own[at : at + PER_MESSAGE])).to_json()))
    ordered = [(partition, value) for _, partition, value in sorted(sent)]
    return ordered + ordered[::10]


def expected(charges: list[Charge]) -> dict[str, dict[tuple[str, int], int]]:
    """Scope → budget and begin of the period → what was spent; of each budget the last two periods."""
    sums: dict[str, Counter[tuple[str, int]]] = {}
    for budget in Config.model_validate(SETTINGS).policy().budgets:
        for c in charges:
            if c.scope.partition(":")[0] == budget.scope:
                amount = {"usd": c.cost_nano_usd, "tokens": c.input_tokens + c.output_tokens, "steps": c.calls}[
                    budget.unit
                ]
                start = period_of(budget.period, budget.time_zone, c.at_ns).start_ns // SECOND
                sums.setdefault(c.scope, Counter())[budget.name, start] += amount
    return {scope: _latest(found) for scope, found in sums.items()}


def _latest(found: Counter[tuple[str, int]]) -> dict[tuple[str, int], int]:
    names = {name for name, _ in found}
    starts = {name: sorted(s for n, s in found if n == name and found[n, s])[-2:] for name in names}
    return {(name, start): found[name, start] for name in names for start in starts[name]}


async def accounts(brokers: str) -> dict[str, dict[tuple[str, int], int]]:
    """The same as the workers have stored it."""
    latest = {r.key.decode(): r.value for r in await read_topic(brokers, SCOPES_CHANGELOG)}
    found: dict[str, dict[tuple[str, int], int]] = {}
    for scope, value in latest.items():
        state = ScopeState.restore(Stored.unpack(value).snapshot)
        assert state.budgets is not None
        sums = found.setdefault(scope, {})
        for slot, fields in state.budgets.sums.items():
            sums.update({(slot[2:], fields[i]): fields[i + 1] for i in range(0, len(fields), 4)})
    return found


async def standing(brokers: str) -> set[str]:
    """Keys that a budget stands against in the end."""
    latest = {r.key.decode(): r.value for r in await read_topic(brokers, CONTROL) if r.key != POLICY_KEY.encode()}
    decisions: list[Decision] = [Decision.from_json(value) for value in latest.values() if value]
    assert all(d.rule.startswith("budget.") for d in decisions)
    return {d.key for d in decisions if d.action == "block"}


@in_loop
async def test_kills_and_rebalances_over_three_workers_change_no_account(kafka: KafkaService, tmp_path: Path) -> None:
    """50,000 charges; two workers come while they are read, one is killed, and comes back."""
    await fresh_topics(kafka.brokers)
    charges = made()
    first, second, third = (WorkerProcess(tmp_path / n, kafka.brokers, dict(SETTINGS)) for n in ("a", "b", "c"))
    workers = (first, second, third)
    first.start()
    load = asyncio.create_task(send(kafka.brokers, CHARGES, messages(charges), pause_s=0.015))
    try:
        await until(lambda: first.ready, "the first worker is up")
        second.start()
        third.start()
        await until(lambda: second.ready and third.ready, "the others are up")
        first.kill()
        first.start()
        before = await committed(kafka.brokers, CHARGES)
        await until(lambda: _beyond(kafka.brokers, before), "the others go on")
        second.kill()
        second.start()
        await load
        await until(lambda: first.ready and second.ready, "all are up again", 40)
        await until(lambda: caught_up(kafka.brokers, CHARGES), "all is added up", 60, 0.3)
        assert [w.stop() for w in workers] == [0, 0, 0]
    finally:
        load.cancel()
        for worker in workers:
            worker.kill()
    wanted = expected(charges)
    assert await accounts(kafka.brokers) == wanted
    limits = {"user": 500_000_000, "team": 25_000}
    spent_up = {s for s, sums in wanted.items() for (name, _), n in sums.items() if n >= limits.get(name, n + 1)}
    assert await standing(kafka.brokers) == spent_up
    assert 0 < len(spent_up) < 303


async def _beyond(brokers: str, mark: int) -> bool:
    return await committed(brokers, CHARGES) > mark
