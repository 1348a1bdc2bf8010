"""Reports of Guards on their way through running hosts, over HTTP and over Kafka."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from spanfuse.emission.kafka_sender import KafkaSender
from spanfuse_processor.otlp.decode import decode_logs
from spanfuse_processor.otlp.reports import report_of
from spanfuse_schemas import Detection
from spanfuse_schemas.topics import CALLS, CHARGES, DETECTIONS, OTLP_LOGS
from tests.client.test_otel import agent
from tests.client.waiting import wait_until
from tests.services.kafka_service import KafkaService
from tests.support.hosts import embedded
from tests.support.loops import in_loop
from tests.support.reports import report
from tests.support.stream import WorkerProcess, caught_up, fresh_topics, read_topic, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

AGENT = """
    from spanfuse import Guard, instrument
    from spanfuse.testing import MemorySubscriber
    instrument({otlp!r})
    guard = Guard(MemorySubscriber(), spans=True)
    for i in range(10):
        with guard.call(model="gpt-4o", provider="openai", messages=f"question {{i}}", session="s", agent="a") as call:
            call.answered(f"answer {{i}}")
            call.settle(input_tokens=10, output_tokens=2)
"""
"""An agent with no instrumentation of its own, which ends at once."""


def test_a_guard_alone_is_enough_for_calls_to_be_seen_and_covered(tmp_path: Path) -> None:
    with embedded(tmp_path, {}) as host:
        run = agent(AGENT.format(otlp=host.otlp), 60, OTEL_EXPORTER_OTLP_ENDPOINT="")
        assert (run.returncode, run.stderr) == (0, "")

        def status() -> dict[str, Any]:
            with urllib.request.urlopen(f"{host.api}/v1/status") as answer:
                found: dict[str, Any] = json.load(answer)
                return found

        wait_until(lambda: status()["counts"]["guards"].get("calls") == 10)
        assert status()["counts"]["calls"] == 10
        assert status()["guards"]["reporting"] == {"ready": 1}


@in_loop
async def test_reports_over_kafka_are_compared_by_whoever_knows_the_agent(kafka: KafkaService, tmp_path: Path) -> None:
    """R090 over many partitions: each report once, though it comes twice; told of by a tick, since nothing comes any more."""
    await fresh_topics(kafka.brokers)
    worker = WorkerProcess(tmp_path, kafka.brokers)
    until_ns = time.time_ns() - 150 * 10**9
    reports = [report(5, until_ns=until_ns, agent="a", source=f"g{i % 3}", seq=1 + i // 3) for i in range(6)]
    worker.start()
    try:
        await until(lambda: worker.ready, "the worker is up", 60)
        sender = KafkaSender(kafka.brokers)
        sent = await asyncio.to_thread(sender.send, OTLP_LOGS, [(None, data) for data in reports * 2], 30)
        sender.close()
        assert all(sent)
        await until(lambda: caught_up(kafka.brokers, OTLP_LOGS, CALLS, CHARGES), "it catches up", 90, 0.3)

        async def found() -> list[Detection]:
            return [Detection.from_json(r.value) for r in await read_topic(kafka.brokers, DETECTIONS)]

        async def told() -> bool:
            return len(await found()) >= 2

        await until(told, "too few calls are told of", 60, 0.5)
        assert {(d.rule, d.scope, d.evidence.value) for d in await found()} == {
            ("coverage", "agent:a", 0.0),
            ("coverage", "global:*", 0.0),
        }
        assert worker.stop() == 0
        assert '"guards":{"calls":30,"reports":6,"reports_again":6}' in worker.output()
    finally:
        worker.kill()


@in_loop
async def test_a_guard_writes_its_reports_where_its_spans_go(kafka: KafkaService) -> None:
    await fresh_topics(kafka.brokers)
    run = await asyncio.to_thread(
        agent, AGENT.format(otlp=f"kafka://{kafka.brokers}"), 60, OTEL_EXPORTER_OTLP_ENDPOINT=""
    )
    assert (run.returncode, run.stderr) == (0, "")
    records = [one for r in await read_topic(kafka.brokers, OTLP_LOGS) for one in decode_logs(r.value, "json")]
    reports = [found for record in records if (found := report_of(record, time.time_ns())) is not None]
    assert sum(made.calls for found in reports for made in found.calls) == 10
