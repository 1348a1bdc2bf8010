"""Spans of the processor's own work: what they say, which are kept, and that they come to rest where they come back."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from spanfuse_processor.config import Config
from spanfuse_processor.hosts.embedded import EmbeddedHost
from spanfuse_processor.telemetry.traces import Traces
from tests.support.alerting import loop
from tests.support.hosts import free_port
from tests.support.loops import in_loop
from tests.support.measured import measuring
from tests.support.otlp_sink import OtlpSink, otlp_sink
from tests.support.stream import until


def traces(sink: OtlpSink, ratio: float = 1) -> dict[str, Any]:
    return {"traces": {"otlp": {"endpoint": sink.endpoints["http/protobuf"]}, "sample_ratio": ratio}}


@in_loop
async def test_a_piece_of_work_is_below_the_one_around_it_and_says_of_an_error_only_its_type() -> None:
    with otlp_sink() as sink:
        async with measuring(**traces(sink)) as telemetry:
            with telemetry.traces.work("outer") as outer:
                outer.tell("renamed", {"spanfuse.calls": 2})
                with pytest.raises(ValueError, match="what came"), telemetry.traces.work("inner"):
                    raise ValueError("it may quote what came")
        await until(lambda: len(sink.spans) == 2, "both came", 20, 0.05)
    inner, outer_span = sink.spans
    assert (outer_span.name, inner.name, inner.parent_span_id) == ("renamed", "inner", outer_span.span_id)
    assert (inner.status_code, inner.attributes["error.type"]) == (2, "ValueError")
    assert "quote" not in str(sink.spans)


@in_loop
async def test_what_is_dropped_is_not_sent_and_of_the_others_the_share_that_is_set() -> None:
    with otlp_sink() as sink:
        async with measuring(**traces(sink, 0)) as telemetry:
            with telemetry.traces.work("left out"):
                pass
            sampled = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}
            with telemetry.traces.work("asked for", headers=sampled):
                pass
            with telemetry.traces.work("dropped", headers=sampled) as work:
                work.drop()
        await until(lambda: bool(sink.spans), "one came", 20, 0.05)
    (span,) = sink.spans
    assert (span.name, span.trace_id, span.parent_span_id) == ("asked for", "ab" * 16, "cd" * 8)


def test_without_a_receiver_work_costs_next_to_nothing() -> None:
    none = Traces()
    assert none.work("a") is none.work("b", {"c": 1}, headers={})
    with none.work("a") as work:
        work.tell("b", {"c": 1})
        work.drop()


@in_loop
async def test_a_host_whose_spans_come_back_to_it_takes_none_for_a_call_and_comes_to_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    port = free_port()
    config = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
        "extensions": {"api": {"endpoint": "127.0.0.1:0"}, "storage": {"path": ""}},
        "service": {"telemetry": {"traces": {"otlp": {"endpoint": f"http://127.0.0.1:{port}"}, "sample_ratio": 1}}},
    }
    host = EmbeddedHost(Config.model_validate(config))
    await host.start()
    try:
        for one in loop("run-1", 4):
            await host.engine.ingest(json.dumps(one).encode(), "json", time.time_ns())
        counters = host.engine.work.counters
        await until(
            lambda: counters["ingest/own"] == 2 * 4, "a span of each request and each batch came back", 20, 0.05
        )
        requests = counters["requests"]
        for one in loop("run-2", 1):
            await host.engine.ingest(json.dumps(one).encode(), "json", time.time_ns())
        await until(lambda: counters["ingest/own"] == 2 * 5, "those of the next as well", 20, 0.05)
        assert counters["requests"] <= requests + 3, "nothing else came back in the meantime"
        assert (counters["calls"], len(host.engine.work.sessions)) == (5, 2)
    finally:
        await host.stop()
