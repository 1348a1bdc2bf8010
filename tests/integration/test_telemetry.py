"""What hosts measure of themselves, as processes: scraped, pushed over OTLP, and compared with their status."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
import pytest

from spanfuse_processor.telemetry.catalogue import BY_NAME, CATALOGUE, COUNTED, FORBIDDEN, MAX_SETS
from spanfuse_processor.telemetry.counters import SELF_SCOPE
from tests.client.waiting import wait_until
from tests.services.kafka_service import KafkaService
from tests.services.redis_server import RedisService
from tests.support.alerting import call, loop
from tests.support.hosts import Deployment, api, embedded, stream
from tests.support.measured import Samples, samples, value
from tests.support.otlp_sink import OtlpSink, otlp_sink
from tests.support.stream import OTLP_SPANS, fresh_topics, send

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

BUDGETS = {"agent/each": {"limit_usd": 1}, "global/daily": {"limit_usd": 50, "period": "daily"}}
HOSTILE = "line\none\r\x1b[31m" + "🙂" * 10_000
SECRET = "What is the weather in Tokyo?"
LOAD = (
    *loop("run-1", 6, agent="lister", team="shop", model="house-7b"),
    *loop("run-2", 2, agent=HOSTILE, model=HOSTILE, cost_usd=0.25),
)
CALLS = len(LOAD)


class Process(NamedTuple):
    """A host with its load applied."""

    deployment: Deployment
    metrics: str
    status: dict[str, Any]
    sink: OtlpSink

    def scrape(self) -> Samples:
        response = httpx.get(self.metrics)
        assert response.headers["content-type"].startswith("text/plain")
        return samples(response.text)

    def counted(self) -> float:
        """Calls of the load that it has counted."""
        try:
            return value(self.scrape(), "spanfuse_calls_total")
        except KeyError:
            return 0


def telemetry(sink: OtlpSink) -> dict[str, Any]:
    pushed = {"endpoint": sink.endpoints["grpc"], "protocol": "grpc"}
    return {
        "metrics": {"endpoint": "127.0.0.1:0", "otlp": pushed | {"interval_s": 1}},
        "traces": {"otlp": pushed, "sample_ratio": 1},
        "logs": {"format": "json"},
        "resource": {"deployment.environment.name": "test"},
    }


def loaded(otlp: str) -> None:
    for one in LOAD:
        httpx.post(f"{otlp}/v1/traces", json=one).raise_for_status()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """`spanfuse up`."""
    with otlp_sink() as sink, ExitStack() as stack:
        config = {"service": {"mode": "enforce", "telemetry": telemetry(sink)}, "budgets": BUDGETS}
        up = stack.enter_context(embedded(tmp_path_factory.mktemp("alone"), config))
        loaded(up.otlp)
        httpx.post(f"{up.otlp}/v1/traces", content=b"\xff", headers={"Content-Type": "application/x-protobuf"})
        yield Process(up, f"{up.api}/metrics", httpx.get(f"{up.api}/v1/status").json(), sink)


@pytest.fixture(scope="module")
def fleet(
    kafka: KafkaService, redis_service: RedisService, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Process, str]]:
    """`spanfuse worker`, and the address of `spanfuse api` beside it."""
    asyncio.run(fresh_topics(kafka.brokers))
    readmodel = {"address": f"{redis_service.url}?tenant={uuid4().hex}"}
    with otlp_sink() as sink, ExitStack() as stack:
        extensions = {"readmodel": readmodel, "api": {"endpoint": "127.0.0.1:0"}}
        config = {"budgets": BUDGETS, "extensions": extensions, "service": {"mode": "enforce"}}
        folder = tmp_path_factory.mktemp("fleet")
        measured = config | {"service": {"mode": "enforce", "telemetry": telemetry(sink)}}
        worker = stack.enter_context(stream(folder, measured, kafka.brokers))
        asked = stack.enter_context(api(tmp_path_factory.mktemp("api"), config, kafka.brokers))
        (port,) = {found.group(1) for line in worker.lines if (found := re.search(r"metrics port (\d+)", line))}
        process = Process(worker, f"http://127.0.0.1:{port}/metrics", {}, sink)
        loaded(worker.otlp)
        asyncio.run(send(kafka.brokers, OTLP_SPANS, [(0, b"\xff")]))
        wait_until(lambda: process.counted() == CALLS, 60)
        wait_until(lambda: value(process.scrape(), "spanfuse_dead_letters_total") == 1, 60)
        wait_until(lambda: httpx.get(f"{asked}/v1/status").json()["counts"].get("calls") == CALLS, 30)
        yield process._replace(status=httpx.get(f"{asked}/v1/status").json()), asked


@pytest.fixture(params=["embedded", "worker"])
def process(request: pytest.FixtureRequest) -> Process:
    if request.param == "embedded":
        found: Process = request.getfixturevalue("alone")
        return found
    worker: Process = request.getfixturevalue("fleet")[0]
    return worker


def test_metrics_say_what_the_status_says(process: Process) -> None:
    found, counts = process.scrape(), process.status["counts"]
    assert value(found, "spanfuse_calls_total", kind="llm") == counts["calls"] == CALLS
    assert value(found, "spanfuse_calls_total", agent="lister", team="shop", model="house-7b") == 6
    assert value(found, "spanfuse_cost_usd_total") == pytest.approx(counts["cost_nano_usd"] / 1e9)
    assert value(found, "spanfuse_cost_usd_total", source="reported") == pytest.approx(0.5)
    assert value(found, "spanfuse_tokens_total", agent="lister", **{"class": "input"}) == 600
    for rule, n in counts["detections"].items():
        assert value(found, "spanfuse_detections_total", rule=rule) == n
    assert value(found, "spanfuse_decisions_total") == counts["decisions"] > 0
    assert value(found, "spanfuse_dead_letters_total", reason="undecodable") == counts["dead_letters"] == 1
    assert value(found, "spanfuse_unpriced_calls_total", model="openai/house-7b") == 6
    for name, instrument in COUNTED.items():
        assert value(found, instrument.prometheus) == counts.get(name, 0), name
    assert value(found, "spanfuse_policy_epoch") == process.status["policy_epoch"]
    assert value(found, "spanfuse_info", host=process.deployment.name.replace("stream", "worker"), mode="enforce") == 1


def test_what_is_at_present_is_measured(process: Process) -> None:
    found = process.scrape()
    assert value(found, "spanfuse_state_entries", kind="session") == 2
    assert value(found, "spanfuse_state_entries", kind="agent") == 2
    assert value(found, "spanfuse_state_bytes") > 1_000
    assert value(found, "spanfuse_budget_used_usd", scope="global", id="*", budget="global/daily") > 0.5
    assert value(found, "spanfuse_budget_limit_usd", scope="agent", id="lister", budget="agent/each") == 1
    assert value(found, "spanfuse_budget_period_seconds", budget="global/daily") == 86_400
    assert value(found, "spanfuse_ready") == value(found, "spanfuse_live") == 1
    assert value(found, "spanfuse_uptime_seconds") > 0
    assert value(found, "process_resident_memory_bytes") > 0


def test_work_and_delays_are_measured(process: Process) -> None:
    found = process.scrape()
    assert value(found, "spanfuse_end_to_end_delay_seconds_count", stage="counted") == CALLS
    assert value(found, "spanfuse_end_to_end_delay_seconds_count", stage="published") >= 1
    assert value(found, "spanfuse_batch_calls_sum") == CALLS
    for stage in ("ingest", "detect"):
        assert value(found, "spanfuse_step_duration_seconds_count", stage=stage) >= CALLS / 8
        assert value(found, "spanfuse_step_duration_seconds_sum", stage=stage) > 0


def test_hostile_names_are_cut_and_escaped_and_no_label_is_a_session(process: Process) -> None:
    text = httpx.get(process.metrics).text
    assert not re.search(r"[\r\x1b]", text)
    assert max(map(len, text.split("\n"))) < 1_500
    known = {instrument.prometheus: instrument for instrument in CATALOGUE}
    families: dict[str, set[tuple[tuple[str, str], ...]]] = {}
    for name, labels in samples(text):
        if name.startswith("spanfuse_"):
            instrument = known.get(name) or known[re.sub(r"_(bucket|sum|count)$", "", name)]
            assert {label for label, _ in labels} - {"le"} == set(instrument.attributes)
            families.setdefault(instrument.name, set()).add(tuple(one for one in labels if one[0] != "le"))
        assert not {label for label, _ in labels} & FORBIDDEN, name
    assert all(len(sets) <= MAX_SETS + 1 for sets in families.values())
    assert "run-1" not in text
    assert SECRET not in text


def test_metrics_are_pushed_over_otlp_as_they_are_scraped(process: Process) -> None:
    sink = process.sink
    wait_until(lambda: "spanfuse.calls" in sink.latest(), 20)
    latest = sink.latest()
    assert set(latest) <= set(BY_NAME)
    assert {metric.unit for metric in latest.values()} == {BY_NAME[name].unit for name in latest}
    points = latest["spanfuse.calls"].sum
    assert points.is_monotonic
    assert sum(point.as_double for point in points.data_points) == CALLS
    (delay,) = (
        point
        for point in latest["spanfuse.end_to_end_delay"].histogram.data_points
        if point.attributes[0].value.string_value == "counted"
    )
    assert (delay.count, sum(delay.bucket_counts)) == (CALLS, CALLS)
    assert sink.resource()["service.name"] == "spanfuse"
    assert sink.resource()["deployment.environment.name"] == "test"


def test_work_is_traced_without_content(process: Process) -> None:
    sink = process.sink
    names = {"spanfuse.ingest", "spanfuse.apply" if process.deployment.name == "embedded" else "spanfuse.detect"}
    wait_until(lambda: names <= {span.name for span in sink.spans}, 20)
    assert {span.scope for span in sink.spans} == {SELF_SCOPE}
    assert SECRET not in str(sink.spans)
    assert "run-1" not in str(sink.spans)


def test_a_worker_tells_a_supervisor_how_it_is_and_how_far_it_is_behind(fleet: tuple[Process, str]) -> None:
    worker, _ = fleet
    base = worker.metrics.removesuffix("/metrics")
    assert [httpx.get(f"{base}/{path}").status_code for path in ("healthz", "readyz", "none")] == [200, 200, 404]
    assert httpx.post(f"{base}/metrics").status_code == 405

    def lag() -> Samples:
        return {at: n for at, n in worker.scrape().items() if at[0] == "spanfuse_lag_messages"}

    wait_until(lambda: len(lag()) == 4 * 4 and not any(lag().values()), 30)
    assert value(worker.scrape(), "spanfuse_partition_idle_seconds") == 0


def test_an_api_adds_what_workers_do_not_say_and_repeats_nothing(fleet: tuple[Process, str]) -> None:
    worker, asked = fleet

    def of_api() -> Samples:
        return samples(httpx.get(f"{asked}/metrics").text)

    wait_until(lambda: value(of_api(), "spanfuse_workers") == 1, 20)
    wait_until(lambda: any(name == "spanfuse_fleet_lag_messages" for name, _ in of_api()), 20)
    found = of_api()
    assert value(found, "spanfuse_open_breakers", scope="session", action="block") == 1
    assert value(found, "spanfuse_api_request_duration_seconds_count", route="/v1/status") > 0
    both = {name for name, _ in found if name.startswith("spanfuse_")} & {name for name, _ in worker.scrape()}
    about_itself = ("ready", "live", "uptime_seconds", "info", "policy_epoch", "telemetry_exports_total")
    assert both <= {f"spanfuse_{name}" for name in about_itself}


def test_the_log_of_a_worker_is_objects(fleet: tuple[Process, str]) -> None:
    lines = [json.loads(line) for line in fleet[0].deployment.lines]
    assert any(line["body"].startswith("spanfuse worker is up") for line in lines)
    assert all({"timestamp", "severity_text", "logger", "body"} <= set(line) for line in lines)


def test_a_call_counts_once_more_when_its_agent_goes_on(alone: Process) -> None:
    before = value(alone.scrape(), "spanfuse_calls_total", agent="lister")
    httpx.post(f"{alone.deployment.otlp}/v1/traces", json=call("run-3", 1, agent="lister")).raise_for_status()
    assert value(alone.scrape(), "spanfuse_calls_total", agent="lister") == before + 1
