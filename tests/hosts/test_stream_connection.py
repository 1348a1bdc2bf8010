"""A connection that a dying broker resets is an outage, on every event loop."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.admin import ApiVersionRequest

from spanfuse_processor.hosts.stream.connection import Connection

uvloop = pytest.importorskip("uvloop")

RESET = struct.pack("ii", 1, 0)
"""`SO_LINGER` on and 0 s: closing resets."""


@asynccontextmanager
async def about_to_be_reset() -> AsyncIterator[Connection]:
    """A connection without its reader, which is what would tell it of the reset a moment later."""

    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.transport.abort()

    server = await asyncio.start_server(reset, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    connection: Any = Connection(host, port)
    connection._reader, connection._writer = await asyncio.open_connection(host, port)
    connection._closed_fut = connection._loop.create_future()
    connection._read_task = asyncio.create_task(asyncio.Event().wait())
    try:
        yield connection
    finally:
        connection.close()
        server.close()


async def write_until_refused() -> None:
    async with about_to_be_reset() as connection:
        connection._writer.write(b"x")
        while connection._reader.exception() is None:  # noqa: ASYNC110  The reader tells a reader only.
            await asyncio.sleep(0)
        assert connection.connected(), "it does not know yet"
        with pytest.raises(KafkaConnectionError, match="broken"):
            connection.send(ApiVersionRequest())
        assert not connection.connected()


def test_a_write_after_a_reset_is_a_connection_error() -> None:
    """uvloop's own error would end aiokafka's background tasks for good."""
    uvloop.run(write_until_refused())
