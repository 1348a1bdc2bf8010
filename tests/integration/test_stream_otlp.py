"""What the Collector's Kafka exporter and the worker's own receiver write, on a real broker: every encoding, compression, size
and partitioning is read, and content that comes as logs meets its span."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, ConsumerRecord
from aiokafka.partitioner import murmur2

from spanfuse_processor.otlp.decode import decode, decode_logs, sniff
from spanfuse_processor.otlp.span import Span
from spanfuse_schemas import Call, CallBatch
from spanfuse_schemas.topics import CALLS, DEAD_LETTER, OTLP_LOGS, OTLP_SPANS
from tests.otlp import test_logs
from tests.otlp.fixtures import chat, json_bytes, protobuf_bytes
from tests.services.kafka_service import KafkaService
from tests.support.loops import in_loop
from tests.support.stream import PARTITIONS, WorkerProcess, caught_up, fresh_topics, read_topic, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

LARGE = 15_500_000
"""Size of a large message, a little less than what the topics take."""


@asynccontextmanager
async def running(folder: Path, brokers: str, workers: int = 1) -> AsyncIterator[list[WorkerProcess]]:
    ports = {"protocols": {"http": {"endpoint": "127.0.0.1:0"}}}
    started = [WorkerProcess(folder / str(n), brokers, {"receivers": {"otlp": ports}}) for n in range(workers)]
    try:
        for worker in started:
            worker.start()
        for worker in started:
            await until(lambda worker=worker: worker.ready, "the worker is up", 60)  # type: ignore[misc]
        yield started
    finally:
        for worker in started:
            worker.kill()


async def produce(brokers: str, records: list[dict[str, Any]], **options: Any) -> None:
    """Send records, arguments of `send`, and wait for the acknowledgements."""
    producer = AIOKafkaProducer(bootstrap_servers=brokers, **{"max_request_size": 16_500_000, **options})
    await producer.start()
    try:
        await asyncio.gather(*[await producer.send(**record) for record in records])
    finally:
        await producer.stop()


async def ingested(brokers: str) -> list[Call]:
    """The calls that ingest has written, once it has read everything."""
    await until(lambda: caught_up(brokers, OTLP_SPANS, OTLP_LOGS), "ingest catches up", 90, 0.3)
    return [call for r in await read_topic(brokers, CALLS) for call in CallBatch.from_json(r.value).calls]


def trace(number: int) -> str:
    return f"{number:032x}"


@in_loop
async def test_every_encoding_compression_and_partitioning_is_read(kafka: KafkaService, tmp_path: Path) -> None:
    """`otlp_proto` and `otlp_json`, with a key or none, plain and with each codec that Kafka knows."""
    await fresh_topics(kafka.brokers)
    number = 0
    async with running(tmp_path, kafka.brokers):
        for codec in (None, "gzip", "snappy", "lz4", "zstd"):
            records = []
            for make in (protobuf_bytes, json_bytes):
                for key in (None, b"key", trace(number + 1).encode()):
                    number += 1
                    span = chat(id=number, trace=trace(number), input="x" * 5000)
                    records.append({"topic": OTLP_SPANS, "value": make(span), "key": key})
            await produce(kafka.brokers, records, compression_type=codec)
        calls = await ingested(kafka.brokers)
    assert sorted(call.span_id for call in calls) == [f"{n:016x}" for n in range(1, number + 1)]
    assert {call.content for call in calls} == {"content"}
    assert await read_topic(kafka.brokers, DEAD_LETTER) == []


@in_loop
async def test_messages_as_large_as_the_topic_takes_are_read(kafka: KafkaService, tmp_path: Path) -> None:
    """A larger request to a worker goes in several; a span that is larger is refused."""
    await fresh_topics(kafka.brokers)
    records = [
        {"topic": OTLP_SPANS, "value": make(chat(id=n, trace=trace(n), input="x" * LARGE)), "partition": 0}
        for n, make in ((1, protobuf_bytes), (2, json_bytes))
    ]
    small = {"topic": OTLP_SPANS, "value": protobuf_bytes(chat(id=3, trace=trace(3))), "partition": 0}
    large = protobuf_bytes(*(chat(id=n, trace=trace(4), input="x" * (LARGE // 10)) for n in range(4, 16)))
    async with running(tmp_path, kafka.brokers) as (worker,):
        await produce(kafka.brokers, [*records, small])
        assert await asyncio.to_thread(export, worker, "/v1/traces", large) == 200
        with pytest.raises(urllib.error.HTTPError, match="400"):
            await asyncio.to_thread(export, worker, "/v1/traces", protobuf_bytes(chat(input="x" * 16_000_000)))
        calls = await ingested(kafka.brokers)
    assert sorted(call.span_id for call in calls) == [f"{n:016x}" for n in range(1, 16)]


def content_of(span: Span) -> bytes:
    records = test_logs.asked(), test_logs.replied()
    for record in records:
        record.trace_id, record.span_id = span.trace_id, span.span_id
    return test_logs.protobuf_bytes(*records)


@in_loop
async def test_logs_meet_their_spans_on_whichever_worker_has_the_partition(kafka: KafkaService, tmp_path: Path) -> None:
    """Before and after the span; what is no logs request is a dead letter of its topic, and stops nothing."""
    await fresh_topics(kafka.brokers)
    early = [chat(id=1 + p, trace=trace(1 + p)) for p in range(PARTITIONS)]
    late = [chat(id=11 + p, trace=trace(11 + p)) for p in range(PARTITIONS)]

    def sent(topic: str, values: list[bytes]) -> list[dict[str, Any]]:
        return [{"topic": topic, "value": value, "partition": p} for p, value in enumerate(values)]

    async with running(tmp_path, kafka.brokers, 2):
        await produce(kafka.brokers, sent(OTLP_LOGS, [b"{garbage"] * PARTITIONS))
        await produce(kafka.brokers, sent(OTLP_LOGS, [content_of(span) for span in early]))
        assert await ingested(kafka.brokers) == []
        await produce(
            kafka.brokers, sent(OTLP_SPANS, [json_bytes(first, then) for first, then in zip(early, late, strict=True)])
        )
        calls = await ingested(kafka.brokers)
        assert {(c.span_id, c.content) for c in calls} == {
            *((span.span_id, "content") for span in early),
            *((span.span_id, "structure") for span in late),
        }
        await produce(kafka.brokers, sent(OTLP_LOGS, [content_of(span) for span in late]))
        calls = await ingested(kafka.brokers)
    assert [c.span_id for c in calls if c.content == "content"].count(late[0].span_id) == 1
    assert {c.span_id for c in calls if c.content == "content"} == {span.span_id for span in (*early, *late)}
    letters = await read_topic(kafka.brokers, DEAD_LETTER)
    headers = [dict(letter.headers) for letter in letters]
    assert {(h["topic"], h["partition"], h["offset"]) for h in headers} == {
        (OTLP_LOGS.encode(), str(p).encode(), b"0") for p in range(PARTITIONS)
    }
    assert {letter.value for letter in letters} == {b"{garbage"}


def export(worker: WorkerProcess, path: str, body: bytes) -> int:
    """Send OTLP/HTTP in protobuf; the status."""
    port = int(worker.output().rpartition("OTLP/HTTP port ")[2].split()[0])
    headers = {"Content-Type": "application/x-protobuf"}
    with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers)) as response:
        return int(response.status)


def by_partition(records: list[ConsumerRecord], read: Any) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for record in records:
        found.setdefault(record.partition, set()).update(
            item.trace_id for item in read(record.value, sniff(record.value))
        )
    return found


@in_loop
async def test_each_trace_that_the_receiver_relays_lands_on_its_partition_with_its_logs(
    kafka: KafkaService, tmp_path: Path
) -> None:
    """The partition is the one that Kafka's clients choose by the trace id; log records of other things stay outside."""
    await fresh_topics(kafka.brokers)
    spans = [chat(id=n, trace=trace(n // 2 + 1)) for n in range(1, 40)]
    records = [record for span in spans[:20] for record in decode_logs(content_of(span), "protobuf")]
    async with running(tmp_path, kafka.brokers) as (worker,):
        assert await asyncio.to_thread(export, worker, "/v1/traces", protobuf_bytes(*spans)) == 200
        logs = test_logs.protobuf_bytes(*records, test_logs.record("http.request", "x"))
        assert await asyncio.to_thread(export, worker, "/v1/logs", logs) == 200
        assert await asyncio.to_thread(export, worker, "/v1/metrics", b"\x0a\x00") == 200
        calls = await ingested(kafka.brokers)
        assert worker.stop() == 0
        counts = json.loads(worker.output().rpartition("spanfuse worker counts ")[2])
    assert {call.span_id for call in calls} == {span.span_id for span in spans}
    expected: dict[int, set[str]] = {}
    for span in spans:
        place = (murmur2(span.trace_id.encode()) & 0x7FFFFFFF) % PARTITIONS
        expected.setdefault(place, set()).add(span.trace_id)
    relayed = await read_topic(kafka.brokers, OTLP_SPANS)
    assert by_partition(relayed, decode) == expected
    assert len(relayed) == len(expected)
    for place, traces in by_partition(await read_topic(kafka.brokers, OTLP_LOGS), decode_logs).items():
        assert traces <= expected[place]
    assert (counts["dropped_records"], counts["dropped_metrics"]) == (1, 1)
    assert counts["ingest"]["logs_joined"] == len(records)
