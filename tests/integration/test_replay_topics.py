"""Replay and record of topics on a real broker: everything within a time, in one order, and nothing left behind."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from click.testing import CliRunner, Result

from spanfuse_processor.cli import cli
from spanfuse_processor.config import Config
from spanfuse_processor.hosts.reading import normaliser_of, prices_of
from spanfuse_processor.hosts.stream.ingest import pack
from spanfuse_processor.otlp.decode import decode
from tests.services.kafka_service import KafkaService
from tests.support.late import late_run
from tests.support.recorded import START_NS, healthy, repeater

pytestmark = pytest.mark.integration

OURS = f"replay-{uuid4().hex[:8]}"
SPANS, PACKED, EMPTY, NONE = (f"{OURS}-{name}" for name in ("spans", "calls", "empty", "none"))
PARTITIONS = 3
START_MS = START_NS // 10**6
EARLY, LATE = START_MS - 3600_000, START_MS + 3600_000


def requests() -> list[bytes]:
    found = [r for n in range(4) for r in (*repeater(6, f"loop-{n}"), *healthy(6, f"work-{n}"))]
    return [*(json.dumps(r).encode() for r in found), *(line for n in range(6) for line in late_run(n))]


def partition(request: bytes) -> int:
    """That of the trace, as the Collector's exporter does."""
    trace = json.loads(request)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"]
    return zlib.crc32(trace.encode()) % PARTITIONS


def messages() -> Iterator[tuple[str, int, int, bytes]]:
    """Topic, partition, time (ms), value: exports, and the calls that a worker makes of them."""
    config = Config()
    normaliser = normaliser_of(config, prices_of(config.pricing))
    for n, value in enumerate(requests()):
        yield SPANS, partition(value), START_MS + n * 100, value
        spans = decode(value, "json")
        batch = normaliser.batch(spans, (START_MS + n * 100) * 10**6)
        for at, packed in pack(batch, PARTITIONS, normaliser.counters):
            yield PACKED, at, START_MS + n * 100, packed
    for topic in (SPANS, PACKED):
        yield topic, 0, EARLY, b"written before"
        yield topic, 1, LATE, b"written after"


async def prepare(brokers: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
    await admin.start()
    names = (SPANS, PACKED, EMPTY)
    config = {"retention.ms": "-1", "message.timestamp.type": "CreateTime"}
    await admin.create_topics([NewTopic(name, PARTITIONS, 1, topic_configs=config) for name in names])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=brokers)
    await producer.start()
    for topic, at, at_ms, value in sorted(messages(), key=lambda message: message[2]):
        await producer.send_and_wait(topic, value, partition=at, timestamp_ms=at_ms)
    await producer.stop()


async def present(brokers: str) -> dict[str, Any]:
    """All that a reader could leave behind: topics, where they end, and what groups have committed of them."""
    admin, consumer = AIOKafkaAdminClient(bootstrap_servers=brokers), AIOKafkaConsumer(bootstrap_servers=brokers)
    await asyncio.gather(admin.start(), consumer.start())
    try:
        described = await admin.describe_topics([t for t in await admin.list_topics() if t.startswith(OURS)])
        tps = [TopicPartition(t["topic"], p["partition"]) for t in described for p in t["partitions"]]
        found: dict[str, Any] = {"ends": await consumer.end_offsets(tps), "committed": []}
        for group, *_ in await admin.list_consumer_groups():
            offsets = await admin.list_consumer_group_offsets(group)
            found["committed"] += [(group, tp) for tp in offsets if tp.topic.startswith(OURS)]
        return found
    finally:
        await asyncio.gather(admin.close(), consumer.stop())


@pytest.fixture(scope="module")
def brokers(kafka: KafkaService) -> str:
    asyncio.run(prepare(kafka.brokers))
    return kafka.brokers


@pytest.fixture
def spanfuse(brokers: str) -> Any:
    """Run a command on the broker, within the hour of the recording."""

    def run(*arguments: object, **more: object) -> Result:
        times = {"from": "2025-06-15T15:00", "to": "2025-06-15T15:50"} | {k.rstrip("_"): v for k, v in more.items()}
        options = [f"--{name}={value}" for name, value in times.items()]
        return CliRunner().invoke(cli, [*map(str, arguments), *options, f"--brokers={brokers}"], prog_name="spanfuse")

    return run


def of(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def test_a_topic_is_replayed_twice_alike_by_any_number_of_processes_and_nothing_is_left_behind(
    spanfuse: Any, brokers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No record is produced, no offset committed, no topic made."""
    monkeypatch.setattr("spanfuse_processor.hosts.replay.run.ENOUGH", 0)
    before = asyncio.run(present(brokers))
    for topic in (SPANS, PACKED):
        found = [spanfuse("replay", "--topic", topic, "--processes", n, "--format=json") for n in (1, 1, 2)]
        assert of(found[0])["undecodable"] == 0
        assert found[0].stdout == found[1].stdout == found[2].stdout
    assert asyncio.run(present(brokers)) == before
    assert before["committed"] == []


def test_calls_and_the_spans_that_they_were_made_of_come_to_the_same(spanfuse: Any) -> None:
    """Traces whose session comes late included: what workers have moved is moved by the replay itself."""
    spans = of(spanfuse("replay", "--topic", SPANS, "--format=json"))
    packed = of(spanfuse("replay", "--topic", PACKED, "--format=json"))
    assert spans["coverage"]["moved"] == 6
    assert packed["totals"] == spans["totals"]
    assert packed["rules"] == spans["rules"]
    by_name = {session["session"]: session for session in packed["sessions"]}
    assert by_name == {session["session"]: session for session in spans["sessions"]}
    assert by_name["loop-0"]["blocked_at"] == 3


def test_several_topics_are_read_together_and_what_they_both_hold_counts_once(spanfuse: Any) -> None:
    both = of(spanfuse("replay", "--topic", SPANS, "--topic", PACKED, "--format=json"))
    spans = of(spanfuse("replay", "--topic", SPANS, "--format=json"))
    assert both["totals"]["calls"] == spans["totals"]["calls"]
    assert both["coverage"]["duplicates"] >= both["coverage"]["calls"]
    assert both["coverage"]["spans"] == spans["coverage"]["spans"]


def test_a_record_is_replayed_as_the_topic_and_holds_no_content(spanfuse: Any, tmp_path: Path) -> None:
    for topic in (SPANS, PACKED):
        out = tmp_path / f"{topic}.jsonl"
        assert spanfuse("record", "--topic", topic, "--out", out).exit_code == 0
        again = CliRunner().invoke(cli, ["replay", str(out), "--format=json"], prog_name="spanfuse")
        assert of(again) == of(spanfuse("replay", "--topic", topic, "--format=json"))
        data = out.read_bytes()
        assert b"weather" in requests()[0]
        assert not any(word in data for word in (b"weather", b"Tokyo", b"Tell me", b"there yet", b"answer 1"))


def test_a_directory_gets_compressed_files(spanfuse: Any, tmp_path: Path) -> None:
    told = of(spanfuse("record", "--topic", PACKED, "--out", tmp_path / "out", "--format=json"))
    assert told["files"] == [str(tmp_path / "out" / f"{PACKED}-00001.calls.jsonl.gz")]
    found = CliRunner().invoke(cli, ["replay", str(tmp_path / "out"), "--format=json"], prog_name="spanfuse")
    assert of(found)["totals"]["sessions_blocked"] > 0


def test_without_times_all_that_is_kept_is_read(spanfuse: Any) -> None:
    found = of(spanfuse("replay", "--topic", PACKED, "--format=json", from_="2000-01-01", to="1d"))
    assert found["undecodable"] == 2


@pytest.mark.parametrize(
    ("arguments", "times", "told"),
    [
        (("--topic", NONE), {}, f"has no topic {NONE}"),
        (("--topic", EMPTY), {}, f"nothing was written to {EMPTY} in that time"),
        (
            ("--topic", SPANS),
            {"from": "2001-01-01", "to": "2001-01-02"},
            f"nothing was written to {SPANS} in that time",
        ),
    ],
    ids=["no topic", "empty topic", "empty range"],
)
def test_what_cannot_be_read_is_one_clear_line(
    spanfuse: Any, arguments: tuple[str, ...], times: dict[str, str], told: str
) -> None:
    result = spanfuse("replay", *arguments, **times)
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert told in result.stderr
