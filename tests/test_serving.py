"""What all servers of the processor share."""

from __future__ import annotations

import asyncio
import socket

from spanfuse_processor.serving import listen


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
