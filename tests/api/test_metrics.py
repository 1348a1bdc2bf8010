"""`/metrics` of the API, and how long its requests take."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from spanfuse_processor.api import timed
from spanfuse_processor.api.access import Access
from spanfuse_processor.api.app import create_app
from spanfuse_processor.api.timed import Timed
from spanfuse_processor.telemetry.running import Telemetry
from tests.support.api import READ, SETTINGS, bearer
from tests.support.console import FakeConsole
from tests.support.loops import in_loop
from tests.support.measured import Host, Samples, measuring, samples, scraped, value

TIMES = "spanfuse_api_request_duration_seconds_count"


@asynccontextmanager
async def served(host: Host | None = None, access: Access | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an API that measures itself."""
    async with measuring(host) as telemetry:
        transport = httpx.ASGITransport(create_app(FakeConsole(), access=access, telemetry=telemetry), False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


def measured(response: httpx.Response) -> Samples:
    return samples(response.text)


@in_loop
async def test_what_is_measured_is_told_to_readers() -> None:
    async with served(access=Access(SETTINGS)) as client:
        assert (await client.get("/metrics")).status_code == 401
        found = measured(await client.get("/metrics", headers=bearer(READ)))
    assert value(found, "spanfuse_ready") == 1
    assert value(found, "process_resident_memory_bytes") > 0


@in_loop
async def test_openmetrics_is_given_where_it_is_asked_for() -> None:
    async with served() as client:
        assert (await client.get("/metrics")).headers["content-type"].startswith("text/plain; version=")
        response = await client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert response.headers["content-type"].startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")


@in_loop
async def test_an_api_that_measures_nothing_says_so() -> None:
    transport = httpx.ASGITransport(create_app(FakeConsole()))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert (await client.get("/metrics")).status_code == 404


@in_loop
async def test_requests_are_timed_by_route_method_and_class_of_status() -> None:
    """Never by path: a session's id is in it."""
    async with served() as client:
        for path in ("/v1/sessions/run-00001", "/v1/sessions/run-00002", "/v1/sessions/nobody", "/v1/status", "/none"):
            await client.get(path)
        await client.request("BREW", "/v1/status")
        found = measured(await client.get("/metrics"))
    assert value(found, TIMES, route="/v1/sessions/{session}", method="GET", status="2xx") == 2
    assert value(found, TIMES, route="/v1/sessions/{session}", status="4xx") == 1
    assert value(found, TIMES, route="/v1/status", method="GET", status="2xx") == 1
    assert value(found, TIMES, route="other", method="GET", status="4xx") == 1
    assert not any("run-0000" in str(labels) or "BREW" in str(labels) for _, labels in found)


async def _timed(telemetry: Telemetry, app: Any) -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        pass

    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    await Timed(app, telemetry)(scope, receive, send)


@in_loop
async def test_of_a_stream_it_is_timed_how_long_it_takes_to_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([1.0, 3.5, 900.0])
    monkeypatch.setattr(timed, "time", SimpleNamespace(perf_counter=lambda: next(clock)))

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async with measuring() as telemetry:
        await _timed(telemetry, stream)
        found = await scraped(telemetry)
    assert value(found, TIMES, status="2xx") == 1
    assert value(found, "spanfuse_api_request_duration_seconds_sum") == 2.5


@in_loop
async def test_a_request_that_ends_in_an_error_is_one_of_the_5xx() -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("of the application")

    async with measuring() as telemetry:
        with pytest.raises(ValueError, match="of the application"):
            await _timed(telemetry, fail)
        assert value(await scraped(telemetry), TIMES, status="5xx") == 1
