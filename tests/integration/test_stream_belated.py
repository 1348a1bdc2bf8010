"""Sessions that only the last span of a trace names, over several partitions and workers that are killed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from spanfuse_schemas.topics import partition_of
from tests.services.kafka_service import KafkaService
from tests.support.late import late_run
from tests.support.loops import in_loop
from tests.support.stream import (
    CALLS,
    OTLP_SPANS,
    PARTITIONS,
    WorkerProcess,
    committed,
    fresh_topics,
    send,
    settled,
    totals,
    until,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

RUNS = 120


def exports() -> list[tuple[int, bytes]]:
    """Requests of many runs, mixed; those of one trace stay on one partition, in order."""
    runs = [[(partition_of(f"run {n}", PARTITIONS), data) for data in late_run(n)] for n in range(RUNS)]
    return [run[at] for start in range(0, RUNS, 20) for at in range(len(runs[0])) for run in runs[start : start + 20]]


@in_loop
async def test_kills_and_resends_leave_each_call_counted_once_in_the_session_that_was_named_last(
    kafka: KafkaService, tmp_path: Path
) -> None:
    await fresh_topics(kafka.brokers)
    requests = exports()
    first, second = (WorkerProcess(tmp_path / n, kafka.brokers, {}) for n in ("first", "second"))
    first.start()
    load = asyncio.create_task(send(kafka.brokers, OTLP_SPANS, requests, pause_s=0.02))
    try:
        await until(lambda: first.ready, "the first worker is up")
        second.start()
        await until(lambda: second.ready, "the second worker is up")
        before = await committed(kafka.brokers, CALLS)
        await until(lambda: _beyond(kafka.brokers, before), "the workers make progress")
        first.kill()
        first.start()
        await load
        await settled(kafka.brokers)
        await send(kafka.brokers, OTLP_SPANS, requests)
        await settled(kafka.brokers)
        assert first.stop() == 0
        assert second.stop() == 0
    finally:
        load.cancel()
        first.kill()
        second.kill()
    found = await totals(kafka.brokers)
    counted = {session: calls for session, (calls, _, _) in found.sessions.items() if calls}
    assert counted == {f"late-{n}": 8 for n in range(RUNS // 2)}
    assert found.charges["global:*"][0] == 4 * RUNS


async def _beyond(brokers: str, mark: int) -> bool:
    return await committed(brokers, CALLS) > mark
