"""The commands of an operator against `spanfuse api`, over a worker on a real broker and a real Redis."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cli.test_against_up import ran
from tests.integration.test_stream_console import BUDGET, deployed, extensions, now, serving
from tests.services.kafka_service import KafkaService
from tests.services.process import free_ports
from tests.services.redis_server import RedisService
from tests.support.loops import in_loop
from tests.support.recorded import healthy, repeater
from tests.support.stream import OTLP_SPANS, send, settled

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


@in_loop
async def test_a_stream_is_looked_at_and_operated_as_the_embedded_host_is(
    kafka: KafkaService, redis_service: RedisService, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    more = {"api": {"endpoint": f"127.0.0.1:{port}"}, **extensions(redis_service.url, uuid4().hex)}
    async with deployed(kafka, redis_service.url, tmp_path, extensions=more, budgets=BUDGET) as (worker, _):
        await send(kafka.brokers, OTLP_SPANS, now([*repeater(3), *healthy(4, session="other")]))
        await settled(kafka.brokers)
        with serving(worker._config) as said:
            assert "spanfuse api is up" in await asyncio.to_thread(said.readline)
            await asyncio.to_thread(operated, f"http://127.0.0.1:{port}")


def operated(api: str) -> None:
    """Look at all there is, then release."""
    assert "workers over Kafka" in ran(api, "status")
    assert "session:s  blocked  repeat.prompt" in ran(api, "breakers")
    assert "AAA" in ran(api, "sessions", "s", code=1)
    assert "repeat.prompt" in ran(api, "explain", "session:s")
    assert "gpt-4o-mini" in ran(api, "benchmark")
    assert "CALLS" in ran(api, "agents") or "No agent" in ran(api, "agents")
    assert "mode enforce" in ran(api, "policy", "show")
    ran(api, "budget", "list")
    assert "closed" in ran(api, "reset", "session:s")
    assert ran(api, "status", "session:s") == "session:s: closed\n"
