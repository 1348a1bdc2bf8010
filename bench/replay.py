"""A replay of a topic of packed calls on a real broker: calls a second with one process and with two, and beside the worker's.

`python -m bench.replay 1000000` takes that many calls; as a part of `python -m bench` it is fewer, for a minute's time.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from bench.report import Figure
from bench.stream import Commits
from bench.traffic import PACKED, messages
from spanfuse_processor.hosts.replay import cores
from spanfuse_processor.hosts.topics import partitions_of
from spanfuse_schemas.topics import CALLS
from tests.services.choose import start_kafka
from tests.support.stream import PARTITIONS, WorkerProcess, fresh_topics, settings_of, until

COUNT: Final = 200_000
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_MARK: Final = 0.2
"""Share of the calls after which the worker's rate is known."""


class Ran(NamedTuple):
    """One replay, in processes of its own."""

    wall_s: float
    cpu_s: float
    """Of the first process, which is all of them where there is one."""
    peak_mb: float
    """Of all processes together."""
    digest: str
    """Of the report."""
    blocked: str


def run(count: int = COUNT) -> Iterator[Figure]:
    """All figures of the replay."""
    kafka = start_kafka()
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield from _figures(kafka.brokers, Path(folder), count)
    finally:
        kafka.stop()


def _figures(brokers: str, folder: Path, count: int) -> Iterator[Figure]:
    asyncio.run(_prepared(brokers, count))
    before = asyncio.run(_ends(brokers))
    one, again, two = (_replay(brokers, folder, processes) for processes in (1, 1, 2))
    written = sum(asyncio.run(_ends(brokers)).values()) - sum(before.values())
    worker = asyncio.run(_worker(brokers, folder, count))
    versus = "the stream host on the same topic"
    of = f"replay of {count:,} packed calls"
    yield Figure(f"{of}, 1 process", count / one.wall_s, "calls/s", worker, versus)
    yield Figure(f"{of}, by the core's time", count / one.cpu_s, "calls/s", worker, versus, ">= 30,000")
    yield Figure(
        f"{of}, 2 processes of {cores()} cores", count / two.wall_s, "calls/s", count / one.wall_s, "1 process", "2 x"
    )
    yield Figure("its peak of memory, 1 process", one.peak_mb, "MB")
    yield Figure("its peak of memory, 2 processes", two.peak_mb, "MB", one.peak_mb, "1 process")
    yield Figure(
        "other reports of the same (again; 2 processes)", len({one.digest, again.digest, two.digest}) - 1, "", aim="0"
    )
    yield Figure("records produced", written, "", aim="0")


async def _prepared(brokers: str, count: int) -> None:
    await fresh_topics(brokers)
    producer = AIOKafkaProducer(bootstrap_servers=brokers, max_request_size=15 * 1024 * 1024, linger_ms=5)
    await producer.start()
    try:
        for partition, value in messages(count, PARTITIONS):
            await producer.send(CALLS, value, partition=partition)
    finally:
        await producer.stop()


async def _ends(brokers: str) -> dict[TopicPartition, int]:
    """Where all topics end."""
    async with AIOKafkaConsumer(bootstrap_servers=brokers) as consumer:
        counts = await partitions_of(settings_of(brokers), await consumer.topics())
        tps = [TopicPartition(name, p) for name, count in counts.items() for p in range(count)]
        ends: dict[TopicPartition, int] = await consumer.end_offsets(tps)
        return ends


def _replay(brokers: str, folder: Path, processes: int) -> Ran:
    report = folder / "report.json"
    command = [
        sys.executable, "-m", "spanfuse_processor", "replay", "--topic", CALLS, "--brokers", brokers,
        "--processes", str(processes), "--report", str(report),
    ]  # fmt: skip
    used, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    peak = _Peak(child.pid)
    printed, _ = child.communicate()
    wall_s, now = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert child.returncode == 0
    cpu_s = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    digest = hashlib.sha256(report.read_bytes()).hexdigest()
    return Ran(wall_s, cpu_s, peak.ended(), digest, printed.decode().splitlines()[-1])


class _Peak:
    """The most memory that the processes of a session have held at a time, megabytes."""

    def __init__(self, session: int) -> None:
        self._session, self._most, self._end = session, 0.0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def ended(self) -> float:
        self._end.set()
        self._thread.join()
        return self._most

    def _look(self) -> None:
        while not self._end.wait(0.2):
            self._most = max(self._most, sum(self._held()) * _PAGE / 1e6)

    def _held(self) -> Iterator[int]:
        """Pages of each process, those that are shared counted once."""
        for path in Path("/proc").glob("[0-9]*"):
            try:
                of = (path / "stat").read_text().rpartition(") ")[2].split()
                pages = (path / "statm").read_text().split()
            except OSError:
                continue
            if int(of[3]) == self._session:
                yield int(pages[1]) - (int(pages[2]) if path.name != str(self._session) else 0)


async def _worker(brokers: str, folder: Path, count: int) -> float:
    """Calls a second that a worker makes of the same topic."""
    worker = WorkerProcess(folder / "worker", brokers)
    worker.start()
    try:
        async with Commits(brokers) as commits:
            await until(lambda: commits.beyond(0), "the worker has begun", 60, 0.05)
            began, first = time.perf_counter(), await commits.total()
            await until(lambda: commits.beyond(int(count / PACKED * _MARK)), "the worker gets on", 120, 0.05)
            return (await commits.total() - first) * PACKED / (time.perf_counter() - began)
    finally:
        worker.kill()


if __name__ == "__main__":
    print(*run(int(sys.argv[1]) if len(sys.argv) > 1 else COUNT), sep="\n")
