"""How long a decision takes to all that listen to the API of a running `spanfuse up`.

The clock starts when an operator's reset is sent, and stops at each client when it has the event. The baseline is a bare
loopback server that writes the same bytes to as many sockets, one after the other, when it is asked to.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import statistics
import tempfile
import time
import urllib.request
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bench.report import Figure
from tests.support.hosts import Deployment, embedded
from tests.support.recorded import repeater

CLIENTS: Final = 500
SAMPLES: Final = 20
_GIVE_UP_S: Final = 30.0
_ASK: Final = b"GET /v1/decisions/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"
_RESET: Final = b'{"key":"session:s"}'
_EVENT: Final = (
    b'event: decision\ndata: {"key":"session:s","state":"closed","issued_at_ns":1,"epoch":%d,"reset":true}\n\n'
)


async def _listen(port: int, ask: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(ask)
    await reader.readuntil(b"ready")
    return reader, writer


async def _heard(reader: asyncio.StreamReader, began: float) -> float:
    while b'"reset":true' not in await reader.readuntil(b"\n\n"):
        pass
    return time.perf_counter() - began


async def _fan_out(port: int, ask: bytes, trigger: bytes) -> list[float]:
    """Seconds until each client had each event."""
    clients = [await _listen(port, ask) for _ in range(CLIENTS)]
    taken: list[float] = []
    for _ in range(SAMPLES + 2):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        began = time.perf_counter()
        waiting = [asyncio.create_task(_heard(one, began)) for one, _ in clients]
        writer.write(trigger)
        async with asyncio.timeout(_GIVE_UP_S):
            taken += await asyncio.gather(*waiting)
        writer.close()
        await asyncio.sleep(0.05)
    for _, writer in clients:
        writer.close()
    return sorted(taken[2 * CLIENTS :])


def _stopped(host: Deployment) -> int:
    """Have a session stopped, which can then be reset; the port of the API."""
    for body in repeater(3):
        headers = {"Content-Type": "application/json"}
        urllib.request.urlopen(
            urllib.request.Request(f"{host.otlp}/v1/traces", json.dumps(body).encode(), headers)
        ).read()
    return urlsplit(host.api).port or 0


def _bare(pipe: Connection) -> None:
    """Writes an event to all that listen when somebody sends a POST."""

    async def serve() -> None:
        clients: list[asyncio.StreamWriter] = []

        async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readline()
            if head.startswith(b"POST"):
                for one in clients:
                    one.write(_EVENT % 1)
                return
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"ready\n\n")
            clients.append(writer)

        server = await asyncio.start_server(client, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


def _baseline() -> list[float]:
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_bare, args=(there,), daemon=True)
    process.start()
    try:
        return asyncio.run(_fan_out(here.recv(), _ASK, b"POST\n"))
    finally:
        process.kill()
        process.join()


def run() -> list[Figure]:
    """The figures."""
    head = (
        f"POST /v1/reset HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(_RESET)}"
    )
    with tempfile.TemporaryDirectory() as folder, embedded(Path(folder), {"service": {"mode": "enforce"}}) as host:
        taken = asyncio.run(_fan_out(_stopped(host), _ASK, head.encode() + b"\r\n\r\n" + _RESET))
    bare = _baseline()
    found = [(statistics.median, "p50", ""), (lambda one: one[len(one) * 99 // 100], "p99", "< 250")]
    return [
        Figure(f"a reset to {CLIENTS} clients: {rank}", 1e3 * of(taken), "ms", 1e3 * of(bare), "bare sockets", aim)
        for of, rank, aim in found
    ]
