"""What the proxy measures of itself."""

from __future__ import annotations

import httpx
import pytest

from spanfuse_processor.errors import ConfigError
from spanfuse_processor.proxy.settings import ProxySettings
from spanfuse_processor.telemetry.catalogue import BY_NAME
from tests.client.waiting import wait_until
from tests.proxy.conftest import CHAT, body
from tests.support.fake_provider import FakeProvider, failure
from tests.support.measured import samples, value
from tests.support.proxied import Proxied


def test_requests_are_counted_by_what_became_of_them_and_timed_until_the_answer_begins(provider: FakeProvider) -> None:
    with Proxied(provider, metrics="127.0.0.1:0") as proxied:
        base = f"http://127.0.0.1:{proxied.server.metrics_port}"
        for _ in range(3):
            httpx.post(f"{proxied.url}{CHAT}", json=body()).raise_for_status()
        httpx.get(f"{proxied.url}/nothing")
        provider.script(failure(429))
        httpx.post(f"{proxied.url}{CHAT}", json=body())
        wait_until(lambda: "under_way 0.0" in httpx.get(f"{base}/metrics").text, 5)
        found = samples(httpx.get(f"{base}/metrics").text)
        assert value(found, "spanfuse_proxy_requests_total", kind="requests") == 4
        assert value(found, "spanfuse_proxy_requests_total", kind="refused_4xx") == 1
        times = "spanfuse_proxy_request_duration_seconds_count"
        assert value(found, times, provider="openai", status="2xx") == 3
        assert value(found, times, provider="openai", status="4xx") == 1
        names = {name for name, _ in found if name.startswith("spanfuse_")}
        known = {i.prometheus for i in BY_NAME.values() if "proxy" in i.hosts}
        assert {name for name in names if "duration" not in name} <= known
        assert httpx.get(f"{base}/readyz").status_code == 200


def test_without_an_address_nothing_is_measured(provider: FakeProvider) -> None:
    with Proxied(provider) as proxied:
        assert proxied.server.metrics_port == 0


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="9464"):
        ProxySettings(metrics="9464")
