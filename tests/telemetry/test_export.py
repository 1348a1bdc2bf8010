"""Metrics and spans over the wire to real receivers, and to receivers that are not there."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

import pytest

from spanfuse_processor.telemetry.catalogue import CALLS, DELAY
from spanfuse_processor.telemetry.counters import SELF_SCOPE
from spanfuse_processor.telemetry.export import Outcomes
from tests.services.process import free_ports
from tests.support.loops import in_loop
from tests.support.measured import measuring, scraped, value
from tests.support.otlp_sink import otlp_sink
from tests.support.stream import until

protocols = pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])


def sent_to(endpoint: str, protocol: str = "http/protobuf", **more: Any) -> dict[str, Any]:
    otlp = {"endpoint": endpoint, "protocol": protocol, **more}
    return {"metrics": {"otlp": otlp | {"interval_s": 1}}, "traces": {"otlp": otlp, "sample_ratio": 1}}


@protocols
@in_loop
async def test_metrics_and_spans_arrive_as_the_catalogue_has_them(protocol: str) -> None:
    with otlp_sink() as sink:
        async with measuring(**sent_to(sink.endpoints[protocol], protocol)) as telemetry:
            telemetry.tallies.counter(CALLS).add(("llm", "planner", "shop", "gpt-4o"), 3)
            telemetry.tallies.histogram(DELAY).record(("counted",), [0.3, 0.3, 20])
            with telemetry.traces.work("spanfuse.ingest", {"spanfuse.calls": 3}):
                pass
            await until(lambda: len(sink.metrics) > 1, "metrics came again", 20, 0.05)
            (calls,) = sink.latest()["spanfuse.calls"].sum.data_points
            delay = sink.latest()["spanfuse.end_to_end_delay"]
            sent = value(await scraped(telemetry), "spanfuse_telemetry_exports_total", signal="metrics", outcome="sent")
        await until(lambda: bool(sink.spans), "spans came at the end", 20, 0.05)
    assert {at.key: at.value.string_value for at in calls.attributes} == {
        "kind": "llm", "agent": "planner", "team": "shop", "model": "gpt-4o",
    }  # fmt: skip
    assert (calls.as_double, delay.unit, delay.histogram.aggregation_temporality) == (3, "s", 2)
    (point,) = delay.histogram.data_points
    assert (point.count, list(point.explicit_bounds), sum(point.bucket_counts)) == (3, list(DELAY.bounds), 3)
    assert calls.start_time_unix_nano <= calls.time_unix_nano
    assert sent >= 1
    (span,) = sink.spans
    assert (span.name, span.scope, span.attributes["spanfuse.calls"]) == ("spanfuse.ingest", SELF_SCOPE, 3)


@in_loop
async def test_what_was_measured_last_is_sent_when_the_host_stops() -> None:
    with otlp_sink() as sink:
        otlp = {"endpoint": sink.endpoints["http/protobuf"], "interval_s": 3600}
        async with measuring(metrics={"otlp": otlp}) as telemetry:
            telemetry.tallies.counter(CALLS).add(("llm", "a", "", "m"))
        assert sink.latest()["spanfuse.calls"].sum.data_points[0].as_double == 1


@in_loop
async def test_an_address_that_is_not_set_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with otlp_sink() as sink:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoints["http/protobuf"])
        async with measuring(metrics={"otlp": {"interval_s": 3600}}):
            pass
        assert sink.metrics


@protocols
@in_loop
async def test_a_receiver_that_is_away_costs_one_line_and_nobody_waits(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the event loop, nor a scrape, nor the end of the host."""
    (port,) = free_ports(1)
    async with measuring(**sent_to(f"http://127.0.0.1:{port}", protocol, timeout_s=0.5)) as telemetry:
        with telemetry.traces.work("spanfuse.ingest"):
            pass
        longest = 0.0

        async def failed(times: int) -> None:
            nonlocal longest
            while telemetry._export is None or telemetry._export.outcomes.counts["failed"] < times:
                before = time.monotonic()
                await asyncio.sleep(0.01)
                longest = max(longest, time.monotonic() - before)

        async with asyncio.timeout(30):
            await failed(2)
        found = await scraped(telemetry)
        began = time.monotonic()
    assert time.monotonic() - began < 5
    assert longest < 1, "the event loop stood still"
    assert value(found, "spanfuse_telemetry_exports_total", signal="metrics", outcome="failed") >= 2
    lines = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert sorted(line.partition(" ")[0] for line in lines) == ["metrics", "traces"]


@in_loop
async def test_a_receiver_that_takes_the_request_and_never_answers_does_not_hold_up_the_end() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with measuring(**sent_to(f"http://127.0.0.1:{port}", timeout_s=60)) as telemetry:
        with telemetry.traces.work("spanfuse.ingest"):
            pass
        began = time.monotonic()
    assert time.monotonic() - began < 5
    server.close()


def test_an_outage_is_told_when_it_begins_and_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    from spanfuse_processor.config.otlp_client import OtlpClient

    outcomes = Outcomes("metrics", OtlpClient(endpoint="http://collector:4318"))
    for sent in (True, False, False, False, True, True, False):
        outcomes.note(sent)
    assert outcomes.counts == {"sent": 3, "failed": 4}
    assert ["again" in line for line in caplog.messages] == [False, True, False]
    assert all("http://collector:4318" in line for line in caplog.messages)


@in_loop
async def test_headers_are_sent_and_never_shown(tmp_path: Path) -> None:
    asked = list[bytes]()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings = sent_to(f"http://127.0.0.1:{port}/otlp", headers={"Authorization": "Bearer s3cret"})
    async with measuring(**settings):
        pass
    assert asked[0].startswith(b"POST /otlp/v1/metrics ")
    assert b"Bearer s3cret" in asked[0]
    server.close()
