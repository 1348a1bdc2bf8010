"""`spanfuse worker` on a real broker: bad input, idle sessions, resets, signals, outages, security."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import ConsumerRecord

from spanfuse_processor.hosts.stream.app import SESSION_TIMEOUT_S
from spanfuse_processor.hosts.stream.letters import MAX_LETTER_BYTES
from spanfuse_processor.hosts.stream.watchdog import EXPELLED_S
from spanfuse_processor.hosts.topics import create_topics
from spanfuse_schemas import Decision
from spanfuse_schemas.topics import CALLS, CONTROL, DEAD_LETTER, OTLP_SPANS
from tests.services.kafka_broker import LocalKafka
from tests.services.kafka_secure import SecureKafka
from tests.services.kafka_service import KafkaService
from tests.support.loops import in_loop
from tests.support.recorded import chat_span, repeater, request
from tests.support.stream import (
    WorkerProcess,
    caught_up,
    committed,
    fresh_topics,
    read_topic,
    send,
    settings_of,
    settled,
    totals,
    until,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

RECOVERY_S = SESSION_TIMEOUT_S + EXPELLED_S + 70
"""How long the worst outage may echo, seconds: the group gives a worker up that does not get over it, the watchdog ends it, and
on a busy machine another 70 s pass until it has stopped, has been started again and has caught up."""
ENFORCE: dict[str, Any] = {"service": {"mode": "enforce"}}


@pytest.fixture(scope="module")
def mortal_kafka() -> Iterator[LocalKafka]:
    """A broker of these tests' own, which they may kill."""
    broker = LocalKafka()
    broker.start()
    yield broker
    broker.stop()


@asynccontextmanager
async def running(folder: Path, brokers: str, config: dict[str, Any], **kafka: Any) -> AsyncIterator[WorkerProcess]:
    worker = WorkerProcess(folder, brokers, json.loads(json.dumps(config)), **kafka)
    worker.start()
    try:
        await until(lambda: worker.ready, "the worker is up", 40)
        yield worker
    finally:
        worker.kill()


def spans(requests: list[dict[str, Any]]) -> list[tuple[int, bytes]]:
    return [(0, json.dumps(r).encode()) for r in requests]


async def control(brokers: str, key: str, **options: Any) -> list[ConsumerRecord]:
    return [r for r in await read_topic(brokers, CONTROL, **options) if r.key.decode() == key]


async def told(brokers: str, key: str, **options: Any) -> list[str]:
    """States of a key, in order; `forgotten` for a tombstone."""
    records = await control(brokers, key, **options)
    return [Decision.from_json(r.value).state if r.value else "forgotten" for r in records]


@in_loop
async def test_garbage_is_a_dead_letter_and_the_next_good_message_is_handled_within_a_second(
    kafka: KafkaService, tmp_path: Path
) -> None:
    """On both topics; with the bytes as they came, and where they came from in the headers."""
    await fresh_topics(kafka.brokers)
    garbage = [b"\xff\xfe garbage", b"{not json", b'{"resourceSpans": 5}']
    async with running(tmp_path, kafka.brokers, ENFORCE) as worker:
        await send(kafka.brokers, OTLP_SPANS, spans(repeater(3)))
        await send(kafka.brokers, OTLP_SPANS, [(0, data) for data in garbage])
        await send(kafka.brokers, CALLS, [(p, b"no batch") for p in range(4)])
        began = time.time()
        await send(kafka.brokers, OTLP_SPANS, spans(repeater(4)[3:]))
        await settled(kafka.brokers)
        assert worker.stop() == 0
    letters = await read_topic(kafka.brokers, DEAD_LETTER)
    assert sorted(r.value for r in letters) == sorted([*garbage, *[b"no batch"] * 4])
    headers = [dict(r.headers) for r in letters]
    assert {h["topic"] for h in headers} == {OTLP_SPANS.encode(), CALLS.encode()}
    assert all(h["reason"] and h["offset"].isdigit() and h["partition"].isdigit() for h in headers)
    handled = [r for r in await read_topic(kafka.brokers, CALLS) if r.value != b"no batch"]
    assert len(handled) == 4
    assert handled[-1].timestamp / 1000 - began < 1
    assert (await totals(kafka.brokers)).sessions["s"][0] == 4
    assert await told(kafka.brokers, "session:s") == ["open"]


@in_loop
async def test_an_idle_session_is_closed_forgotten_and_begins_anew(kafka: KafkaService, tmp_path: Path) -> None:
    """Guards hear that it is over; then compaction may forget it, and so does the table."""
    await fresh_topics(kafka.brokers)
    config = {"service": {"mode": "enforce", "idle_timeout_s": 3}}
    async with running(tmp_path, kafka.brokers, config) as worker:
        await send(kafka.brokers, OTLP_SPANS, spans(repeater(4)))

        async def over() -> bool:
            states = await told(kafka.brokers, "session:s")
            return states[-2:] == ["closed", "forgotten"] and "open" in states

        await until(over, "the session is over", 40, 0.5)
        assert worker.stop() == 0
    assert (await totals(kafka.brokers)).sessions == {}


@in_loop
async def test_a_worker_without_topics_says_what_to_run(mortal_kafka: LocalKafka, tmp_path: Path) -> None:
    """One line each, and exit code 1."""
    worker = WorkerProcess(tmp_path, mortal_kafka.brokers)
    worker.start()
    assert await asyncio.to_thread(worker.child.wait, 30) == 1
    assert "topic spanfuse.calls does not exist: run `spanfuse topics create`" in worker.output()
    assert "Traceback" not in worker.output()


RECEIVING: dict[str, Any] = {
    **ENFORCE,
    "receivers": {"otlp": {"protocols": {"http": {"endpoint": "127.0.0.1:0"}, "grpc": {"endpoint": "127.0.0.1:0"}}}},
}


@pytest.mark.parametrize("config", [ENFORCE, RECEIVING], ids=["kafka only", "with an OTLP receiver"])
def test_a_worker_whose_kafka_is_away_says_so(tmp_path: Path, config: dict[str, Any]) -> None:
    """In one line, with exit code 1."""
    worker = WorkerProcess(tmp_path, "127.0.0.1:1", json.loads(json.dumps(config)))
    worker.start()
    assert worker.child.wait(40) == 1
    (line,) = worker.output().splitlines()
    assert line.startswith("spanfuse: Kafka at 127.0.0.1:1 does not answer")


@in_loop
async def test_a_worker_whose_kafka_goes_away_still_ends_within_ten_seconds(
    mortal_kafka: LocalKafka, tmp_path: Path
) -> None:
    """With work that it can no longer store, and a receiver that cannot deliver."""
    await fresh_topics(mortal_kafka.brokers)
    async with running(tmp_path, mortal_kafka.brokers, RECEIVING) as worker:
        mortal_kafka.kill()
        try:
            waiting = asyncio.create_task(asyncio.to_thread(export, port_of(worker), spans(repeater(1))[0][1]))
            await asyncio.wait([waiting], timeout=1)
            began = time.monotonic()
            await asyncio.to_thread(worker.stop)
            assert time.monotonic() - began < 10
            await asyncio.wait([waiting], timeout=10)
        finally:
            await asyncio.to_thread(mortal_kafka.start)
    assert "Traceback" not in worker.output()


@in_loop
async def test_an_undecodable_message_as_large_as_the_topic_takes_is_no_poison_pill(
    kafka: KafkaService, tmp_path: Path
) -> None:
    """Its beginning is a dead letter, which says how long it was, and the next message is handled."""
    await fresh_topics(kafka.brokers)
    size = 15_900_000
    async with running(tmp_path, kafka.brokers, ENFORCE) as worker:
        await send(kafka.brokers, OTLP_SPANS, [(0, b"{" * size)], max_request_size=16_700_000)
        await send(kafka.brokers, OTLP_SPANS, spans(repeater(4)))
        await settled(kafka.brokers)
        assert worker.stop() == 0
        counts = json.loads(worker.output().rpartition("spanfuse worker counts ")[2])
    (letter,) = await read_topic(kafka.brokers, DEAD_LETTER)
    assert len(letter.value) == MAX_LETTER_BYTES
    assert dict(letter.headers)["size"] == str(size).encode()
    assert await told(kafka.brokers, "session:s") == ["open"]
    assert (counts["dead_letters"], counts["calls"], counts["detections"]) == (1, 4, {"repeat.prompt": 1})


def export(port: int, body: bytes) -> int:
    """Send OTLP/HTTP; the status."""
    address = f"http://127.0.0.1:{port}/v1/traces"
    post = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(post, timeout=30) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def port_of(worker: WorkerProcess) -> int:
    return int(worker.output().rpartition("OTLP/HTTP port ")[2].split()[0])


@in_loop
async def test_otlp_to_a_worker_survives_an_outage_of_the_broker(mortal_kafka: LocalKafka, tmp_path: Path) -> None:
    """What was answered with 200 is in Kafka; during the outage clients are told to come back; afterwards it goes on."""
    await fresh_topics(mortal_kafka.brokers)
    requests = [json.dumps(r).encode() for r in repeater(4)]
    async with running(tmp_path, mortal_kafka.brokers, RECEIVING) as worker:
        port = port_of(worker)
        for body in requests[:2]:
            assert await asyncio.to_thread(export, port, body) == 200
        assert await asyncio.to_thread(export, port, b"{garbage") == 400
        mortal_kafka.kill()
        assert await asyncio.to_thread(export, port, requests[2]) == 503
        await asyncio.to_thread(mortal_kafka.start)

        async def taken() -> bool:
            return await asyncio.to_thread(export, port, requests[2]) == 200

        await until(taken, "the receiver takes spans again", 60, 0.5)
        assert await asyncio.to_thread(export, port, requests[3]) == 200

        async def caught_up_under_a_supervisor() -> bool:
            """A worker whose clients do not get over the outage ends itself, and is started again."""
            if worker.child.poll() is not None:
                worker.start()
            return worker.ready and await caught_up(mortal_kafka.brokers, OTLP_SPANS, CALLS)

        await until(caught_up_under_a_supervisor, "everything is done and committed", RECOVERY_S, 0.5)
        assert worker.stop() == 0
    found = await totals(mortal_kafka.brokers)
    assert found.sessions["s"][0] == 4, "the resent request counts once"
    assert (await told(mortal_kafka.brokers, "session:s"))[-1] == "open"


@in_loop
async def test_sigterm_under_load_ends_within_ten_seconds_and_loses_nothing(
    kafka: KafkaService, tmp_path: Path
) -> None:
    await fresh_topics(kafka.brokers)
    requests = [
        request(*(chat_span(n, [("user", f"Question {n}")], session=f"s{k:02}") for k in range(20))) for n in range(100)
    ]
    async with running(tmp_path, kafka.brokers, ENFORCE) as worker:
        load = asyncio.create_task(send(kafka.brokers, OTLP_SPANS, spans(requests), pause_s=0.01))

        async def at_work() -> bool:
            return await committed(kafka.brokers, OTLP_SPANS) > 0

        await until(at_work, "it is in the middle of it")
        began = time.monotonic()
        assert await asyncio.to_thread(worker.stop) == 0
        assert time.monotonic() - began < 10
        worker.start()
        await load
        await settled(kafka.brokers)
        assert worker.stop() == 0
    assert {calls for calls, _, _ in (await totals(kafka.brokers)).sessions.values()} == {100}


@pytest.mark.parametrize("mechanism", SecureKafka.mechanisms)
def test_a_worker_reaches_kafka_over_tls_with_a_password(
    secure_kafka: SecureKafka, tmp_path: Path, mechanism: str
) -> None:
    """PLAIN and SCRAM; both hops, the table and the decisions."""
    asyncio.run(secured(secure_kafka, tmp_path, mechanism))


async def secured(broker: SecureKafka, folder: Path, mechanism: str) -> None:
    kafka = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": mechanism,
        "sasl_username": broker.user,
        "sasl_password": broker.password,
        "ssl_cafile": broker.cafile,
    }
    options = broker.client_settings(mechanism)
    await create_topics(settings_of(broker.brokers, **kafka))
    session = f"s-{mechanism}"
    async with running(folder, broker.brokers, ENFORCE, **kafka) as worker:
        await send(broker.brokers, OTLP_SPANS, spans(repeater(4, session)), **options)

        async def blocked() -> bool:
            return "open" in await told(broker.brokers, f"session:{session}", **options)

        await until(blocked, "the repeater is blocked", 30, 0.5)
        assert worker.stop() == 0
        assert broker.password not in worker.output()
