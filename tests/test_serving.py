"""What all servers of the processor share."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

import pytest

from spanfuse_processor import serving
from spanfuse_processor.serving import HttpServer, listen


def test_small_answers_go_at_once() -> None:
    """Otherwise each waits 40 ms for the client to acknowledge the one before, on an event loop of asyncio's own."""

    async def accepted() -> int:
        listener = listen("a server", "127.0.0.1", 0)
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        async with await asyncio.start_server(connected, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            writer.close()
            return await found

    assert asyncio.run(accepted())


async def _answers(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def talk(*pieces: bytes, pause_s: float = 0.0) -> bytes:
    """What a server answers to these bytes, until it ends the connection or has answered."""

    async def run() -> bytes:
        server = HttpServer("a server", _answers, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", await server.start())
        try:
            with contextlib.suppress(ConnectionError):
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(pause_s)
            async with asyncio.timeout(10):
                return await reader.read(4096)
        except ConnectionError:
            return b""
        finally:
            writer.close()
            await server.stop(1)

    return asyncio.run(run())


LINE = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    "endless",
    [
        [LINE, b"X: ", *[b"a" * 10_000] * 40],
        [LINE, *[b"X: " + b"a" * 10_000 + b"\r\n"] * 40],
        [b"GET /", *[b"a" * 10_000] * 40],
    ],
    ids=["one header", "many headers", "the address"],
)
def test_a_head_without_end_is_refused(endless: list[bytes]) -> None:
    """Before any token is looked at, so that strangers cannot fill the memory of a process."""
    assert talk(*endless, pause_s=0.001)[:12] in (b"HTTP/1.1 431", b"")


def test_large_heads_that_end_are_taken_one_after_the_other() -> None:
    """On one connection, each with a body behind it; only what belongs to a head counts."""
    head = LINE.replace(b"GET", b"POST") + b"X: " + b"a" * 40_000 + b"\r\nContent-Length: 90000\r\n\r\n"
    assert talk(head, b"b" * 90_000, head, b"b" * 90_000).startswith(b"HTTP/1.1 200")


def test_a_head_that_does_not_come_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HEAD_TIMEOUT_S", 0.05)
    assert talk(LINE) == b""
    assert talk() == b""
    assert talk(LINE + b"\r\n").startswith(b"HTTP/1.1 200")
