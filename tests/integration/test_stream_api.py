"""The API of a stream deployment, on a real broker and a real Redis."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from spanfuse_processor.api.app import create_app
from spanfuse_processor.exporters.readmodel.model import SessionQuery
from tests.integration.test_stream_console import BUDGET, deployed, now
from tests.services.kafka_service import KafkaService
from tests.services.redis_server import RedisService
from tests.support.loops import in_loop
from tests.support.openapi import Document
from tests.support.recorded import repeater
from tests.support.stream import OTLP_SPANS, send, until

pytestmark = pytest.mark.integration

APART = {"/v1/events", "/v1/decisions/stream", "/metrics", "/v1/alerts"}


@in_loop
async def test_each_answer_has_the_shape_that_the_document_promises(
    kafka: KafkaService, redis_service: RedisService, tmp_path: Path
) -> None:
    async with deployed(kafka, redis_service.url, tmp_path, budgets=BUDGET) as (_, console):
        await send(kafka.brokers, OTLP_SPANS, now(repeater(3)))

        async def shown() -> bool:
            return bool((await console.sessions(SessionQuery(state="open"))).sessions) and bool(console.decisions())

        await until(shown, "the session is shown")
        transport = httpx.ASGITransport(create_app(console))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            document = Document((await client.get("/openapi.json")).json())
            for path, methods in document.paths.items():
                if "get" in methods and path not in APART:
                    response = await client.get(path.replace("{session}", "s").replace("{key}", "session:s"))
                    assert response.status_code == 200, (path, response.text)
                    document.check("get", path, response.json())

            async def counted() -> bool:
                counts = (await client.get("/v1/status")).json()["counts"]
                return bool(counts["detections"] == {"repeat.prompt": 1})

            await until(counted, "the worker has told what it counts")
