"""Streams pass byte for byte, as they come, at the pace of who reads them; and break off where the provider's does."""

from __future__ import annotations

import asyncio
import socket
import threading
import zlib
from typing import Any

import aiohttp
import httpx
import pytest

from spanfuse import Guard
from tests.client.waiting import wait_until
from tests.proxy.conftest import CHAT, body
from tests.support.fake_provider import FakeProvider, Hold, Raw, Reply, broken_off
from tests.support.proxied import Proxied, guard

SSE = {"content-type": "text/event-stream"}
WORDS = Reply("one two three four", tools=(("search", {"q": "x"}),), input_tokens=1_000, output_tokens=100)


class Heard:
    """A listener of a Guard that keeps the calls that have ended."""

    def __init__(self, of: Guard) -> None:
        self.calls: list[Any] = []
        of.listen(self)

    def ended(self, call: Any) -> None:
        self.calls.append(call)


@pytest.mark.parametrize("path", [CHAT, "/v1/responses", "/v1/messages", "/v1/completions"])
def test_a_stream_passes_byte_for_byte(provider: FakeProvider, client: httpx.Client, path: str) -> None:
    provider.default = WORDS
    sent = body(stream=True)
    direct = httpx.post(f"{provider.url}{path}", json=sent)
    with client.stream("POST", path, json=sent, headers={"x-spanfuse-session-id": "s"}) as answer:
        data = b"".join(answer.iter_raw())
    assert data.replace(b"-2", b"-1").replace(b"_2", b"_1") == direct.content
    assert answer.headers["content-type"] == direct.headers["content-type"]
    assert answer.headers["x-spanfuse-session-steps"] == "1"


@pytest.mark.parametrize("path", [CHAT, "/v1/responses", "/v1/messages"])
def test_what_a_stream_took_is_known_when_it_has_ended(
    provider: FakeProvider, proxied: Proxied, client: httpx.Client, path: str
) -> None:
    heard = Heard(proxied.guard)
    provider.default = WORDS
    sent = body(stream=True, stream_options={"include_usage": True})
    with client.stream("POST", path, json=sent) as answer:
        answer.read()
    (call,) = heard.calls
    assert (call.answer.input_tokens, call.answer.output_tokens) == (1_000, 100)
    assert "one two three four" in str(call.answer.reply)
    assert "search" in str(call.answer.reply)


def test_a_call_has_ended_before_its_client_knows_the_end_of_its_stream(
    provider: FakeProvider, proxied: Proxied, client: httpx.Client
) -> None:
    heard, never = Heard(proxied.guard), threading.Event()
    pieces = [b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n', b"data: [DONE]\n\n", b": bye\n\n"]
    provider.script(Hold(Raw(200, pieces, SSE), never, after=2))
    with client.stream("POST", CHAT, json=body(stream=True)) as answer:
        for line in answer.iter_lines():
            if line == "data: [DONE]":
                break
        assert len(heard.calls) == 1
        never.set()


def test_each_event_passes_at_once(provider: FakeProvider, client: httpx.Client) -> None:
    release = threading.Event()
    provider.script(Hold(WORDS, release, after=1))
    with client.stream("POST", CHAT, json=body(stream=True)) as answer:
        lines = answer.iter_lines()
        assert "assistant" in next(lines)
        release.set()
        assert list(lines)[-2] == "data: [DONE]"


@pytest.mark.parametrize("path", [CHAT, "/v1/messages"])
def test_a_stream_that_breaks_off_breaks_off_for_the_client(
    provider: FakeProvider, proxied: Proxied, client: httpx.Client, path: str
) -> None:
    heard = Heard(proxied.guard)
    provider.script(broken_off(path, WORDS, after=4))
    with client.stream("POST", path, json=body(stream=True)) as answer, pytest.raises(httpx.RemoteProtocolError):
        answer.read()
    wait_until(lambda: heard.calls)
    assert isinstance(heard.calls[0].error, aiohttp.ClientError)
    assert client.post(path, json=body()).status_code == 200


def test_a_provider_that_fails_within_its_stream_has_failed(
    provider: FakeProvider, proxied: Proxied, client: httpx.Client
) -> None:
    heard = Heard(proxied.guard)
    pieces = [b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n']
    provider.script(Raw(200, pieces, SSE))
    with client.stream("POST", "/v1/messages", json=body(stream=True)) as answer:
        assert answer.read() == pieces[0]
    assert "overloaded_error" in str(heard.calls[0].error)


def test_a_compressed_stream_passes_compressed_and_is_read(
    provider: FakeProvider, proxied: Proxied, client: httpx.Client
) -> None:
    heard = Heard(proxied.guard)
    packer = zlib.compressobj(wbits=31)
    plain = httpx.post(f"{provider.url}/v1/messages", json=body(stream=True)).content
    pieces = [packer.compress(plain[n : n + 50]) + packer.flush(zlib.Z_SYNC_FLUSH) for n in range(0, len(plain), 50)]
    pieces.append(packer.flush())
    provider.script(Raw(200, pieces, SSE | {"content-encoding": "gzip"}))
    with client.stream("POST", "/v1/messages", json=body(stream=True)) as answer:
        assert b"".join(answer.iter_raw()) == b"".join(pieces)
    assert (heard.calls[0].answer.input_tokens, heard.calls[0].answer.output_tokens) == (12, 5)


def test_a_client_that_leaves_its_stream_is_no_load_on_the_provider(provider: FakeProvider, proxied: Proxied) -> None:
    heard, never = Heard(proxied.guard), threading.Event()
    provider.script(Hold(WORDS, never, after=3))
    with httpx.stream("POST", f"{proxied.url}{CHAT}", json=body(stream=True)) as answer:
        next(answer.iter_lines())
    wait_until(lambda: provider.left == 1 and provider.underway == 0)
    wait_until(lambda: heard.calls)
    assert isinstance(heard.calls[0].error, asyncio.CancelledError)


def test_a_slow_reader_slows_the_provider_down_and_fills_no_memory(provider: FakeProvider, proxied: Proxied) -> None:
    piece, many = b"data: " + b" " * 65_000 + b"\n\n", 2_000
    sent = []

    class Counted(list[bytes]):
        def __iter__(self) -> Any:
            for n in range(many):
                sent.append(n)
                yield piece

    provider.script(Raw(200, Counted(), SSE))
    host, port = proxied.url.removeprefix("http://").split(":")
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        slow.connect((host, int(port)))
        slow.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 15\r\n\r\n".encode() + b'{"stream":true}')
        assert slow.recv(100).startswith(b"HTTP/1.1 200")
        wait_until(lambda: _still(sent), what="nothing more is taken")
        assert len(sent) < many / 4, "of 130 MB most are still with the provider"
    wait_until(lambda: provider.underway == 0)


def _still(sent: list[int]) -> bool:
    before = len(sent)
    threading.Event().wait(0.3)
    return before > 0 and len(sent) == before


def test_an_event_that_never_ends_passes_and_is_not_kept(
    provider: FakeProvider, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spanfuse.reading.wire.MAX_BYTES", 10_000)
    provider.script(Raw(200, [b"data: " + b"x" * 9_000] * 5, SSE))
    with client.stream("POST", CHAT, json=body(stream=True)) as answer:
        assert len(answer.read()) == 5 * 9_006


def test_many_streams_run_at_one_time(provider: FakeProvider) -> None:
    release, many = threading.Event(), 200
    provider.default = Hold(WORDS, release, after=2)

    async def one(client: httpx.AsyncClient, n: int) -> tuple[str, bytes]:
        headers = {"x-spanfuse-session-id": f"run-{n}"}
        async with client.stream("POST", CHAT, json=body(f"question {n}", stream=True), headers=headers) as answer:
            return answer.headers["x-spanfuse-session-steps"], await answer.aread()

    async def all_of_them(url: str) -> list[tuple[str, bytes]]:
        limits = httpx.Limits(max_connections=many)
        async with httpx.AsyncClient(base_url=url, limits=limits, trust_env=False, timeout=60) as client:
            tasks = [asyncio.create_task(one(client, n)) for n in range(many)]
            await asyncio.to_thread(wait_until, lambda: provider.underway == many, 30)
            release.set()
            return await asyncio.gather(*tasks)

    with Proxied(provider, guard(local=True)) as proxied:
        answers = asyncio.run(all_of_them(proxied.url))
        assert [steps for steps, _ in answers] == ["1"] * many
        assert all(data.endswith(b"data: [DONE]\n\n") for _, data in answers)
        assert proxied.guard.counters.errors == 0
