"""Kill -9, rebalance and resends change nothing: the totals are those of one clean pass of the core."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import pytest

from spanfuse_processor.config import Config
from spanfuse_processor.hosts.reading import prices_of
from spanfuse_processor.otlp.decode import decode
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_schemas import Call, CallBatch, Policy
from spanfuse_schemas.topics import partition_of
from tests.services.kafka_service import KafkaService
from tests.support.agents import prompt
from tests.support.loops import in_loop
from tests.support.recorded import chat_span, request
from tests.support.stream import (
    CALLS,
    OTLP_SPANS,
    PARTITIONS,
    WorkerProcess,
    committed,
    expected,
    fresh_topics,
    send,
    settled,
    totals,
    until,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

SETTINGS = {
    "service": {"mode": "enforce"},
    "budgets": {"session": {"limit_usd": 0.05}},
    # A low share, and a cooldown longer than the traffic: that the breaker opens does not depend on the order of charges.
    "detectors": {"agent.breaker": {"mode": "block", "sessions": 3, "share": 0.05, "window_s": 3600}},
}
SESSIONS = 60


def policy() -> Policy:
    return Config.model_validate(SETTINGS).policy()


def calls(count: int) -> list[Call]:
    """Calls of many sessions, mixed: some repeat themselves, some overspend, most do neither."""
    rnd = random.Random(7)
    made = []
    for i in range(count):
        n = rnd.randrange(SESSIONS)
        text = "Are we there yet?" if n % 5 == 0 else f"Question {i} of {n}: {rnd.random()}"
        cost = 20_000_000 if n % 7 == 0 else 100_000
        call = prompt(text, at=i * 0.01, session=f"session-{n}", agent=f"agent-{n % 3}", cost=cost)
        made.append(call.model_copy(update={"user": f"user-{n % 11}", "team": f"team-{n % 2}"}))
    return made


def packed(found: list[Call], size: int) -> list[tuple[int, bytes]]:
    """As ingest packs them."""
    messages = []
    for i in range(0, len(found), size):
        groups: dict[int, list[Call]] = {}
        for call in found[i : i + size]:
            groups.setdefault(partition_of(call.session, PARTITIONS), []).append(call)
        messages += [(p, CallBatch(calls=tuple(group)).to_json()) for p, group in groups.items()]
    return messages


@in_loop
async def test_a_worker_killed_under_load_loses_and_doubles_nothing(kafka: KafkaService, tmp_path: Path) -> None:
    """Three times kill -9 while messages come in, the last time while it recovers."""
    await fresh_topics(kafka.brokers)
    found = calls(12_000)
    worker = WorkerProcess(tmp_path, kafka.brokers, SETTINGS)
    worker.start()
    load = asyncio.create_task(send(kafka.brokers, CALLS, packed(found, 40), pause_s=0.02))
    try:
        await until(lambda: worker.ready, "the worker is up")
        for last in (False, False, True):
            if not last:
                before = await committed(kafka.brokers, CALLS)
                await until(lambda mark=before: _beyond(kafka.brokers, mark), "the worker makes progress")  # type: ignore[misc]
            worker.kill()
            worker.start()
            if not last:
                await until(lambda: worker.ready, "the worker is up again", 40)
        await load
        await settled(kafka.brokers)
        await until(lambda: worker.ready, "the last one is up, also where the others have done all")
        assert worker.stop() == 0
    finally:
        load.cancel()
        worker.kill()
    wanted = expected([CallBatch(calls=tuple(found))], policy())
    assert wanted.standing == {f"agent:agent-{n}": "agent.breaker" for n in range(3)}
    assert await totals(kafka.brokers) == wanted


async def _beyond(brokers: str, mark: int) -> bool:
    return await committed(brokers, CALLS) > mark


def exports(count: int) -> list[tuple[int, bytes]]:
    """Export requests of agents, (partition, JSON); a session's exports stay on one partition, as those of one process do."""
    rnd = random.Random(11)
    numbers = dict.fromkeys(range(SESSIONS), 0)
    made = []
    for i in range(count):
        partition = i % PARTITIONS
        spans = []
        for _ in range(5):
            n = rnd.randrange(partition, SESSIONS, PARTITIONS)
            numbers[n] += 1
            text = "Are we there yet?" if n % 5 == 0 else f"Question {i} of {n}: {rnd.random()}"
            spans.append(chat_span(numbers[n], [("user", text)], session=f"s{n:02}", model="gpt-4o"))
        made.append((partition, json.dumps(request(*spans)).encode()))
    return made


def normalised(requests: list[tuple[int, bytes]]) -> list[CallBatch]:
    """What ingest makes of them."""
    normaliser = Normaliser(prices_of(Config().pricing))
    return [normaliser.batch(decode(data, "json"), 2**62) for _, data in requests]


@in_loop
async def test_kills_rebalances_and_resends_on_the_whole_road_change_nothing(
    kafka: KafkaService, tmp_path: Path
) -> None:
    """Two workers; one is killed and comes back; then every exporter sends all it has once more."""
    await fresh_topics(kafka.brokers)
    requests = exports(1_000)
    first, second = (WorkerProcess(tmp_path / n, kafka.brokers, dict(SETTINGS)) for n in ("first", "second"))
    first.start()
    load = asyncio.create_task(send(kafka.brokers, OTLP_SPANS, requests, pause_s=0.01))
    try:
        await until(lambda: first.ready, "the first worker is up")
        second.start()
        await until(lambda: second.ready, "the second worker is up")
        first.kill()
        first.start()
        await until(lambda: first.ready, "the first worker is up again", 40)
        await load
        await settled(kafka.brokers)
        once = await totals(kafka.brokers)
        await send(kafka.brokers, OTLP_SPANS, requests)
        await settled(kafka.brokers)
        assert (first.stop(), second.stop()) == (0, 0)
    finally:
        load.cancel()
        first.kill()
        second.kill()
    assert once == expected(normalised(requests), policy())
    assert await totals(kafka.brokers) == once
