"""A worker that makes no progress ends itself; one that has nothing to do, or no Kafka, does not."""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from spanfuse_processor.config import Config
from spanfuse_processor.errors import SpanfuseError
from spanfuse_processor.hosts.stream import Worker
from spanfuse_processor.hosts.stream.detect import Detector
from spanfuse_processor.hosts.stream.progress import Progress
from spanfuse_processor.hosts.topics import SESSIONS_CHANGELOG
from spanfuse_schemas import CallBatch
from spanfuse_schemas.topics import CALLS
from tests.services.kafka_service import KafkaService
from tests.support.agents import prompt
from tests.support.loops import in_loop
from tests.support.stream import PARTITIONS, WorkerProcess, abandoned, fresh_topics, read_topic, send, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


@in_loop
async def test_a_worker_whose_agent_hangs_ends_itself(kafka: KafkaService, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is idle for longer than the limit first, which is no reason; then one message waits for ever."""

    async def hang(self: Detector, message: Any) -> None:
        await asyncio.Event().wait()

    looked_at, look = list[float](), Progress.look

    def looking(self: Progress, committed: Any, ends: Any, now_s: float) -> Any:
        looked_at.append(now_s)
        return look(self, committed, ends, now_s)

    monkeypatch.setattr(Detector, "handle", hang)
    monkeypatch.setattr(Progress, "look", looking)
    await fresh_topics(kafka.brokers)
    config = Config.model_validate({"receivers": {"kafka": {"brokers": kafka.brokers, "partitions": PARTITIONS}}})
    worker = Worker(config, stuck_s=4)
    await worker.start()
    try:
        await asyncio.wait_for(worker.host.ready.wait(), 30)
        await until(lambda: len(looked_at) > 1 and looked_at[-1] - looked_at[0] > 5, "it is idle for long enough", 20)
        assert not worker.host.failed.done()
        await send(kafka.brokers, CALLS, [(2, CallBatch(calls=(prompt("hello"),)).to_json())])
        with pytest.raises(SpanfuseError, match=r"no progress on spanfuse.calls-2 for 4 s: committed offset 0, end 1"):
            await asyncio.wait_for(asyncio.shield(worker.host.failed), 20)
    finally:
        await worker.stop()


@in_loop
async def test_a_worker_that_was_frozen_ends_before_it_writes(kafka: KafkaService, tmp_path: Path) -> None:
    """Its partitions may be another's by now; what it had not stored is delivered again."""
    await fresh_topics(kafka.brokers)
    worker = WorkerProcess(tmp_path, kafka.brokers)
    worker.start()
    try:
        await until(lambda: worker.ready, "the worker is up", 40)
        worker.child.send_signal(signal.SIGSTOP)
        await send(kafka.brokers, CALLS, [(2, CallBatch(calls=(prompt("hello"),)).to_json())])
        await until(lambda: abandoned(kafka.brokers), "the group gives it up", 40)
        worker.child.send_signal(signal.SIGCONT)
        assert await asyncio.to_thread(worker.child.wait, 20) == 1
        assert re.search(r"this process stood still for \d+ s", worker.output())
        assert await read_topic(kafka.brokers, SESSIONS_CHANGELOG) == []
    finally:
        worker.kill()
