"""What is counted, as Prometheus reads it."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from spanfuse_processor.api.metrics import MAX_LABELS
from spanfuse_processor.telemetry import COUNTERS, FAMILIES
from tests.support.api import Api
from tests.support.loops import in_loop


async def samples(api: Api) -> dict[tuple[str, tuple[str, ...]], float]:
    text = (await api.send("GET", "/metrics")).text
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@in_loop
async def test_the_status_and_all_that_is_counted_are_metrics(api: Api) -> None:
    status = await api.host.status()
    found = await samples(api)
    assert found["spanfuse_calls_total", ()] == status["counts"]["calls"]
    assert found["spanfuse_detections_total", ("cycle",)] == 3
    assert found["spanfuse_open_breakers", ()] == status["open_breakers"]
    assert found["spanfuse_info", ("embedded", "observe", "0.1.0")] == 1
    assert (found["spanfuse_ready", ()], found["spanfuse_live", ()]) == (1, 1)
    assert found["process_resident_memory_bytes", ()] > 0


@in_loop
async def test_every_counter_of_a_host_has_a_name_and_a_help(api: Api) -> None:
    counts = dict.fromkeys(COUNTERS, 1) | {family: {"a": 1} for family in FAMILIES}
    said = await api.host.status()

    async def status() -> dict[str, object]:
        return said | {"counts": counts}

    api.host.status = status  # type: ignore[method-assign]
    found = await samples(api)
    assert {f"spanfuse_{name}_total" for name in (*COUNTERS, *FAMILIES)} <= {name for name, _ in found}


@in_loop
async def test_there_are_no_more_series_than_labels_are_allowed(api: Api) -> None:
    said = await api.host.status()

    async def status() -> dict[str, object]:
        return said | {"counts": {"detections": {f"rule-{n}": n for n in range(1000)}}}

    api.host.status = status  # type: ignore[method-assign]
    found = {
        label: value for (name, label), value in (await samples(api)).items() if name == "spanfuse_detections_total"
    }
    assert len(found) == MAX_LABELS + 1
    assert sum(found.values()) == sum(range(1000))


@in_loop
async def test_openmetrics_is_given_where_it_is_asked_for(api: Api) -> None:
    plain = await api.send("GET", "/metrics")
    assert plain.headers["content-type"].startswith("text/plain; version=")
    response = await api.send("GET", "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert response.headers["content-type"].startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")


@in_loop
async def test_a_stream_tells_whether_its_workers_keep_up_and_nothing_where_that_is_not_known(api: Api) -> None:
    said = await api.host.status()
    workers: list[object] = [{"worker": "a", "ready": True}, {"worker": "b", "ready": False}]

    async def status() -> dict[str, object]:
        return said | {"workers": workers, "lag": {"otlp_spans": 7} if workers else None}

    api.host.status = status  # type: ignore[method-assign]
    found = await samples(api)
    assert (found["spanfuse_workers", ()], found["spanfuse_lag_messages", ("otlp_spans",)]) == (1, 7)
    workers.clear()
    assert not any(name == "spanfuse_lag_messages" for name, _ in await samples(api))
