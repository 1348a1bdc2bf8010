"""What passes: requests and answers as they are, but for what belongs to one connection."""

from __future__ import annotations

import gzip
import json
import threading

import httpx
import pytest

from tests.client.waiting import wait_until
from tests.proxy.conftest import CHAT, body
from tests.support.fake_provider import FakeProvider, Hold, Raw, Reply, failure
from tests.support.proxied import Proxied


def test_a_request_arrives_as_it_was_sent(provider: FakeProvider, client: httpx.Client) -> None:
    data = b'{ "model":"gpt-4o-mini",  "messages":[{"role":"user","content":"h\\u00e9"}] }'
    headers = {
        "content-type": "application/json",
        "authorization": "Bearer sk-1",
        "x-custom": "1",
        "openai-organization": "o",
    }
    client.post(f"{CHAT}?beta=a%2Fb", content=data, headers=headers)
    (asked,) = provider.requests
    assert (asked.method, asked.path, asked.query, asked.raw) == ("POST", CHAT, "beta=a%2Fb", data)
    assert headers.items() <= asked.headers.items()
    assert asked.headers["host"] == provider.url.removeprefix("http://")
    assert asked.headers["content-length"] == str(len(data))


def test_what_belongs_to_the_connection_and_to_us_does_not_go_upstream(
    provider: FakeProvider, client: httpx.Client
) -> None:
    client.post(
        CHAT,
        json=body(),
        headers={
            "Connection": "keep-alive, X-Hop",
            "X-Hop": "1",
            "TE": "trailers",
            "Proxy-Authorization": "secret",
            "X-Spanfuse-Session-ID": "s",
            "X-Spanfuse-Whatever": "1",
            "X-Loopers-Session-Budget": "5",
        },
    )
    sent = provider.requests[0].headers
    assert not {"x-hop", "te", "proxy-authorization"} & sent.keys()
    assert not [name for name in sent if name.startswith(("x-spanfuse", "x-loopers"))]


@pytest.mark.parametrize(
    ("path", "header", "value"), [(CHAT, "authorization", "Bearer sk-real"), ("/v1/messages", "x-api-key", "sk-real")]
)
@pytest.mark.parametrize("prefix", ["X-Loopers", "X-Spanfuse"])
def test_the_providers_key_goes_in_place_of_the_clients(
    provider: FakeProvider, client: httpx.Client, path: str, header: str, value: str, prefix: str
) -> None:
    credentials = {"Authorization": "Bearer lp-xxx", "x-api-key": "lp-xxx", f"{prefix}-Provider-Key": "sk-real"}
    client.post(path, json=body(), headers=credentials)
    sent = provider.requests[0].headers
    assert {k: v for k, v in sent.items() if k in ("authorization", "x-api-key")} == {header: value}


def test_an_answer_comes_back_as_it_was_given(provider: FakeProvider, client: httpx.Client) -> None:
    given = {
        "content-type": "application/json",
        "x-request-id": "req_1",
        "openai-processing-ms": "12",
        "keep-alive": "x",
    }
    data = json.dumps({"id": "chatcmpl-1", "choices": []}, indent=3).encode()
    provider.script(Raw(200, data, given))
    answer = client.post(CHAT, json=body())
    assert (answer.status_code, answer.content) == (200, data)
    assert (answer.headers["x-request-id"], answer.headers["openai-processing-ms"]) == ("req_1", "12")
    assert answer.headers["content-length"] == str(len(data))
    assert "keep-alive" not in answer.headers
    assert len(answer.headers.get_list("date")) == 1


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 529])
def test_an_error_of_the_provider_comes_back_as_it_was_given(
    provider: FakeProvider, client: httpx.Client, status: int
) -> None:
    provider.script(failure(status, "no such luck", retry_after="7", x_should_retry="true"))
    answer = client.post(CHAT, json=body())
    assert (answer.status_code, answer.json()["error"]["message"]) == (status, "no such luck")
    assert (answer.headers["retry-after"], answer.headers["x-should-retry"]) == ("7", "true")
    assert provider.calls == 1


def test_what_is_no_json_passes_like_anything_else(provider: FakeProvider, client: httpx.Client) -> None:
    provider.script(Raw(200, b'{"choices": [', {"content-type": "application/json"}))
    assert client.post(CHAT, content=b"nonsense").content == b'{"choices": ['
    assert provider.requests[0].raw == b"nonsense"


def test_a_compressed_answer_stays_compressed_and_its_cost_is_known(
    provider: FakeProvider, client: httpx.Client
) -> None:
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 0, "total_tokens": 1_000_000}
    data = gzip.compress(json.dumps({"model": "gpt-4o-mini", "choices": [], "usage": usage}).encode())
    provider.script(Raw(200, data, {"content-type": "application/json", "content-encoding": "gzip"}))
    with client.stream("POST", CHAT, json=body(), headers={"accept-encoding": "br, gzip;q=0.5, zstd"}) as answer:
        assert b"".join(answer.iter_raw()) == data
    assert answer.headers["content-encoding"] == "gzip"
    assert float(answer.headers["x-spanfuse-cost"]) > 0.1
    assert provider.requests[0].headers["accept-encoding"] == "gzip;q=0.5"


def test_a_compressed_request_is_read_and_passes_compressed(provider: FakeProvider, client: httpx.Client) -> None:
    data = gzip.compress(json.dumps(body() | {"metadata": {"session_id": "s"}}).encode())
    headers = {"content-encoding": "gzip", "content-type": "application/json"}
    answer = client.post(CHAT, content=data, headers=headers)
    assert provider.requests[0].raw == data
    assert answer.headers["x-spanfuse-session-steps"] == "1"


def test_a_request_in_an_encoding_that_cannot_be_read_does_not_pass_unseen(
    provider: FakeProvider, client: httpx.Client
) -> None:
    answer = client.post(CHAT, content=b"x", headers={"content-encoding": "zstd"})
    assert (answer.status_code, provider.calls) == (415, 0)


def test_everything_else_under_v1_passes(provider: FakeProvider, client: httpx.Client) -> None:
    assert client.get("/v1/models").json()["data"][0]["id"] == "fake-1"
    provider.script(Raw(200, b"", {}), Raw(201, b'{"id": "file-1"}'))
    assert client.request("HEAD", "/v1/files/file-1/content").status_code == 200
    sent = bytes(range(256)) * 4096
    answer = client.post("/v1/files", content=(sent[n : n + 65536] for n in range(0, len(sent), 65536)))
    assert (answer.status_code, answer.json()) == (201, {"id": "file-1"})
    assert provider.requests[-1].raw == sent
    assert provider.requests[-1].path == "/v1/files"


def test_connections_to_the_provider_are_kept(provider: FakeProvider, client: httpx.Client) -> None:
    for _ in range(5):
        client.post(CHAT, json=body())
    assert len({asked.client for asked in provider.requests}) == 1


def test_a_large_request_is_refused_before_it_fills_the_memory(provider: FakeProvider) -> None:
    with Proxied(provider, max_body_bytes=10_000) as small, httpx.Client(base_url=small.url) as client:
        assert client.post(CHAT, content=b"x" * 10_001).status_code == 413
        assert client.post(CHAT, content=iter([b"x" * 6_000] * 2)).status_code == 413
        bomb = gzip.compress(b" " * 10_000_000)
        assert client.post(CHAT, content=bomb, headers={"content-encoding": "gzip"}).status_code == 413
        answer = client.post(CHAT, content=b"x" * 10_001)
        assert answer.json()["error"]["code"] == "spanfuse_too_large"
        assert provider.calls == 0


def test_a_provider_that_is_away_is_502_and_one_that_is_silent_504() -> None:
    with Proxied("http://127.0.0.1:9") as proxied, httpx.Client(base_url=proxied.url) as client:
        answer = client.post(CHAT, json=body())
        assert (answer.status_code, answer.json()["error"]["code"]) == (502, "spanfuse_provider_unreachable")
    never = threading.Event()
    with FakeProvider(Hold(Reply(), never)) as provider, Proxied(provider, timeout_s=0.2) as proxied:
        answer = httpx.post(f"{proxied.url}{CHAT}", json=body())
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "spanfuse_provider_timeout")
        wait_until(lambda: provider.underway == 0)


def test_a_client_that_gives_up_gives_up_at_the_provider_too(provider: FakeProvider, proxied: Proxied) -> None:
    never = threading.Event()
    for path, method in ((CHAT, "POST"), ("/v1/models", "GET")):
        provider.script(Hold(Reply(), never))
        with pytest.raises(httpx.ReadTimeout):
            httpx.request(method, f"{proxied.url}{path}", json=body(), timeout=0.5)
        wait_until(lambda: provider.underway == 0, what="the provider is left alone")
    assert provider.left == 2
    assert proxied.server.app.counts["clients_gone"] == 2


def test_paths_that_lead_nowhere_say_so(client: httpx.Client, provider: FakeProvider) -> None:
    answer = client.post("/chat/completions", json=body())
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "spanfuse_not_found")
    assert provider.calls == 0


def test_health_needs_no_provider(client: httpx.Client, proxied: Proxied) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() | {"counts": {}} == {
        "ready": True,
        "guard": "ready",
        "under_way": 0,
        "counts": {},
    }
    proxied.server.app.ready = False
    assert client.get("/readyz").status_code == 503
