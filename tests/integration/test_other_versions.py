"""A worker that finds states of another version, after an upgrade or a roll-back: docs/upgrade.md says what happens."""

from __future__ import annotations

import json
from pathlib import Path

import msgpack
import pytest
from aiokafka import AIOKafkaProducer

from spanfuse_processor.core.scopes.state import STATE_VERSION as SCOPE_VERSION
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.core.session import STATE_VERSION as SESSION_VERSION
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.hosts.stream.table import Stored
from spanfuse_processor.hosts.topics import SCOPES_CHANGELOG, SESSIONS_CHANGELOG
from spanfuse_schemas import CallBatch, Decision
from spanfuse_schemas.topics import CALLS, CONTROL, partition_of
from tests.services.kafka_service import KafkaService
from tests.support.agents import START_NS, prompt
from tests.support.loops import in_loop
from tests.support.stream import PARTITIONS, WorkerProcess, fresh_topics, read_topic, send, settled, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

EPOCH = 7
"""Of a block that Guards know from the other version."""


@pytest.mark.parametrize("step", [-1, 1], ids=["an older one, after an upgrade", "a newer one, after a roll-back"])
@in_loop
async def test_what_was_counted_is_forgotten_what_stood_is_closed_and_detection_goes_on(
    kafka: KafkaService, tmp_path: Path, step: int
) -> None:
    await fresh_topics(kafka.brokers)
    versions = {SESSIONS_CHANGELOG: SESSION_VERSION, SCOPES_CHANGELOG: SCOPE_VERSION}
    for topic, version in versions.items():
        key = "loops" if topic == SESSIONS_CHANGELOG else "agent:a"
        await _store(kafka.brokers, topic, key, version + step)
    worker = WorkerProcess(tmp_path, kafka.brokers, {"service": {"mode": "enforce"}})
    worker.start()
    try:
        await until(lambda: worker.ready, "the worker is up")
        calls = [prompt("Are we there yet?", session="loops", agent="a", at=1 + n / 10) for n in range(3)]
        batch = CallBatch(calls=tuple(calls)).to_json()
        await send(kafka.brokers, CALLS, [(partition_of("loops", PARTITIONS), batch)])
        await settled(kafka.brokers)
        assert worker.stop() == 0
    finally:
        worker.kill()

    told = [Decision.from_json(r.value) for r in await read_topic(kafka.brokers, CONTROL) if r.key == b"session:loops"]
    assert [(decision.epoch, decision.state) for decision in told] == [(EPOCH + 1, "closed"), (EPOCH + 2, "open")]
    assert told[0].message == "What had led to it is lost."
    stored = {r.key: r.value for r in await read_topic(kafka.brokers, SESSIONS_CHANGELOG)}
    assert SessionState.restore(Stored.unpack(stored[b"loops"]).snapshot).calls == 3
    stored = {r.key: r.value for r in await read_topic(kafka.brokers, SCOPES_CHANGELOG)}
    assert ScopeState.restore(Stored.unpack(stored[b"agent:a"]).snapshot).calls == 3
    counts = json.loads(worker.output().rpartition("counts ")[2].splitlines()[0])
    assert (counts["unreadable_sessions"], counts["unreadable_scopes"]) == (1, 1)
    assert "starts afresh" in worker.output()


async def _store(brokers: str, topic: str, key: str, version: int) -> None:
    """A state as another version has left it."""
    snapshot = bytes(msgpack.packb([version, key, "whatever that version has"]))
    producer = AIOKafkaProducer(bootstrap_servers=brokers)
    await producer.start()
    value = Stored(-1, START_NS, EPOCH, snapshot).pack()
    await producer.send_and_wait(topic, value, key=key.encode(), partition=partition_of(key, PARTITIONS))
    await producer.stop()
