"""Each detection as a span beside the offending one and as a log record, over real exporters to real receivers."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from spanfuse_processor.config import Config, OtlpReceiver
from spanfuse_processor.exporters.otlp.records import span_of
from spanfuse_processor.hosts.embedded import EmbeddedHost
from spanfuse_processor.otlp.decode import Encoding, decode, decode_logs
from spanfuse_processor.otlp.export import ExportResult
from spanfuse_processor.otlp.receiver import OtlpReceiver as Receiver
from spanfuse_processor.otlp.span import LogRecord, Span
from spanfuse_processor.telemetry import DETECTIONS_SCOPE
from spanfuse_schemas import Detection, Evidence
from tests.support.alerting import delays, ids, loop
from tests.support.hosts import free_port
from tests.support.loops import in_loop
from tests.support.stream import until

BOTH = {"protocols": {"http": {"endpoint": "127.0.0.1:0"}, "grpc": {"endpoint": "127.0.0.1:0"}}}


class Backend:
    """A receiver of OTLP that keeps what comes."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.logs: list[LogRecord] = []
        self._receiver = Receiver(
            OtlpReceiver.model_validate(BOTH), {"traces": self._traces, "logs": self._logs, "metrics": self._logs}
        )

    async def _traces(self, data: bytes, encoding: Encoding) -> ExportResult:
        self.spans += decode(data, encoding)
        return ExportResult()

    async def _logs(self, data: bytes, encoding: Encoding) -> ExportResult:
        self.logs += decode_logs(data, encoding)
        return ExportResult()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[dict[str, str]]:
        """Until the end; protocol → endpoint."""
        await self._receiver.start()
        try:
            ports = {"http/protobuf": self._receiver.http_port, "grpc": self._receiver.grpc_port}
            yield {protocol: f"http://127.0.0.1:{port}" for protocol, port in ports.items()}
        finally:
            await self._receiver.stop(1)


@asynccontextmanager
async def host(folder: Path, exporters: dict[str, Any], port: int = 0) -> AsyncIterator[EmbeddedHost]:
    made = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
        "extensions": {"api": {"endpoint": "127.0.0.1:0"}, "storage": {"path": ""}},
        "exporters": exporters,
    }
    found = EmbeddedHost(Config.model_validate(made))
    await found.start()
    try:
        yield found
    finally:
        await found.stop()


async def send(to: EmbeddedHost, *requests: dict[str, Any]) -> None:
    for one in requests:
        await to.engine.ingest(json.dumps(one).encode(), "json", time.time_ns())


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
@in_loop
async def test_a_detection_is_a_span_below_the_offending_one_and_a_log_record_of_it(
    protocol: str, tmp_path: Path
) -> None:
    """In its trace, linked to it, an error where it stops the session; without a word of content."""
    backend = Backend()
    async with (
        backend.running() as where,
        host(tmp_path, {"otlp": {"endpoint": where[protocol], "protocol": protocol}}) as up,
    ):
        await send(up, *loop("run-9", 5, agent="lister", user="ada"))
        await until(lambda: bool(backend.spans and backend.logs), "both came", 10, 0.01)
    (span, *_) = backend.spans
    assert (span.trace_id, span.parent_span_id) == (ids("run-9", 16), ids("run-9/2", 8))
    assert (span.scope, span.name, span.status_code) == (DETECTIONS_SCOPE, "spanfuse repeat.prompt", 2)
    assert span.attributes["spanfuse.action"] == "block"
    assert (span.attributes["session.id"], span.attributes["gen_ai.agent.name"], span.attributes["user.id"]) == (
        "run-9",
        "lister",
        "ada",
    )
    (record, *_) = backend.logs
    assert (record.trace_id, record.span_id, record.event_name) == (
        span.trace_id,
        span.parent_span_id,
        "spanfuse.detection",
    )
    assert "repeat" in record.attributes["spanfuse.rule"]
    assert "Tokyo" not in str((backend.spans, backend.logs))


@in_loop
async def test_what_comes_back_to_a_receiver_of_ours_is_no_call_and_finds_nothing(tmp_path: Path) -> None:
    """A host that exports to itself: counted as its own, and no loop of detections."""
    port = free_port()
    async with host(tmp_path, {"otlp": {"endpoint": f"http://127.0.0.1:{port}"}}, port) as up:
        await send(up, *loop("run-9", 9))
        counters = up.engine.work.counters
        calls, detections = counters["calls"], len(await _detections(up))
        await until(lambda: counters["ingest/own"] >= detections, "they came back", 10, 0.01)
        assert counters["calls"] == calls == 9
        assert len(await _detections(up)) == detections
        row = await up.console.session("run-9")
        assert row is not None
        assert (row.calls, row.agent) == (9, "recorded")


async def _detections(up: EmbeddedHost) -> tuple[Detection, ...]:
    from spanfuse_processor.exporters.readmodel.model import DetectionQuery

    return (await up.console.detections(DetectionQuery())).detections


def test_a_detection_that_is_told_twice_is_one_span_and_one_without_a_trace_has_its_own() -> None:
    """Ids follow from the detection's; ids that are none do no harm."""

    def found(id: str, **evidence: Any) -> Detection:
        return Detection(
            id=id, rule="coverage", action="warn", mode="warn", session="", scope="agent:a", call=0, at_ns=1, message="m",
            evidence=Evidence(**evidence),
        )  # fmt: skip

    one, again, other = span_of(found("1")), span_of(found("1")), span_of(found("2"))
    assert one.context == again.context != other.context
    assert one.parent is None
    assert not one.links
    inside = span_of(found("1", trace_id="ab" * 16, last_span_id="cd" * 8))
    assert inside.parent is not None
    assert inside.context is not None
    assert inside.context.trace_id == inside.parent.trace_id == int("ab" * 16, 16)
    assert [link.context for link in inside.links] == [inside.parent]
    for bad in ("", "0" * 32, "xy" * 16, "ab"):
        assert span_of(found("1", trace_id=bad, last_span_id="cd" * 8)).parent is None


@in_loop
async def test_a_backend_that_is_dead_costs_the_detection_nothing(tmp_path: Path) -> None:
    """What waits is bounded, what cannot be sent is counted, and the end is in time."""
    otlp = {"endpoint": f"http://127.0.0.1:{free_port()}", "queue": 50, "timeout_s": 0.5}
    async with host(tmp_path, {}) as plain, host(tmp_path, {"otlp": otlp}) as up:
        without, with_dead = await delays(plain, up, 100)
        await until(lambda: up.exporting()["otlp"]["failed"] > 0, "it was tried", 10, 0.01)
        assert up.exporting()["otlp"]["waiting"] <= 50
        began = time.monotonic()
    assert time.monotonic() - began < 8
    assert with_dead < 1.5 * without + 0.002, (with_dead, without)
