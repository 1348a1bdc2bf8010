"""The stream host on a real broker: calls a second, with state durable and recovered after kill -9, beside a naive Faust agent.

`python -m bench.stream` prints one JSON line per figure and then the table; all in all it takes less than two minutes.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from bench import naive
from bench.core import calls
from bench.report import Figure
from spanfuse_processor.hosts.topics import APP_ID
from spanfuse_schemas import Call, CallBatch
from spanfuse_schemas.topics import CALLS, CONTROL, OTLP_SPANS, partition_of
from tests.services.choose import start_kafka
from tests.support.recorded import chat_span, request
from tests.support.stream import PARTITIONS, WorkerProcess, fresh_topics, send, settled, totals, until

SESSIONS = 500
PACKED = 200
COUNT = 160_000
NAIVE_COUNT = 8_000
SPANS = 30_000
PROBES = 150
LIMIT_S = 110
CONFIG = {"service": {"mode": "enforce"}}


def run() -> Iterator[Figure]:
    """All figures of the stream host."""
    kafka = start_kafka()
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield from asyncio.run(asyncio.wait_for(_figures(kafka.brokers, Path(folder)), LIMIT_S))
    finally:
        kafka.stop()


async def _figures(brokers: str, folder: Path) -> list[Figure]:
    found = _load(COUNT)
    baseline = await _naive(brokers, found[:NAIVE_COUNT])
    await fresh_topics(brokers)
    await send(brokers, CALLS, _packed(found))
    worker = WorkerProcess(folder, brokers, CONFIG)
    try:
        rate, wrong, recovered_s = await _throughput(brokers, worker)
        road = await _road(brokers)
        delays = await _delays(brokers)
        worker.stop()
    finally:
        worker.kill()
    return [
        Figure("stream host, calls to durable state", rate, "calls/s", baseline, "a naive Faust agent", ">= 20,000, 10 x"),
        Figure("calls lost or doubled by kill -9 within that run", wrong, "calls", aim="0"),
        Figure("kill -9 to working again, the group's timeout of 10 s included", recovered_s, "s"),
        Figure("otlp_spans (JSON) to durable state, both hops in one worker", road, "spans/s"),
        Figure("export in Kafka to decision in Kafka, p50", statistics.median(delays) * 1e3, "ms", aim="<= 15"),
        Figure("export in Kafka to decision in Kafka, p99", sorted(delays)[int(len(delays) * 0.99)] * 1e3, "ms", aim="<= 100"),
    ]  # fmt: skip


def _load(count: int) -> list[Call]:
    """Agents at work: ten kinds, fifty users, five teams."""
    return [
        call.model_copy(update={"agent": f"agent-{i % 10}", "user": f"user-{i % 50}", "team": f"team-{i % 5}"})
        for i, call in enumerate(calls(count, sessions=SESSIONS))
    ]


def _packed(found: list[Call]) -> Iterator[tuple[int, bytes]]:
    """Messages of so many calls, as ingest packs them."""
    groups: dict[int, list[Call]] = {}
    for call in found:
        partition = partition_of(call.session, PARTITIONS)
        group = groups.setdefault(partition, [])
        group.append(call)
        if len(group) == PACKED:
            yield partition, CallBatch(calls=tuple(groups.pop(partition))).to_json()
    for partition, group in groups.items():
        yield partition, CallBatch(calls=tuple(group)).to_json()


async def _naive(brokers: str, found: list[Call]) -> float:
    """Calls a second of the naive agent."""
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
    await admin.start()
    old = {naive.SOURCE, naive.CHANGELOG} & set(await admin.list_topics())
    if old:
        await admin.delete_topics(sorted(old))
        await asyncio.sleep(1)
    await fresh_topics(brokers)
    await admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (naive.SOURCE, naive.CHANGELOG)])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=brokers, linger_ms=5)
    await producer.start()
    for call in found:
        await producer.send(
            naive.SOURCE, call.to_json(), key=call.session.encode(), partition=partition_of(call.session, PARTITIONS)
        )
    await producer.stop()
    command = [sys.executable, "-m", "bench.naive", brokers, str(PARTITIONS), str(len(found))]
    child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert child.stdout is not None
    try:
        async with asyncio.timeout(40):
            while line := await child.stdout.readline():
                if b'{"calls"' in line:  # behind what the engine's banner does to the cursor
                    done = json.loads(line[line.index(b"{") :])
                    return float(done["calls"] / done["seconds"])
        raise RuntimeError("the naive agent ended early")
    finally:
        child.kill()
        await child.wait()


async def _throughput(brokers: str, worker: WorkerProcess) -> tuple[float, int, float]:
    """Calls a second up to the kill; calls that the final states have too few or too many; seconds to recover."""
    worker.start()
    async with Commits(brokers) as commits:
        marks: list[tuple[float, int]] = []
        while not marks or marks[-1][1] < COUNT * 0.7 // PACKED:
            done = await commits.total()
            if done and (not marks or done > marks[-1][1]):
                marks.append((time.perf_counter(), done))
            await asyncio.sleep(0.2)
        worker.kill()
        killed, before = time.perf_counter(), await commits.total()
        worker.start()
        await until(lambda: commits.beyond(before), "the worker goes on", 60, 0.05)
        recovered_s = time.perf_counter() - killed
    await settled(brokers, 40)
    (start, first), (end, last) = marks[0], marks[-1]
    counted = {session: n for session, (n, _, _) in (await totals(brokers)).sessions.items()}
    wrong = sum(abs(counted.get(f"s{i}", 0) - COUNT // SESSIONS) for i in range(SESSIONS))
    return (last - first) * PACKED / (end - start), wrong, recovered_s


class Commits:
    """Messages of `spanfuse.calls` that the workers have committed: their effects and states are durable."""

    def __init__(self, brokers: str) -> None:
        self._admin = AIOKafkaAdminClient(bootstrap_servers=brokers)

    async def __aenter__(self) -> Commits:
        await self._admin.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._admin.close()

    async def beyond(self, mark: int) -> bool:
        """Whether more than that many are."""
        return await self.total() > mark

    async def total(self) -> int:
        found = await self._admin.list_consumer_group_offsets(APP_ID)
        return sum(o.offset for tp, o in found.items() if tp.topic == CALLS and o.offset > 0)


async def _road(brokers: str) -> float:
    """Spans a second through both hops, from a backlog of exports of 100 spans."""
    per = 100
    made = []
    for n in range(SPANS // per):
        spans = [chat_span(n, [("user", f"Question {n} of {k}")], session=f"r{k:03}") for k in range(per)]
        made.append((n % PARTITIONS, json.dumps(request(*spans)).encode()))
    began = time.perf_counter()
    await send(brokers, OTLP_SPANS, made)
    await settled(brokers, 40)
    return SPANS / (time.perf_counter() - began)


async def _delays(brokers: str) -> list[float]:
    """Seconds from handing an export to Kafka to reading the decision it led to, one agent in a loop at a time."""
    consumer = AIOKafkaConsumer(bootstrap_servers=brokers, group_id=None)
    producer = AIOKafkaProducer(bootstrap_servers=brokers)
    await asyncio.gather(consumer.start(), producer.start())
    try:
        control = TopicPartition(CONTROL, 0)
        consumer.assign([control])
        await consumer.seek_to_end(control)
        delays = []
        for probe in range(PROBES):
            spans = [chat_span(n, [("user", "Are we there yet?")], session=f"{probe:04}p") for n in range(5)]
            body = json.dumps(request(*spans)).encode()
            began = time.perf_counter()
            await producer.send(OTLP_SPANS, body)
            await asyncio.wait_for(_told(consumer, f"session:{probe:04}p"), 5)
            delays.append(time.perf_counter() - began)
            await asyncio.sleep(0.02)
        return delays
    finally:
        await asyncio.gather(consumer.stop(), producer.stop())


async def _told(consumer: AIOKafkaConsumer, key: str) -> None:
    while (await consumer.getone()).key.decode() != key:
        pass


def main() -> None:
    """Print JSON lines, then the table."""
    figures = list(run())
    for figure in figures:
        print(json.dumps(dataclasses.asdict(figure)))
    for figure in figures:
        print(figure)


if __name__ == "__main__":
    main()
