"""All that happens, over a real socket: numbered, resumed, bounded, ended with the token."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from spanfuse_processor.api.access import Access
from spanfuse_processor.api.app import create_app
from spanfuse_processor.api.events import EventStream
from spanfuse_processor.config.api import Api as Settings
from spanfuse_processor.exporters.events import EventLog
from spanfuse_processor.exporters.hub import Hub
from spanfuse_processor.serving import HttpServer
from tests.support.api import READ, SETTINGS
from tests.support.console import FakeConsole
from tests.support.loops import in_loop, until


class Served:
    """A console behind a real server."""

    def __init__(self, hub: Hub | None = None, kept: int = 100, settings: Settings | None = None) -> None:
        self.host = FakeConsole(20)
        self.host.log = EventLog(hub, kept)
        self.server = HttpServer("the API", create_app(self.host, access=Access(settings)), "127.0.0.1", 0)
        self.port = 0

    @asynccontextmanager
    async def listening(
        self, *headers: str, query: str = "", limit: int = 2**16
    ) -> AsyncIterator[asyncio.StreamReader]:
        """A client that has asked for the events and read the head of the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=limit)
        lines = [f"GET /v1/events{query} HTTP/1.1", "Host: localhost", *headers, "", ""]
        writer.write("\r\n".join(lines).encode())
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)).lower()
        assert b"200 ok" in head, head
        try:
            yield reader
        finally:
            writer.close()


@asynccontextmanager
async def served(hub: Hub | None = None, kept: int = 100, settings: Settings | None = None) -> AsyncIterator[Served]:
    made = Served(hub, kept, settings)
    made.port = await made.server.start()
    try:
        yield made
    finally:
        made.host.log.hub.close()
        await made.server.stop(1)


async def event(reader: asyncio.StreamReader) -> tuple[str, str, str]:
    """Id, name and data of the next event."""
    while True:
        block = (await asyncio.wait_for(reader.readuntil(b"\n\n"), 5)).decode()
        found = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "event" in found:
            return found["id"], found["event"], found["data"]


@in_loop
async def test_who_was_away_goes_on_behind_the_last_event_it_heard() -> None:
    async with served() as api:
        async with api.listening() as reader:
            assert (await event(reader))[1] == "ready"
            api.host.log.publish("decision", b'{"n":1}')
            last, name, data = await event(reader)
            assert (name, data) == ("decision", '{"n":1}')
        await until(lambda: len(api.host.log.hub) == 0)
        for n in (2, 3):
            api.host.log.publish("detection", b'{"n":%d}' % n)
        for again in (
            api.listening(f"Last-Event-ID: {last}"),
            api.listening(query=f"?last_id={last}"),
        ):
            async with again as reader:
                assert [(await event(reader))[1:] for _ in range(3)] == [
                    ("detection", '{"n":2}'),
                    ("detection", '{"n":3}'),
                    ("ready", "{}"),
                ]


@pytest.mark.parametrize("last", ["x", "0-0", "ffffffffffff-1"])
def test_who_was_away_too_long_is_told_to_begin_anew(last: str) -> None:
    @in_loop
    async def run() -> None:
        async with served(kept=2) as api, api.listening(f"Last-Event-ID: {last}") as reader:
            assert [(await event(reader))[1] for _ in range(2)] == ["anew", "ready"]

    run()


@in_loop
async def test_an_order_over_the_api_is_heard_by_all() -> None:
    async with served() as api, api.listening() as one, api.listening() as other:
        for reader in (one, other):
            assert (await event(reader))[1] == "ready"
        await api.host.reset("session:run-00011", "alice")
        for reader in (one, other):
            _, name, data = await event(reader)
            assert name == "decision"
            assert '"reset":true' in data


@in_loop
async def test_a_client_that_does_not_read_is_dropped_and_others_are_not_kept_waiting() -> None:
    async with served(Hub(max_waiting=50)) as api, api.listening(limit=1024) as slow, api.listening() as quick:
        await event(quick)
        for n in range(2000):
            api.host.log.publish("decision", b'{"n":%d,"fill":"%s"}' % (n, b"f" * 10_000))
            assert f'"n":{n},' in (await event(quick))[2]
            if api.host.log.hub.dropped:
                break
        assert api.host.log.hub.dropped == 1
        assert slow is not None


@in_loop
async def test_more_clients_than_there_is_room_for_are_asked_to_come_again() -> None:
    async with served(Hub(max_listeners=1)) as api, api.listening():
        with pytest.raises(AssertionError, match="503"):
            async with api.listening():
                pass


@in_loop
async def test_five_hundred_clients_hear_each_event_once() -> None:
    async with served() as api:
        clients = [api.listening() for _ in range(500)]
        readers = await asyncio.gather(*(client.__aenter__() for client in clients))
        try:
            await asyncio.gather(*(event(reader) for reader in readers))
            for n in range(3):
                api.host.log.publish("decision", b'{"n":%d}' % n)
            heard = [await asyncio.gather(*(event(reader) for reader in readers)) for _ in range(3)]
            assert [{data for _, _, data in round_} for round_ in heard] == [{f'{{"n":{n}}}'} for n in range(3)]
            assert api.host.log.hub.dropped == 0
        finally:
            await asyncio.gather(*(client.__aexit__(None, None, None) for client in clients))


@in_loop
async def test_a_stream_ends_when_its_token_does() -> None:
    listener = Hub().listen()
    sent: list[bytes] = []

    async def send(message: object) -> None:
        assert isinstance(message, dict)
        sent.append(message.get("body", b""))

    stream = EventStream([b"x"], listener, lasts_s=0.02)
    await asyncio.wait_for(stream({}, asyncio.Event().wait, send), 5)  # type: ignore[arg-type]
    assert sent == [b"", b"x", b""]
    assert listener.closed


@in_loop
async def test_a_stream_knows_until_when_its_token_holds() -> None:
    soon = int(time.time()) + 2
    settings = Settings.model_validate({"tokens": [{"name": "t", "token": READ, "expires": soon}]})
    async with served(settings=settings) as api, api.listening(f"Authorization: Bearer {READ}") as reader:
        assert (await event(reader))[1] == "ready"
        await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), 10)


@in_loop
async def test_a_stream_needs_a_token_where_there_are_tokens() -> None:
    async with served(settings=SETTINGS) as api:
        with pytest.raises(AssertionError, match="401"):
            async with api.listening():
                pass
