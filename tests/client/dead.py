"""Addresses at which everything is dead, each in its own way."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

WAYS = ("refused", "mute", "lost")


@contextmanager
def dead(way: str) -> Iterator[str]:
    """`host:port` of a server that is down (`refused`), that accepts and never answers (`mute`), or that cannot be reached,
    as behind a firewall that drops what is sent to it (`lost`)."""
    with ExitStack() as held:
        if way == "refused":
            yield f"127.0.0.1:{free_port()}"
            return
        server = held.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0 if way == "lost" else 128))
        address = server.getsockname()
        while way == "lost" and _connects(address, held):
            continue  # until its queue is full: the kernel then drops further attempts
        yield f"127.0.0.1:{address[1]}"


def _connects(address: tuple[str, int], held: ExitStack) -> bool:
    client = held.enter_context(socket.socket())
    client.settimeout(0.2)
    with contextlib.suppress(TimeoutError):
        client.connect(address)
        return True
    return False


def free_port() -> int:
    """Below the ports of outgoing connections: a client that dials a port on and off may else be connected to itself."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as held, contextlib.suppress(OSError):
            held.bind(("127.0.0.1", port))
            return port
