"""Spans that never come: a Guard knows what it let through, and the server says what it did not see of that."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from spanfuse import Guard
from spanfuse.emission.spans import CallSpans
from spanfuse.otel import ContextSpanProcessor
from spanfuse.testing import MemorySubscriber
from spanfuse_processor.config import Config
from spanfuse_processor.exporters.hub import Hub
from spanfuse_processor.hosts.engine import Engine
from spanfuse_processor.hosts.store import Store
from spanfuse_processor.otlp.decode import Encoding
from spanfuse_processor.otlp.export import SignalName
from tests.client.log_receiver import LogReceiver
from tests.support.shown import detections

SECOND = 10**9


class Server(LogReceiver):
    """The embedded host without its own servers: reports come over HTTP, spans when a test lets them."""

    def __init__(self, folder: Path, **coverage: Any) -> None:
        self.store = Store(str(folder / "spanfuse.db"))
        self.waiting: deque[bytes] = deque()
        """Reports that have come, for the thread of the test."""
        self.engine = Engine(Config.model_validate({"detectors": {"coverage": coverage}}), self.store, Hub())
        super().__init__()

    def took(self, body: bytes, request: dict[str, str]) -> None:
        self.waiting.append(body)
        super().took(body, request)

    def take(self, body: bytes, encoding: Encoding, signal: SignalName) -> None:
        """A request has come."""
        asyncio.run(self.engine.ingest(body, encoding, time.time_ns(), signal))

    def later(self, seconds: float) -> list[dict[str, Any]]:
        """Time passes: what is told of missing spans."""
        while self.waiting:
            self.take(self.waiting.popleft(), "json", "logs")
        self.engine.upkeep.tick(time.time_ns() + round(seconds * SECOND))
        found = [json.loads(detection.to_json()) for detection in detections(self.store)]
        assert {detection["rule"] for detection in found} <= {"coverage"}
        return found


class Client:
    """A process with a Guard that makes spans, which are kept back."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(ContextSpanProcessor())
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.guard = Guard(MemorySubscriber(), report_to=server.url)
        self.guard.listen(CallSpans(provider))

    def call(self, number: int, agent: str = "planner") -> None:
        for i in range(number):
            with self.guard.call(
                model="gpt-4o", messages=f"question {i}", session="s", agent=agent, team="shop"
            ) as made:
                made.answered(f"answer {i}")

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def send(self, spans: list[ReadableSpan]) -> None:
        self._server.take(encode_spans(spans).SerializeToString(), "protobuf", "traces")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path)
    yield running
    running.close()
    running.store.close()


def shares(found: list[dict[str, Any]]) -> dict[str, float]:
    return {detection["scope"]: detection["evidence"].get("value", 0.0) for detection in found}


def test_r090_a_recycled_worker_sends_one_span_of_ten(server: Server) -> None:
    client = Client(server)
    client.call(10)
    client.send(client.spans[:1])
    client.guard.close()
    assert server.later(10) == []
    assert shares(server.later(120)) == {"agent:planner": 10.0, "team:shop": 10.0, "global:*": 10.0}
    assert "the spans of 1 have come (10 %)" in server.later(120)[0]["message"]


def test_r096_streams_that_are_not_instrumented_are_no_silence(server: Server) -> None:
    client = Client(server)
    client.call(10)
    client.guard.close()
    assert shares(server.later(120))["agent:planner"] == 0.0


def test_r092_spans_of_a_frozen_function_count_when_they_were_made(tmp_path: Path) -> None:
    """With a grace as long as it may be frozen, nothing is told; its calls are counted at their own time."""
    server = Server(tmp_path, grace_s=1200)
    try:
        client = Client(server)
        client.call(10)
        assert client.guard.flush(5)
        assert server.later(900) == []
        client.send(client.spans)
        assert server.later(1300) == []
        state = server.engine.work.scopes.known("agent:planner")
        assert state is not None
        assert state.coverage.last == (10, 10)
        client.guard.close()
    finally:
        server.close()
        server.store.close()


def test_an_agent_that_is_seen_hides_none_that_is_not(server: Server) -> None:
    """A hundred calls of one agent come, ten of another do not."""
    client = Client(server)
    client.call(100)
    client.call(10, agent="coder")
    client.send(client.spans[:100])
    client.guard.close()
    assert shares(server.later(120)) == {"agent:coder": 0.0}
