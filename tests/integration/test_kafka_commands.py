"""`topics create` and `reset` against a real broker."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from spanfuse_schemas import CallBatch, Decision
from spanfuse_schemas.topics import CALLS, CONTROL, TOPICS, partition_of
from tests.services.kafka_broker import LocalKafka
from tests.support.agents import prompt
from tests.support.hosts import any_port

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def own_kafka() -> Iterator[LocalKafka]:
    """A broker without any topic."""
    broker = LocalKafka()
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def with_topics(own_kafka: LocalKafka) -> LocalKafka:
    ran = spanfuse("topics", "create", "--brokers", own_kafka.brokers, "--format", "json")
    assert (ran.returncode, ran.stderr) == (0, "")
    created = {t["name"]: t["created"] for t in json.loads(ran.stdout)["topics"]}
    assert all(created.values())
    assert {t.name for t in TOPICS} <= set(created)
    return own_kafka


def spanfuse(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "spanfuse_processor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=90)


def test_creating_topics_twice_changes_nothing(with_topics: LocalKafka) -> None:
    ran = spanfuse("topics", "create", "--brokers", with_topics.brokers)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert f"{CALLS}: was there" in ran.stdout.splitlines()


def test_topics_that_differ_are_told_and_left_alone(with_topics: LocalKafka, tmp_path: Path) -> None:
    config = tmp_path / "worker.yaml"
    config.write_text(f'receivers: {{kafka: {{brokers: "{with_topics.brokers}", partitions: 3}}}}\n')
    ran = spanfuse("topics", "create", "--config", str(config))
    assert ran.returncode == 1
    assert f"spanfuse: {CALLS}: 8 partitions instead of 3" in ran.stderr.splitlines()


def test_a_reset_without_a_worker_gives_up_in_time(with_topics: LocalKafka) -> None:
    ran = spanfuse("reset", "session:lost", "--brokers", with_topics.brokers, "--timeout", "1")
    assert (ran.returncode, ran.stdout, len(ran.stderr.splitlines())) == (1, "", 1)
    assert "no worker has closed session:lost" in ran.stderr


def test_a_reset_reaches_the_partition_of_the_session_and_waits_for_its_closing(with_topics: LocalKafka) -> None:
    heard: list[tuple[int, CallBatch]] = []
    listening = threading.Event()
    worker = threading.Thread(target=lambda: asyncio.run(close_one(with_topics.brokers, heard, listening)))
    worker.start()
    assert listening.wait(30)
    ran = spanfuse("reset", "session:run/1", "--brokers", with_topics.brokers, "--format", "json")
    worker.join(30)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout) == {"key": "session:run/1", "state": "closed", "epoch": 7}
    ((partition, batch),) = heard
    assert partition == partition_of("run/1", 8)
    assert batch.resets[0].actor


async def close_one(brokers: str, heard: list[tuple[int, CallBatch]], listening: threading.Event) -> None:
    """A stand-in for a worker: closes the first breaker it is told to reset, after some other decisions."""
    consumer = AIOKafkaConsumer(CALLS, bootstrap_servers=brokers, group_id=None)
    producer = AIOKafkaProducer(bootstrap_servers=brokers)
    async with consumer, producer:
        for partition in consumer.assignment():
            await consumer.position(partition)
        listening.set()
        record = await asyncio.wait_for(consumer.getone(), 60)
        batch = CallBatch.from_json(record.value)
        heard.append((record.partition, batch))
        reset = batch.resets[0]
        closed = Decision(key=reset.key, state="closed", issued_at_ns=reset.at_ns, epoch=7)
        earlier = closed.model_copy(update={"issued_at_ns": reset.at_ns - 1, "epoch": 6})
        other = closed.model_copy(update={"key": "session:other"})
        for value in (b"garbage", None, other.to_json(), earlier.to_json(), closed.to_json()):
            await producer.send_and_wait(CONTROL, value, key=reset.key.encode())


def send_call(brokers: str, session: str) -> None:
    """A call, in the order of its session's partition, so that a reset comes after it."""

    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=brokers)
        await producer.start()
        partition = partition_of(session, len(await producer.partitions_for(CALLS)))
        batch = CallBatch(calls=(prompt("hello", session=session, agent="helper"),))
        await producer.send_and_wait(CALLS, batch.to_json(), partition=partition)
        await producer.stop()

    asyncio.run(run())


def test_a_worker_obeys_a_reset_and_stops_cleanly(with_topics: LocalKafka, tmp_path: Path) -> None:
    config = tmp_path / "worker.yaml"
    content: dict[str, Any] = {"receivers": {"kafka": {"brokers": with_topics.brokers}}}
    any_port(content)
    config.write_text(json.dumps(content))  # JSON is YAML
    command = [sys.executable, "-m", "spanfuse_processor", "worker", "--config", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as worker:
        timer = threading.Timer(90, worker.kill)
        timer.start()
        try:
            assert worker.stderr is not None
            assert worker.stderr.readline().startswith("spanfuse worker is up")
            ran = spanfuse("reset", "session:lost", "--config", str(config))
            assert (ran.returncode, ran.stdout) == (1, "")
            assert "nothing is known of session:lost" in ran.stderr
            send_call(with_topics.brokers, "run-1")
            ran = spanfuse("reset", "session:run-1", "--config", str(config))
            assert (ran.returncode, ran.stderr) == (0, "")
            assert ran.stdout == "session:run-1: closed (epoch 1)\n"
            for _ in range(10):  # what the call charges its agent is on its way for up to a second
                ran = spanfuse("reset", "agent:helper", "--config", str(config))
                if ran.returncode == 0:
                    break
            assert ran.stdout == "agent:helper: closed (epoch 1)\n"
            worker.terminate()
            assert worker.wait(15) == 0
        finally:
            timer.cancel()
            worker.kill()
