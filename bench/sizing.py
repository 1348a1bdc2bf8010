"""What a fleet takes: bytes of a call in topics, of a session in Kafka, in a worker and in Redis; time to recover.

`python -m bench sizing`, a minute and a half. docs/sizing.md reckons with these figures.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import redis

from bench.report import Figure
from bench.traffic import LENGTH, messages
from spanfuse_processor.hosts.topics import SCOPES_CHANGELOG, SESSIONS_CHANGELOG
from spanfuse_schemas.topics import CALLS, CHARGES, DETECTIONS
from tests.services.choose import start_redis
from tests.services.kafka_broker import LocalKafka
from tests.support.stream import PARTITIONS, WorkerProcess, fresh_topics, read_topic, send, settled, until

HALF = 100_000
"""Calls of each half: sessions are told apart from what a worker takes anyway by the second one."""
LIMIT_S = 170
STOP_S = 20


def run() -> Iterator[Figure]:
    """All figures."""
    kafka, service = LocalKafka(), start_redis()
    try:
        kafka.start()
        with tempfile.TemporaryDirectory() as folder:
            yield from asyncio.run(asyncio.wait_for(_figures(kafka, service.url, Path(folder)), LIMIT_S))
    finally:
        kafka.stop()
        service.stop()


async def _figures(kafka: LocalKafka, url: str, folder: Path) -> list[Figure]:
    await fresh_topics(kafka.brokers)
    store = redis.Redis.from_url(url)
    config = {"service": {"mode": "enforce"}, "extensions": {"readmodel": {"address": f"{url}?tenant=sizing"}}}
    worker = WorkerProcess(folder, kafka.brokers, config)
    worker.start()
    try:
        await until(lambda: worker.ready, "the worker is up")
        bare = _resident(worker)
        made = messages(2 * HALF, PARTITIONS)
        sizes = []
        for _ in range(2):
            before = _worked(worker)
            await send(kafka.brokers, CALLS, list(itertools.islice(made, HALF // 200)))
            await settled(kafka.brokers, 80)
            worked = _worked(worker) - before
            sizes.append((_resident(worker), int(store.info("memory")["used_memory"])))
        gap, recovered = await _replaced(worker)
        states = {topic: await _states(kafka.brokers, topic) for topic in (SESSIONS_CHANGELOG, SCOPES_CHANGELOG)}
        worker.stop(STOP_S)
    finally:
        worker.kill()
    sessions = HALF // LENGTH
    (memory, shown), (memory_then, shown_then) = sizes
    calls = 2 * HALF
    return [
        *(Figure(f"{topic}, a call", _logged(kafka, topic) / calls, "bytes") for topic in (CALLS, CHARGES, DETECTIONS)),
        Figure("changelogs before compaction, a call", sum(_logged(kafka, topic) for topic in states) / calls, "bytes"),
        Figure("state of a session of 50 calls", statistics.mean(states[SESSIONS_CHANGELOG]), "bytes"),
        Figure("state of a scope", statistics.mean(states[SCOPES_CHANGELOG]), "bytes"),
        Figure("a worker without sessions", bare / 1e6, "MB"),
        Figure("a worker's memory, a session", (memory_then - memory) / sessions, "bytes"),
        Figure("Redis, a session of 50 calls", (shown_then - shown) / sessions, "bytes"),
        Figure("calls for a second of a worker's core, read model included", HALF / worked, "calls/s"),
        Figure("stopped in order and started again, to all partitions", gap, "s"),
        Figure("of that, from its start on", recovered, "s"),
    ]  # fmt: skip


async def _replaced(worker: WorkerProcess) -> tuple[float, float]:
    """Seconds from SIGTERM, and from the start of the next process, until that one has recovered everything."""
    began = time.perf_counter()
    worker.stop(STOP_S)
    started = time.perf_counter()
    worker.start()
    await until(lambda: worker.ready, "the worker is up again", every_s=0.02)
    now = time.perf_counter()
    return now - began, now - started


async def _states(brokers: str, topic: str) -> list[int]:
    """Size of each state that is there."""
    stored = {record.key: record.value for record in await read_topic(brokers, topic)}
    return [len(value) for value in stored.values() if value]


def _logged(kafka: LocalKafka, topic: str) -> int:
    """Bytes of a topic on the broker's disk."""
    return sum(file.stat().st_size for file in (kafka.folder / "data").glob(f"{topic}-[0-9]*/*.log"))


def _worked(worker: WorkerProcess) -> float:
    """Time of a core that the process has taken, seconds: what others do on the machine hardly changes it."""
    fields = Path(f"/proc/{worker.child.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(worker: WorkerProcess) -> int:
    """Memory of the process, bytes."""
    status = Path(f"/proc/{worker.child.pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))
