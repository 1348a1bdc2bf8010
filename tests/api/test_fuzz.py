"""Whatever is asked, no answer is a 5xx, and each is as the document says: schemathesis, with the same cases at every run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    response_schema_conformance,
    status_code_conformance,
)

from spanfuse_processor.api.app import create_app
from spanfuse_processor.hosts.embedded import EmbeddedHost
from spanfuse_processor.serving import HttpServer
from tests.hosts.test_embedded import config, send
from tests.support.api import FakeAlerts
from tests.support.console import FakeConsole
from tests.support.recorded import repeater

STREAMS = ("/v1/events", "/v1/decisions/stream")
CHECKS: list[Any] = [not_a_server_error, response_schema_conformance, status_code_conformance]
EXAMPLES = 15


@contextmanager
def in_a_thread(start: Any, stop: Any) -> Iterator[int]:
    """A server in a loop of its own.

    Args:
        start: gives the port.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="api of this test")
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@pytest.fixture(scope="module", params=["in memory", "embedded"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where the API of a host is."""
    stop: Any
    if request.param == "embedded":
        host = EmbeddedHost(config(budgets={"user/daily": {"limit_usd": 5, "period": "daily"}}))

        async def start() -> int:
            await host.start()
            await send(host.http_port, *repeater(4))
            return host.api_port

        stop = host.stop
    else:
        console = FakeConsole()
        server = HttpServer("the API", create_app(console, alerts=FakeAlerts()), "127.0.0.1", 0)
        start = server.start

        async def stop() -> None:
            console.log.hub.close()
            await server.stop(1)

    with in_a_thread(start, stop) as port:
        yield f"http://127.0.0.1:{port}"


def _operations() -> dict[str, Any]:
    app: Any = create_app(FakeConsole(1))
    results: Iterator[Any] = schemathesis.openapi.from_dict(app.app.openapi()).get_all_operations()
    found = [result.ok() for result in results]
    return {one.label: one for one in found if one.path not in STREAMS}


OPERATIONS = _operations()


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_request_fails_the_api(name: str, url: str) -> None:
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)

    @given(case=st.one_of(*(OPERATIONS[name].as_strategy(generation_mode=mode) for mode in modes)))
    @settings(
        max_examples=EXAMPLES, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    def asks(case: Any) -> None:
        case.call_and_validate(base_url=url, checks=CHECKS)

    asks()
