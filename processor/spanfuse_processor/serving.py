"""Serves an ASGI application within the running event loop; signals are left to whoever runs the loop.

The server itself logs nothing: what strangers send to a port must not fill a log. Applications log what fails in them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from spanfuse_processor.errors import SpanfuseError

MAX_HEAD_BYTES: Final = 64 * 1024
"""Largest request line and headers, bytes; those of a browser with many cookies have some 8 KB."""
HEAD_TIMEOUT_S: Final = 30.0
"""How long they may take to arrive, seconds."""
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Bounded(HttpToolsProtocol):
    """Ends a connection whose request line and headers are too large or too slow: strangers send those, before any token is
    looked at."""

    _head: int | None = 0
    """Bytes of a head that is not complete; none: a body is on its way."""
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_here()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head is not None:
            self._head += len(data)
            if self._late is None:
                self._await_head()
        super().data_received(data)
        if self._head is not None and self._head > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._head_is_here()
        self._head = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._head = 0
        super().on_message_complete()

    def _await_head(self) -> None:
        self._late = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.close)

    def _head_is_here(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class HttpServer:
    """An HTTP server.

    Args:
        name: what is served, for messages.
        app: ASGI application.
        host: address to listen on.
        port: port to listen on; 0: a free one.
        options: of uvicorn, such as those of TLS, in place of those that are set here.
    """

    def __init__(self, name: str, app: Any, host: str, port: int, options: dict[str, Any] | None = None) -> None:
        self._name = name
        self._address = (host, port)
        self._task: asyncio.Task[None] | None = None
        self._server = _Server(
            uvicorn.Config(
                app,
                http=_Bounded,
                log_config=None,
                log_level="critical",
                access_log=False,
                lifespan="off",
                server_header=False,
                ws="none",
                **(options or {}),
            )
        )

    async def start(self) -> int:
        """Listen, and give the port.

        Raises:
            SpanfuseError: the address cannot be bound.
        """
        listener = listen(self._name, *self._address)
        port: int = listener.getsockname()[1]
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]), name=self._name)
        while not self._server.started:
            if self._task.done():
                listener.close()
                self._task.result()
                raise SpanfuseError(f"{self._name} did not start on port {port}")
            await asyncio.sleep(0.001)
        return port

    async def stop(self, grace_s: float) -> None:
        """Take no more requests, and give those under way `grace_s` seconds to finish."""
        if self._task is None:
            return
        self._server.config.timeout_graceful_shutdown = max(1, round(grace_s))
        self._server.should_exit = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._task, grace_s + 2)
        self._task = None


def listen(name: str, host: str, port: int) -> socket.socket:
    """A socket that listens.

    Args:
        name: what is served, for messages.

    Raises:
        SpanfuseError: the address cannot be bound.
    """
    refused = f"{name} cannot listen on {host}:{port}"
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # Of this protocol by name: only then asyncio lets small answers go at once (TCP_NODELAY).
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise SpanfuseError(f"{refused}: {error.strerror or error}") from error
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise SpanfuseError(f"{refused}: {error.strerror or error}") from error
    listener.setblocking(False)
    return listener


def presented(authorization: str | bytes | None) -> bytes:
    """The token in a header `Authorization: Bearer TOKEN`; empty: it has none."""
    given = authorization.encode("utf-8", "replace") if isinstance(authorization, str) else authorization or b""
    scheme, _, token = given.partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else b""
