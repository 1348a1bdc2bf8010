"""What waits has a timeout, what grows has a bound."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from spanfuse.calls import caps
from tests.client.waiting import wait_until
from tests.proxy.conftest import CHAT, body
from tests.services.certificates import Certificates
from tests.support.fake_provider import FakeProvider, Hold, Raw, Reply
from tests.support.proxied import Proxied, guard


def connected(proxied: Proxied) -> socket.socket:
    host, port = proxied.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


@pytest.mark.parametrize("path", [CHAT, "/v1/files"])
def test_a_request_that_does_not_come_is_given_up(
    provider: FakeProvider, proxied: Proxied, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr("spanfuse_processor.proxy.wire.BODY_TIMEOUT_S", 0.2)
    with connected(proxied) as slow:
        slow.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{".encode())
        assert slow.recv(65536).startswith(b"HTTP/1.1 408")
    wait_until(lambda: provider.underway == 0)


def test_a_client_that_leaves_in_the_middle_of_its_upload_leaves_nothing_behind(
    provider: FakeProvider, proxied: Proxied
) -> None:
    with connected(proxied) as leaving:
        leaving.sendall(b"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
        wait_until(lambda: proxied.server.app.counts["requests"] == 1)
    wait_until(lambda: proxied.server.app.counts["clients_gone"] == 1)
    assert httpx.get(f"{proxied.url}/readyz").json()["under_way"] == 0


def test_more_memory_than_there_is_room_for_is_busy(provider: FakeProvider, proxied: Proxied) -> None:
    release = threading.Event()
    provider.default = Hold(Reply(), release)
    proxied.server.app._room.limit = 10_000
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(httpx.post, f"{proxied.url}{CHAT}", content=b"x" * 9_000)
        wait_until(lambda: provider.underway == 1)
        second = httpx.post(f"{proxied.url}{CHAT}", content=b"x" * 9_000)
        release.set()
        assert first.result(20).status_code == 200
    assert (second.status_code, second.json()["error"]["code"]) == (503, "spanfuse_busy")
    assert second.headers["retry-after"] == "1"
    assert "x-should-retry" not in second.headers
    assert httpx.post(f"{proxied.url}{CHAT}", content=b"x" * 9_000).status_code == 200


def test_more_requests_than_it_takes_at_one_time_are_busy(
    provider: FakeProvider, proxied: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spanfuse_processor.proxy.handler.MAX_UNDER_WAY", 0)
    assert httpx.post(f"{proxied.url}{CHAT}", json=body()).status_code == 503
    assert httpx.get(f"{proxied.url}/healthz").status_code == 200


def test_what_is_known_of_sessions_is_bounded(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caps, "MAX_SESSIONS", 20)
    with Proxied(provider, guard(local=True)) as proxied, httpx.Client(base_url=proxied.url) as client:
        for n in range(60):
            headers = {"X-Spanfuse-Session-ID": f"run-{n}", "X-Spanfuse-Session-Budget": "1"}
            assert client.post(CHAT, json=body(), headers=headers).status_code == 200
        assert len(proxied.guard.caps._tallies) == 20


def test_a_client_that_waits_for_leave_to_send_gets_it(provider: FakeProvider, proxied: Proxied) -> None:
    with connected(proxied) as polite:
        polite.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n".encode())
        assert polite.recv(65536).startswith(b"HTTP/1.1 100")
        polite.sendall(b"{}")
        assert polite.recv(65536).startswith(b"HTTP/1.1 200")
    assert "expect" not in provider.requests[0].headers


def test_long_and_foreign_headers_pass(provider: FakeProvider, proxied: Proxied) -> None:
    provider.script(Raw(200, b"{}", {"content-type": "application/json", "x-long": "y" * 20_000, "x-name": "Zoë"}))
    with httpx.Client(base_url=proxied.url) as client:
        answer = client.post(CHAT, json=body(), headers=[(b"x-name", "Zoë".encode()), (b"x-long", b"y" * 20_000)])
    assert len(answer.headers["x-long"]) == 20_000
    assert provider.requests[0].headers["x-name"].encode("latin-1") == "Zoë".encode()
    assert answer.headers["x-name"] == "Zoë"


def test_an_answer_in_an_encoding_that_nobody_asked_for_passes(provider: FakeProvider, proxied: Proxied) -> None:
    provider.script(Raw(200, b"\x0b\x02\x80{}\x03", {"content-type": "application/json", "content-encoding": "br"}))
    with httpx.stream("POST", f"{proxied.url}{CHAT}", json=body()) as answer:
        assert b"".join(answer.iter_raw()) == b"\x0b\x02\x80{}\x03"
    assert answer.headers["content-encoding"] == "br"


def test_a_large_answer_is_not_held_back(
    provider: FakeProvider, proxied: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spanfuse_processor.proxy.exchange.HELD_BYTES", 1_000)
    release = threading.Event()
    pieces = [b'{"choices": [], "x": "' + b"y" * 2_000, b'"}']
    provider.script(Hold(Raw(200, pieces), release, after=1))
    with httpx.stream("POST", f"{proxied.url}{CHAT}", json=body()) as answer:
        got = answer.iter_raw()
        assert len(next(got)) > 1_000
        release.set()
        assert b"".join(got).endswith(b'"}')


def test_providers_are_reached_through_the_proxy_of_the_environment(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", provider.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Proxied("http://api.provider.test") as proxied:
        assert httpx.post(f"{proxied.url}{CHAT}", json=body()).status_code == 200
    assert provider.requests[0].headers["host"] == "api.provider.test"


def test_a_provider_is_who_its_certificate_says_or_it_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = Certificates(tmp_path)
    files = {"ssl_certfile": str(certificates.server), "ssl_keyfile": str(certificates.server)}
    with FakeProvider(tls=files) as provider:
        with Proxied(provider) as proxied:
            answer = httpx.post(f"{proxied.url}{CHAT}", json=body())
            assert (answer.status_code, answer.json()["error"]["code"]) == (502, "spanfuse_provider_unreachable")
            assert provider.calls == 0
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates.cafile))
        with Proxied(provider) as proxied:
            assert httpx.post(f"{proxied.url}{CHAT}", json=body()).status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"the launch code\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: the launch code\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nthe launch code\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\nthe launch code",
        b"",
    ],
    ids=["no HTTP", "no length", "no chunks", "too short", "nothing"],
)
def test_what_is_no_answer_is_502_and_not_quoted(sent: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as garbled:

        def answer() -> None:
            connection, _ = garbled.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(sent)

        threading.Thread(target=answer, daemon=True).start()
        with Proxied(f"http://127.0.0.1:{garbled.getsockname()[1]}") as proxied:
            got = httpx.post(f"{proxied.url}{CHAT}", json=body())
    assert (got.status_code, got.json()["error"]["code"]) == (502, "spanfuse_provider_unreachable")
    assert "launch" not in got.text
