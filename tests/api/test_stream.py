"""The event stream over a real socket: the present, `ready`, then each change the moment it happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from spanfuse_processor.api import events
from spanfuse_processor.api.app import create_app
from spanfuse_processor.errors import SpanfuseError
from spanfuse_processor.exporters.hub import Hub
from spanfuse_processor.hosts.board import Board
from spanfuse_processor.serving import HttpServer
from spanfuse_schemas import Decision
from tests.support.console import FakeConsole
from tests.support.loops import in_loop, until

REQUEST = b"GET /v1/decisions/stream HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
OPEN = Decision(key="session:a/b", state="open", action="block", mode="enforce", rule="cycle", issued_at_ns=7, epoch=3)


class Served(FakeConsole):
    """A board of decisions behind a real server."""

    def __init__(self, decisions: list[Decision], max_waiting: int = 1000) -> None:
        super().__init__()
        self.hub = Hub(max_waiting)
        self.board = Board(decisions, self.hub)
        self.server = HttpServer("the API", create_app(self), "127.0.0.1", 0)
        self.port = 0
        self.follow = self.board.follow  # type: ignore[method-assign]

    @asynccontextmanager
    async def connected(self, limit: int = 2**20) -> AsyncIterator[asyncio.StreamReader]:
        """A client that has asked for the stream and read the head of the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=limit)
        writer.write(REQUEST)
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)).lower()
        assert b"200 ok" in head
        assert b"text/event-stream" in head
        try:
            yield reader
        finally:
            writer.close()


@asynccontextmanager
async def served(*decisions: Decision, max_waiting: int = 1000) -> AsyncIterator[Served]:
    made = Served(list(decisions), max_waiting)
    made.port = await made.server.start()
    try:
        yield made
    finally:
        made.hub.close()
        await made.server.stop(1)


async def event(reader: asyncio.StreamReader) -> str:
    """The next event or comment; the frames of chunked transfer are left out."""
    while True:
        block = (await asyncio.wait_for(reader.readuntil(b"\n\n"), 5)).decode()
        text = "\n".join(
            line for line in block.split("\n") if (line[:1].isalpha() and ":" in line) or line.startswith(":")
        )
        if text:
            return text


def decided(epoch: int, key: str = "session:x", message: str = "") -> Decision:
    return OPEN.model_copy(update={"key": key, "epoch": epoch, "message": message})


@in_loop
async def test_first_the_present_then_ready_then_each_change_at_once() -> None:
    async with served(OPEN, decided(1)) as api, api.connected() as reader:
        assert await event(reader) == f"event: decision\ndata: {OPEN.to_json().decode()}"
        assert await event(reader) == f"event: decision\ndata: {decided(1).to_json().decode()}"
        assert await event(reader) == "event: ready\ndata: {}"
        for epoch in (2, 3):
            api.board.tell([decided(epoch)], [])
            assert await event(reader) == f"event: decision\ndata: {decided(epoch).to_json().decode()}"


@in_loop
async def test_a_change_during_the_snapshot_comes_after_it() -> None:
    async with served(*(decided(1, f"session:{n}", "m" * 500) for n in range(2000))) as api, api.connected() as reader:
        api.board.tell([decided(2, "session:0")], [])
        seen = [await event(reader) for _ in range(2002)]
        assert seen[2000] == "event: ready\ndata: {}"
        assert seen[2001] == f"event: decision\ndata: {decided(2, 'session:0').to_json().decode()}"


@in_loop
async def test_silence_is_broken_by_comments() -> None:
    listener = Hub().listen()
    stream = events.EventStream([], listener, keepalive_s=0.01)
    sent: list[bytes] = []

    async def send(message: object) -> None:
        assert isinstance(message, dict)
        sent.append(message.get("body", b""))
        if len(sent) > 3:
            listener.close()

    await asyncio.wait_for(stream({}, asyncio.Event().wait, send), 5)  # type: ignore[arg-type]
    assert sent[1:4] == [b": keep-alive\n\n"] * 3
    assert events.KEEPALIVE_S == 5


@in_loop
async def test_a_client_that_goes_away_is_forgotten() -> None:
    async with served() as api:
        async with api.connected() as reader:
            await event(reader)
            assert len(api.hub) == 1
        await until(lambda: len(api.hub) == 0)
        assert api.hub.dropped == 0


@in_loop
async def test_a_client_that_does_not_read_is_dropped_and_others_are_not_kept_waiting() -> None:
    async with served(max_waiting=50) as api, api.connected(limit=1024) as slow, api.connected() as quick:
        await event(quick)
        for epoch in range(1, 2000):
            api.board.tell([decided(epoch, message="m" * 10_000)], [])
            assert f'"epoch":{epoch}' in await event(quick)
            if api.hub.dropped:
                break
        assert api.hub.dropped == 1
        assert slow is not None


@in_loop
async def test_a_blocked_send_ends_after_its_time() -> None:
    listener = Hub().listen()
    stream = events.EventStream([b"x"], listener, send_timeout_s=0.02)

    async def send(message: object) -> None:
        assert isinstance(message, dict)
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    await asyncio.wait_for(stream({}, asyncio.Event().wait, send), 5)  # type: ignore[arg-type]
    assert listener.closed


@in_loop
async def test_the_end_of_the_host_ends_the_stream() -> None:
    async with served() as api, api.connected() as reader:
        await event(reader)
        api.hub.close()
        await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), 5)


@in_loop
async def test_head_is_answered_without_a_stream() -> None:
    async with served() as api:
        reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
        writer.write(REQUEST.replace(b"GET", b"HEAD").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert b"200 OK" in await asyncio.wait_for(reader.read(), 5)
        writer.close()
        assert len(api.hub) == 0


@in_loop
async def test_a_port_that_is_taken_is_one_clear_line() -> None:
    async with served() as api:
        with pytest.raises(
            SpanfuseError, match=rf"the API cannot listen on 127\.0\.0\.1:{api.port}: Address already in use"
        ):
            await HttpServer("the API", create_app(api), "127.0.0.1", api.port).start()


@in_loop
async def test_a_server_leaves_signals_alone() -> None:
    import signal

    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    async with served():
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
