"""Alerts of a stream deployment: `spanfuse api` tells people, and keeps in Redis what it told."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from spanfuse_processor.config import Config
from spanfuse_processor.exporters.alerts.redis_store import RedisAlerts
from spanfuse_processor.exporters.readmodel.redis_link import RedisLink
from spanfuse_processor.hosts.api import ApiHost
from tests.services.kafka_service import KafkaService
from tests.services.redis_server import RedisService
from tests.support import alert_servers
from tests.support.alerting import loop
from tests.support.loops import in_loop
from tests.support.stream import OTLP_SPANS, PARTITIONS, WorkerProcess, fresh_topics, send, until

pytestmark = pytest.mark.integration


@in_loop
async def test_what_workers_decide_is_told_once_over_a_restart_of_the_api_and_its_end_too(
    kafka: KafkaService, redis_service: RedisService, tmp_path: Path
) -> None:
    """A session that is stopped; the API ends and comes again; somebody resets it through it."""
    await fresh_topics(kafka.brokers)
    readmodel = {"readmodel": {"address": f"{redis_service.url}?tenant={uuid4().hex}"}}
    worker = WorkerProcess(tmp_path, kafka.brokers, {"extensions": readmodel, "service": {"mode": "enforce"}})
    worker.start()
    with alert_servers.served(alert_servers.webhook) as hook:
        config = Config.model_validate(
            {
                "receivers": {"kafka": {"brokers": kafka.brokers, "partitions": PARTITIONS}},
                "extensions": {**readmodel, "api": {"endpoint": "127.0.0.1:0"}},
                "exporters": {"alerts": {"receivers": {"webhook": {"url": hook.url}}}},
            }
        )
        try:
            await until(lambda: worker.ready, "the worker is up")
            first = ApiHost(config)
            await first.start()
            await send(kafka.brokers, OTLP_SPANS, [(0, json.dumps(one).encode()) for one in loop("run-9", 5)])
            await until(lambda: bool(hook.bodies), "it is told")
            assert (await first.console.status())["exporters"]["alerts"]["firing"] == 1
            await first.stop()
            second = ApiHost(config)
            await second.start()
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{second.port}") as client:
                (alert,) = (await client.get("/v1/alerts")).json()["alerts"]
                assert (alert["key"], alert["receivers"]) == ("session:run-9", ["webhook"])
                await client.post("/v1/reset", json={"key": "session:run-9", "actor": "ada"}, timeout=30)
            await until(lambda: len(hook.bodies) == 2, "its end is told")
            await second.stop()
        finally:
            worker.kill()
    assert [(body["key"], body["state"]) for body in hook.bodies] == [
        ("session:run-9", "firing"),
        ("session:run-9", "resolved"),
    ]


@in_loop
async def test_rows_are_kept_changed_and_forgotten_in_redis(redis_service: RedisService) -> None:
    """As in the file of the embedded host."""
    link = RedisLink(f"{redis_service.url}?tenant={uuid4().hex}", 1)
    try:
        store = RedisAlerts(link)
        assert await store.load() == {}
        await store.save({"a": b"1", "b": b"2"})
        await store.save({"a": None, "b": b"3", "c": b"\xff"})
        assert await store.load() == {"b": b"3", "c": b"\xff"}
    finally:
        await link.close()
