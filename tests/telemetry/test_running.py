"""The telemetry of a host: what a scrape says, what a supervisor hears, and that hosts do not get into each other's way."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx
import pytest

from spanfuse_processor.errors import SpanfuseError
from spanfuse_processor.telemetry.catalogue import BUDGET_USED, CALLS, CATALOGUE, DELAY, SESSIONS
from spanfuse_processor.telemetry.running import Telemetry
from tests.support.loops import in_loop
from tests.support.measured import Host, measuring, samples, scraped, value

ANY: dict[str, Any] = {"metrics": {"endpoint": "127.0.0.1:0"}}


async def get(telemetry: Telemetry, path: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.get(f"http://127.0.0.1:{telemetry.port}{path}")


@in_loop
async def test_hosts_in_one_process_measure_each_for_itself() -> None:
    """Nothing is registered globally."""
    async with measuring(**ANY) as one, measuring(kind="worker", **ANY) as other:
        one.tallies.counter(CALLS).add(("llm", "a", "", "m"), 3)
        other.tallies.counter(CALLS).add(("llm", "a", "", "m"), 4)
        found = [samples((await get(each, "/metrics")).text) for each in (one, other)]
    assert [value(of, "spanfuse_calls_total", agent="a") for of in found] == [3, 4]
    assert [value(of, "spanfuse_info", host=kind) for of, kind in zip(found, ("embedded", "worker"), strict=True)] == [
        1,
        1,
    ]
    ids = {dict(labels)["service_instance_id"] for of in found for name, labels in of if name == "target_info"}
    assert len(ids) == 2


@in_loop
async def test_a_histogram_is_cumulative_and_its_last_bucket_has_all() -> None:
    async with measuring() as telemetry:
        telemetry.tallies.histogram(DELAY).record(("counted",), [0.2, 0.2, 7, 10_000])
        found = await scraped(telemetry)
    name = "spanfuse_end_to_end_delay_seconds"
    buckets = [n for (of, _), n in found.items() if of == f"{name}_bucket"]
    assert buckets == sorted(buckets)
    assert value(found, f"{name}_bucket", le="0.25") == 2
    assert value(found, f"{name}_bucket", le="+Inf") == value(found, f"{name}_count") == 4
    assert value(found, f"{name}_sum") == pytest.approx(10_007.4)


@in_loop
async def test_what_is_known_beforehand_begins_with_nothing_rather_than_being_absent() -> None:
    """A rate does not see a series that begins."""
    async with measuring() as telemetry:
        found = await scraped(telemetry)
    for instrument in CATALOGUE:
        if "embedded" in instrument.hosts:
            assert all(found[instrument.prometheus, ((instrument.attributes[0], v),)] == 0 for v in instrument.values)


@in_loop
async def test_a_gauge_that_is_not_observed_any_more_is_not_told_any_more() -> None:
    host = Host()
    host.observed = {BUDGET_USED: {("agent", "a", "each"): 1.0}, SESSIONS: {(): 2}}
    async with measuring(host) as telemetry:
        assert value(await scraped(telemetry), "spanfuse_budget_used_usd", id="a") == 1
        host.observed = {SESSIONS: {(): 3}}
        found = await scraped(telemetry)
    assert value(found, "spanfuse_sessions") == 3
    assert not any(name == "spanfuse_budget_used_usd" for name, _ in found)


@in_loop
async def test_scrapes_at_one_time_are_answered_each() -> None:
    async with measuring() as telemetry:
        found = await asyncio.gather(*(scraped(telemetry) for _ in range(5)))
    assert all(value(of, "spanfuse_ready") == 1 for of in found)


@in_loop
async def test_a_supervisor_hears_whether_the_host_is_ready_and_live() -> None:
    host = Host()
    async with measuring(host, **ANY) as telemetry:
        assert [(await get(telemetry, path)).status_code for path in ("/healthz", "/readyz")] == [200, 200]
        host.ready = False
        assert [(await get(telemetry, path)).status_code for path in ("/healthz", "/readyz")] == [200, 503]
        host.live = False
        assert (await get(telemetry, "/healthz")).status_code == 503
        assert (await get(telemetry, "/else")).status_code == 404


@in_loop
async def test_a_look_that_fails_is_answered_and_logged_once_and_health_is_told_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = Host()
    host.failure = RuntimeError("of the store")
    async with measuring(host, **ANY) as telemetry:
        assert [(await get(telemetry, "/metrics")).status_code for _ in range(3)] == [500] * 3
        assert (await get(telemetry, "/healthz")).status_code == 200
        host.failure = None
        assert (await get(telemetry, "/metrics")).status_code == 200
    assert len(caplog.records) == 1


@in_loop
async def test_a_default_address_that_is_taken_is_told_and_stops_nothing_and_one_that_is_set_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Two workers on one machine."""
    async with measuring(**ANY) as first:
        taken = f"127.0.0.1:{first.port}"
        async with measuring(kind="worker", default_endpoint=taken) as second:
            assert second.port == 0
        (told,) = caplog.messages
        assert "service.telemetry.metrics.endpoint" in told
        with pytest.raises(SpanfuseError, match="cannot listen"):
            async with measuring(metrics={"endpoint": taken}):
                pass
        async with measuring(default_endpoint="127.0.0.1:0", metrics={"endpoint": ""}) as nowhere:
            assert nowhere.port == 0


@in_loop
async def test_the_resource_is_named_by_the_environment_and_above_it_by_the_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=ours,region=north,zone=a")
    async with measuring(resource={"zone": "b", "service.instance.id": "one"}) as telemetry:
        found = await scraped(telemetry)
    assert value(found, "target_info", service_name="ours", region="north", zone="b", service_instance_id="one") == 1


@in_loop
async def test_an_sdk_that_is_switched_off_measures_nothing_and_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    async with measuring() as telemetry:
        telemetry.tallies.counter(CALLS).add(("llm", "a", "", "m"))
        found = await scraped(telemetry)
    assert {name.partition("_")[0] for name, _ in found} == {"process"}


def test_nothing_of_it_logs_below_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "spanfuse_processor.telemetry")

    @in_loop
    async def run() -> None:
        async with measuring(**ANY) as telemetry:
            await get(telemetry, "/metrics")

    run()
    assert not [record for record in caplog.records if record.name.startswith("spanfuse_processor")]
